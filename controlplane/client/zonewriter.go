package client

import (
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
)

// ZoneWriterHandler is an optional part of a Handler. OnZoneWriter is called in stream order, so after the catalogue that
// brought the writer; the writer may be gone all the same. What it says holds until the next call, beyond the stream too.
type ZoneWriterHandler interface {
	OnZoneWriter(*api.ZoneWriter)
}

// report sends a probe and the agent's load, if that is known. Both go in one message.
func (s *Session) report(st *stream) {
	st.reported = time.Now()
	s.probe(true)
	if s.cfg.Load == nil {
		return
	}
	if load := s.cfg.Load(); load != nil {
		st.out.push(&api.AgentItem{Item: &api.AgentItem_Load{Load: load}})
	}
}

func (s *Session) zoneWriter(m *api.ZoneWriter) {
	if h, ok := s.cfg.Handler.(ZoneWriterHandler); ok {
		h.OnZoneWriter(m)
	}
}

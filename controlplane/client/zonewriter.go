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

// loadInterval is how often the owner is told the agent's load.
const loadInterval = time.Second

// tellLoad tells the owner how much this agent has to do, if that is known.
func (s *Session) tellLoad(st *stream) {
	if s.cfg.Load == nil {
		return
	}
	st.told = time.Now()
	if load := s.cfg.Load(); load != nil {
		st.out.push(&api.AgentItem{Item: &api.AgentItem_Load{Load: load}})
	}
}

// loadDue tells whether this tick of the sender is the one nearest to the next report.
func (s *Session) loadDue(st *stream) bool {
	return time.Since(st.told) > loadInterval-probeInterval/2
}

func (s *Session) zoneWriter(m *api.ZoneWriter) {
	if h, ok := s.cfg.Handler.(ZoneWriterHandler); ok {
		h.OnZoneWriter(m)
	}
}

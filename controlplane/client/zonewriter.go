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

// report asks for the agent's load, and sends it with a probe: at once unless the agent is idle.
func (s *Session) report(st *stream) {
	st.asked = time.Now()
	if s.cfg.Load != nil {
		st.load = s.cfg.Load()
	}
	switch {
	case st.commits || !idle(st.load, st.said):
		s.heartbeat(st, reportInterval, true)
	case st.asked.Add(probeInterval / 2).After(st.due): // this tick is the nearest
		s.heartbeat(st, st.rest, true)
	}
}

// idle reports whether a load is that of an idle agent, and its zone writer and TakesBatches are those of the report before.
func idle(load, before *api.Load) bool {
	return load.Idle() && load.GetTakesBatches() == before.GetTakesBatches() && load.GetZoneWriter() == before.GetZoneWriter()
}

func (s *Session) zoneWriter(m *api.ZoneWriter) {
	if h, ok := s.cfg.Handler.(ZoneWriterHandler); ok {
		h.OnZoneWriter(m)
	}
}

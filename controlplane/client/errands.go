package client

import "github.com/freshet-io/freshet/controlplane/api"

// ErrandHandler is an optional part of a Handler. Without it, the session answers errands with an error.
type ErrandHandler interface {
	// OnErrand brings an errand. ErrandDone answers it.
	OnErrand(*api.Errand)
}

// ErrandDone answers an errand. It does not wait. Without a stream, the answer is lost: the owner has given the errand to another agent.
func (s *Session) ErrandDone(done *api.ErrandDone) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stream != nil {
		s.mu.stream.out.push(&api.AgentItem{Item: &api.AgentItem_ErrandDone{ErrandDone: done}})
	}
}

func (s *Session) errand(e *api.Errand) {
	if h, ok := s.cfg.Handler.(ErrandHandler); ok {
		h.OnErrand(e)
		return
	}
	s.ErrandDone(&api.ErrandDone{Id: e.Id, Error: "the agent takes no errands"})
}

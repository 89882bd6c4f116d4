package client

import (
	"slices"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// CheckHandler is an optional part of a Handler, for agents with the jobs role.
type CheckHandler interface {
	// OnCheckBundle asks to read a bundle of that size through, and to say by BundleChecked what was found. It must not
	// wait. The owner asks for another only after the answer, or minutes, and asks somebody else if the stream ends.
	OnCheckBundle(name id.Bundle, bytes uint32)
}

// checks tells whether the owner may ask for checks.
func (s *Session) checks() bool {
	_, can := s.cfg.Handler.(CheckHandler)
	return can && slices.Contains(s.cfg.Roles, api.Role_ROLE_JOBS)
}

func (s *Session) checkBundle(m *api.CheckBundle) {
	if h, ok := s.cfg.Handler.(CheckHandler); ok {
		h.OnCheckBundle(id.Bundle(m.Bundle), m.Bytes)
	}
}

var verdicts = map[bundle.Verdict]api.BundleChecked_Verdict{
	bundle.Intact:  api.BundleChecked_INTACT,
	bundle.Missing: api.BundleChecked_MISSING,
	bundle.Broken:  api.BundleChecked_BROKEN,
	bundle.Later:   api.BundleChecked_LATER,
}

// BundleChecked answers OnCheckBundle. It does not wait, and nothing is sent while there is no stream.
func (s *Session) BundleChecked(name id.Bundle, f bundle.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stream != nil {
		s.mu.stream.out.push(&api.AgentItem{Item: &api.AgentItem_BundleChecked{BundleChecked: &api.BundleChecked{
			Bundle: uint64(name), Verdict: verdicts[f.Verdict], What: f.What, Read: uint64(f.Read),
		}}})
	}
}

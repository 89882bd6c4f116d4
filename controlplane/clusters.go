package controlplane

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/session"
)

// clusters are the virtual clusters on this replica, by name. Agents' and operators' calls find their virtual cluster here. The zero value has
// none. It is safe for concurrent use.
type clusters struct {
	mu     sync.RWMutex
	byName map[string]*cluster
}

func (s *clusters) add(c *cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*cluster{}
	}
	s.byName[c.spec.Name] = c
}

func (s *clusters) find(name string) *cluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[name]
}

// all returns the virtual clusters in the order of their names.
func (s *clusters) all() []*cluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.byName), func(a, b *cluster) int { return strings.Compare(a.spec.Name, b.spec.Name) })
}

// session returns the side of a virtual cluster that agents talk to. Error: session.ErrNotServed.
func (s *clusters) session(name string) (*session.Cluster, error) {
	c := s.find(name)
	if c == nil {
		return nil, session.ErrNotServed
	}
	return c.sessions, nil
}

// operator returns the side of a virtual cluster that operators talk to.
func (s *clusters) operator(name string) (operator.Cluster, bool) {
	c := s.find(name)
	if c == nil {
		return operator.Cluster{}, false
	}
	return c.operator(), true
}

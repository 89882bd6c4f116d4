package cache

import (
	"sync"
	"sync/atomic"
)

// store keeps units within bounds of bytes, per class, dropping the least recently used.
type store struct {
	metrics *metrics
	limit   [classes]int64
	pinned  atomic.Int64 // bytes of units that left while readers held them

	mu struct {
		sync.Mutex
		units map[unitKey]*unit
		bytes [classes]int64
		// ring heads: next is the most, prev the least recently used
		rings [classes]*unit
	}
}

func newStore(live, catchUp int64, m *metrics) *store {
	s := &store{metrics: m, limit: [classes]int64{Live: live, CatchUp: catchUp}}
	s.mu.units = make(map[unitKey]*unit)
	for i := range s.mu.rings {
		head := &unit{}
		head.next, head.prev = head, head
		s.mu.rings[i] = head
	}
	return s
}

// get finds a unit and pins it: the caller releases it.
func (s *store) get(key unitKey) *unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.mu.units[key]
	if u != nil {
		u.retain()
		s.unlink(u)
		s.link(u)
	}
	return u
}

// has tells whether the unit is there, without using it.
func (s *store) has(key unitKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.units[key] != nil
}

// put takes over the caller's reference to u. A unit of the same key is replaced. What is over the bound goes; a unit
// larger than the bound is dropped at once.
func (s *store) put(u *unit, class Class) {
	u.class = class
	s.mu.Lock()
	var out []*unit
	if old := s.mu.units[u.key]; old != nil {
		out = append(out, s.remove(old))
	}
	s.mu.units[u.key] = u
	s.mu.bytes[class] += u.size
	s.link(u)
	evicted := int64(0)
	for ring := s.mu.rings[class]; s.mu.bytes[class] > s.limit[class] && ring.prev != ring; {
		evicted += ring.prev.size
		out = append(out, s.remove(ring.prev))
	}
	s.metrics.bytes.WithLabelValues(class.String()).Set(float64(s.mu.bytes[class]))
	s.mu.Unlock()
	if evicted > 0 {
		s.metrics.evicted.WithLabelValues(class.String()).Add(float64(evicted))
	}
	for _, old := range out { // after the lock: releasing may call out
		old.release()
	}
}

// drop forgets this unit, if it is still the one of its key.
func (s *store) drop(u *unit) {
	s.mu.Lock()
	there := s.mu.units[u.key] == u
	if there {
		s.remove(u)
	}
	s.mu.Unlock()
	if there {
		u.release()
	}
}

// remove takes a unit out; its reference is the caller's then. Until the last reference is gone it counts as pinned.
func (s *store) remove(u *unit) *unit {
	u.pinned = &s.pinned
	s.pinned.Add(u.size)
	delete(s.mu.units, u.key)
	s.mu.bytes[u.class] -= u.size
	s.unlink(u)
	return u
}

func (s *store) link(u *unit) {
	head := s.mu.rings[u.class]
	u.prev, u.next = head, head.next
	head.next.prev, head.next = u, u
}

func (s *store) unlink(u *unit) {
	u.prev.next, u.next.prev = u.next, u.prev
	u.prev, u.next = nil, nil
}

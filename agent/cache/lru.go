package cache

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/metadata/extent"
)

// store keeps units within bounds of bytes, per class, dropping the least recently used. Units that were read ahead and
// not used yet stay, up to half of the bound, until nothing else is left to drop or they are too old.
type store struct {
	metrics *metrics
	limit   [classes]int64
	pinned  atomic.Int64 // bytes of units that left while readers held them

	mu struct {
		sync.Mutex
		units map[unitKey]*unit
		bytes [classes]int64
		// ring heads: next is the most, prev the least recently used, or the one that came first
		used, ahead [classes]*unit
		aheadBytes  [classes]int64
		// of units in ahead, by the reader they were read for
		aheadOf [classes]map[uint64]int64
		freed   chan struct{} // closed when a unit leaves ahead
	}
}

// maxAhead is how long a unit that was read ahead and not used is kept before others.
const maxAhead = 15 * time.Second

func newStore(live, catchUp int64, m *metrics) *store {
	s := &store{metrics: m, limit: [classes]int64{Live: live, CatchUp: catchUp}}
	s.mu.units = make(map[unitKey]*unit)
	s.mu.freed = make(chan struct{})
	for i := range classes {
		s.mu.used[i], s.mu.ahead[i] = newRing(), newRing()
		s.mu.aheadOf[i] = make(map[uint64]int64)
	}
	return s
}

func newRing() *unit {
	head := &unit{}
	head.next, head.prev = head, head
	return head
}

// get finds a unit and pins it: the caller releases it.
func (s *store) get(key unitKey) *unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.mu.units[key]
	if u != nil {
		u.retain()
		s.unlink(u)
		u.unread = false
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

// keep is has, and lets the unit stay for longer: somebody will use it.
func (s *store) keep(key unitKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.mu.units[key]
	if u != nil && !u.unread {
		s.unlink(u)
		s.link(u)
	}
	return u != nil
}

// mark gives the last batch's position that the unit remembers of an extent at or before an offset; 0 if there is none.
func (s *store) mark(key unitKey, e *extent.Extent, offset int64) uint32 {
	s.mu.Lock()
	u := s.mu.units[key]
	if u == nil {
		s.mu.Unlock()
		return 0
	}
	u.retain()
	s.mu.Unlock()
	defer u.release()
	return u.mark(e, offset)
}

// put takes over the caller's reference to u. A unit of the same key is replaced. What is over the bound goes; a unit
// larger than the bound is dropped at once. ahead says that nobody waits for it yet.
func (s *store) put(u *unit, class Class, ahead bool) {
	u.class, u.unread, u.since = class, ahead && class == CatchUp, time.Now()
	s.mu.Lock()
	var out []*unit
	if old := s.mu.units[u.key]; old != nil {
		out = append(out, s.remove(old))
	}
	s.mu.units[u.key] = u
	s.mu.bytes[class] += u.size
	s.link(u)
	evicted := int64(0)
	for s.mu.bytes[class] > s.limit[class] {
		last := s.last(class)
		evicted += last.size
		out = append(out, s.remove(last))
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

// last is the unit to drop next. The class has one. The lock is held.
func (s *store) last(class Class) *unit {
	used, ahead := s.mu.used[class], s.mu.ahead[class]
	if ahead.prev != ahead && (used.prev == used || s.mu.aheadBytes[class] > s.limit[class]/2) {
		return ahead.prev
	}
	return used.prev
}

// roomAhead tells whether size more bytes may be read ahead for a reader. If not, freed is closed when that may have
// changed.
func (s *store) roomAhead(class Class, reader uint64, size int64) (ok bool, freed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age(class)
	fits := s.mu.aheadBytes[class]+size <= s.limit[class]/2 &&
		s.mu.aheadOf[class][reader]+size <= max(s.share(class, reader), size)
	return class == Live || s.mu.aheadBytes[class] == 0 || fits, s.mu.freed
}

// aheadShare is a reader's part of what may be read ahead, bytes.
func (s *store) aheadShare(class Class, reader uint64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age(class)
	return s.share(class, reader)
}

// share is aheadShare under the lock: all readers that have something ahead share half of what the class keeps evenly.
func (s *store) share(class Class, reader uint64) int64 {
	of := s.mu.aheadOf[class]
	readers := int64(len(of))
	if of[reader] == 0 {
		readers++
	}
	return s.limit[class] / 2 / readers
}

// age moves what was read ahead long ago to what goes first. The lock is held.
func (s *store) age(class Class) {
	ahead, used := s.mu.ahead[class], s.mu.used[class]
	for u := ahead.prev; u != ahead && time.Since(u.since) > maxAhead; u = ahead.prev {
		s.unlink(u)
		u.unread = false
		u.next, u.prev = used, used.prev // the least recently used
		used.prev.next, used.prev = u, u
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
	head := s.mu.used[u.class]
	if u.unread {
		head = s.mu.ahead[u.class]
		s.mu.aheadBytes[u.class] += u.size
		s.mu.aheadOf[u.class][u.reader] += u.size
	}
	u.prev, u.next = head, head.next
	head.next.prev, head.next = u, u
}

func (s *store) unlink(u *unit) {
	u.prev.next, u.next.prev = u.next, u.prev
	u.prev, u.next = nil, nil
	if !u.unread {
		return
	}
	s.mu.aheadBytes[u.class] -= u.size
	of := s.mu.aheadOf[u.class]
	if of[u.reader] -= u.size; of[u.reader] <= 0 {
		delete(of, u.reader)
	}
	close(s.mu.freed)
	s.mu.freed = make(chan struct{})
}

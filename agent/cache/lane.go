package cache

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Bounds of what a GET reserves before it begins: objects' sizes are not known before they are read, so the lane's
// recent ones tell.
const (
	minReserve   = chunkSize
	firstReserve = 1 << 20 // before anything was read
)

// lane bounds the GETs of one class: how many, and the memory they read into. A GET reserves what its first unit will
// probably need and takes more chunk by chunk; at the bound only the oldest goes on, which may exceed it by one unit, so
// that GETs never wait for each other.
//
// It is fair to readers, whatever the number of GETs that each asks for: the next place is for who had the fewest bytes
// since it began to ask (start-time fair queueing), and no reader has more than half of the places.
type lane struct {
	room   int64 // bytes
	places int

	mu struct {
		sync.Mutex
		used    int64
		taken   int      // places
		typical int64    // size of recent units, bytes
		active  []*grant // oldest first
		freed   chan struct{}
		wanted  chan struct{} // closed when somebody begins to wait for a place or memory
		starved int           // GETs under way that wait for memory
		clock   int64         // bytes that the reader served last had, in fair queueing's virtual time
		readers map[uint64]*share
	}
}

// share is a reader's part of the lane while it has or wants GETs.
type share struct {
	reader  uint64
	clock   int64 // bytes had, in virtual time
	taken   int
	waiting []*ticket // in order
}

// ticket is a GET that waits for its place.
type ticket struct {
	span  int64
	ready chan struct{} // closed with grant set
	grant *grant
}

// grant is the place and the memory of one GET under way.
type grant struct {
	lane  *lane
	share *share
	held  int64 // guarded by the lane's lock
}

func newLane(places int, room int64) *lane {
	l := &lane{places: places, room: room}
	l.mu.typical = firstReserve
	l.mu.freed, l.mu.wanted = make(chan struct{}), make(chan struct{})
	l.mu.readers = make(map[uint64]*share)
	return l
}

// reserve is what a GET of units of at most span bytes begins with. The lock is held.
func (l *lane) reserve(span int64) int64 {
	typical := l.mu.typical + l.mu.typical/4
	return min(max(typical, minReserve), span, l.room)
}

// expected is what a unit of at most span bytes will probably have.
func (l *lane) expected(span int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(max(l.mu.typical, minReserve), span)
}

// acquireFor waits for a GET's turn. Readers are told apart by their number; 0 are all those that have none. The grant
// is given back by release.
func (l *lane) acquireFor(ctx context.Context, reader uint64, span int64) (*grant, error) {
	t := &ticket{span: span, ready: make(chan struct{})}
	l.mu.Lock()
	s := l.share(reader)
	s.waiting = append(s.waiting, t)
	l.dispatch()
	if t.grant == nil {
		l.want()
	}
	l.mu.Unlock()
	select {
	case <-t.ready:
		return t.grant, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.grant != nil { // it came meanwhile
		l.giveBack(t.grant)
	} else {
		s.waiting = slices.DeleteFunc(s.waiting, func(other *ticket) bool { return other == t })
		l.forget(s)
	}
	return nil, context.Cause(ctx)
}

// share finds or makes a reader's. Who comes anew has no credit of the past. The lock is held.
func (l *lane) share(reader uint64) *share {
	s := l.mu.readers[reader]
	if s == nil {
		s = &share{reader: reader, clock: l.mu.clock}
		l.mu.readers[reader] = s
	}
	return s
}

// forget drops a share that is not in use. The lock is held.
func (l *lane) forget(s *share) {
	if s.taken == 0 && len(s.waiting) == 0 && l.mu.readers[s.reader] == s {
		delete(l.mu.readers, s.reader)
	}
}

// dispatch gives out places while there are any. The lock is held.
func (l *lane) dispatch() {
	for l.mu.taken < l.places {
		s := l.next()
		if s == nil {
			return
		}
		t := s.waiting[0]
		n := l.reserve(t.span)
		if l.mu.used > 0 && l.mu.used+n > l.room {
			return // it is its turn: nobody passes it
		}
		s.waiting = s.waiting[1:]
		s.clock = max(s.clock, l.mu.clock)
		l.mu.clock = s.clock
		s.clock += n
		s.taken++
		t.grant = &grant{lane: l, share: s, held: n}
		l.mu.taken++
		l.mu.used += n
		l.mu.active = append(l.mu.active, t.grant)
		close(t.ready)
	}
}

// next is the reader whose turn it is, nil if there is none. The lock is held.
func (l *lane) next() (first *share) {
	for _, s := range l.mu.readers {
		if len(s.waiting) == 0 || s.reader != 0 && s.taken >= max(l.places/2, 1) {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(s.clock, first.clock), cmp.Compare(s.reader, first.reader)) < 0 {
			first = s
		}
	}
	return first
}

// want tells who does not need its place that somebody waits. The lock is held.
func (l *lane) want() {
	close(l.mu.wanted)
	l.mu.wanted = make(chan struct{})
}

// contended is closed when somebody begins to wait for a place or for memory, which the oldest alone has without bound:
// who does not need its own place gives it up. It is closed already if somebody waits.
func (l *lane) contended() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.starved > 0 {
		return alreadyClosed
	}
	for _, s := range l.mu.readers {
		if len(s.waiting) > 0 {
			return alreadyClosed
		}
	}
	return l.mu.wanted
}

var alreadyClosed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// grow makes sure of memory for size bytes of the unit that is being read.
func (g *grant) grow(ctx context.Context, size int64) error {
	l := g.lane
	for {
		l.mu.Lock()
		more := size - g.held
		ok := more <= 0 || l.mu.used+more <= l.room || l.mu.active[0] == g
		if ok && more > 0 {
			g.take(more)
		}
		if ok {
			l.mu.Unlock()
			return nil
		}
		freed := l.mu.freed
		l.mu.starved++
		l.want()
		l.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
		l.mu.Lock()
		l.mu.starved--
		l.mu.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// take adds to, or with a negative n gives back, what is held. The lock is held.
func (g *grant) take(n int64) {
	g.held += n
	g.lane.mu.used += n
	g.share.clock = max(g.share.clock+n, 0)
}

// done ends a unit of that size: its memory is the cache's account now.
func (g *grant) done(size int64) {
	l := g.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	g.share.clock += size - g.held
	l.mu.used -= g.held
	g.held = 0
	if size > l.mu.typical {
		l.mu.typical = size // at once: reserving too little holds up others
	} else {
		l.mu.typical -= (l.mu.typical - size) / 8
	}
	l.free()
}

// release gives the place back. size is that of a unit which was read and is not told of yet; 0 if there is none.
func (g *grant) release(size int64) {
	if size > 0 {
		g.done(size)
	}
	g.lane.mu.Lock()
	defer g.lane.mu.Unlock()
	g.lane.giveBack(g)
}

// giveBack ends a grant. The lock is held.
func (l *lane) giveBack(g *grant) {
	l.mu.used -= g.held
	g.held = 0
	l.mu.taken--
	g.share.taken--
	if i := slices.Index(l.mu.active, g); i >= 0 {
		l.mu.active = slices.Delete(l.mu.active, i, i+1)
	}
	l.forget(g.share)
	l.free()
}

// free tells who waits that there is more. The lock is held.
func (l *lane) free() {
	close(l.mu.freed)
	l.mu.freed = make(chan struct{})
	l.dispatch()
}

// idle tells whether a GET of at most span bytes would start at once.
func (l *lane) idle(span int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.taken >= l.places || l.next() != nil {
		return false
	}
	return l.mu.used == 0 || l.mu.used+l.reserve(span) <= l.room
}

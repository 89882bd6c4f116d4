package cache

import (
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
// Places are given out in the order of asking, but a reader that gets one goes behind all others that wait, and no reader has
// more than half of them. So a reader waits for one turn of each other at most, however many GETs those ask for.
type lane struct {
	room   int64 // bytes
	places int

	mu struct {
		sync.Mutex
		used    int64
		typical int64          // size of recent units, bytes
		active  []*grant       // oldest first, one for each place taken
		taken   map[uint64]int // places, by reader
		waiting []*ticket      // in order
		freed   chan struct{}
		wanted  chan struct{} // closed when somebody begins to wait for a place or memory
		starved int           // GETs under way that wait for memory
	}
}

// ticket is a GET that waits for its place.
type ticket struct {
	reader uint64
	span   int64
	ready  chan struct{} // closed with grant set
	grant  *grant
}

// grant is the place and the memory of one GET under way.
type grant struct {
	lane   *lane
	reader uint64
	held   int64 // guarded by the lane's lock
}

func newLane(places int, room int64) *lane {
	l := &lane{places: places, room: room}
	l.mu.typical = firstReserve
	l.mu.freed, l.mu.wanted = make(chan struct{}), make(chan struct{})
	l.mu.taken = make(map[uint64]int)
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
	t := &ticket{reader: reader, span: span, ready: make(chan struct{})}
	l.mu.Lock()
	l.mu.waiting = append(l.mu.waiting, t)
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
		l.mu.waiting = slices.DeleteFunc(l.mu.waiting, func(other *ticket) bool { return other == t })
		l.dispatch() // others may have waited behind it for memory
	}
	return nil, context.Cause(ctx)
}

// dispatch gives out places while there are any. The lock is held.
func (l *lane) dispatch() {
	for len(l.mu.active) < l.places {
		i := l.next()
		if i < 0 {
			return
		}
		t := l.mu.waiting[i]
		n := l.reserve(t.span)
		if l.mu.used > 0 && l.mu.used+n > l.room {
			return // it is its turn: nobody passes it
		}
		l.mu.waiting = slices.Delete(l.mu.waiting, i, i+1)
		l.letPass(t.reader)
		t.grant = &grant{lane: l, reader: t.reader, held: n}
		l.mu.taken[t.reader]++
		l.mu.used += n
		l.mu.active = append(l.mu.active, t.grant)
		close(t.ready)
	}
}

// next is the index of the ticket whose turn it is, -1 if there is none. The lock is held.
func (l *lane) next() int {
	return slices.IndexFunc(l.mu.waiting, func(t *ticket) bool {
		return t.reader == 0 || l.mu.taken[t.reader] < max(l.places/2, 1)
	})
}

// letPass puts a reader's tickets behind those of all others. The lock is held.
func (l *lane) letPass(reader uint64) {
	others, own := l.mu.waiting[:0], []*ticket(nil)
	for _, t := range l.mu.waiting {
		if t.reader == reader {
			own = append(own, t)
		} else {
			others = append(others, t)
		}
	}
	l.mu.waiting = append(others, own...)
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
	if l.mu.starved > 0 || len(l.mu.waiting) > 0 {
		return alreadyClosed
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
		if ok {
			g.held += max(more, 0)
			l.mu.used += max(more, 0)
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

// done ends a unit of that size: its memory is the cache's account now.
func (g *grant) done(size int64) {
	l := g.lane
	l.mu.Lock()
	defer l.mu.Unlock()
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
	if l.mu.taken[g.reader]--; l.mu.taken[g.reader] == 0 {
		delete(l.mu.taken, g.reader)
	}
	l.mu.active = slices.DeleteFunc(l.mu.active, func(other *grant) bool { return other == g })
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
	if len(l.mu.active) >= l.places || l.next() >= 0 {
		return false
	}
	return l.mu.used == 0 || l.mu.used+l.reserve(span) <= l.room
}

package cache

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Bounds of what a GET reserves before it begins: objects' sizes are not known before they are read, so the lane's
// recent ones tell.
const (
	minReserve   = chunkSize
	firstReserve = 1 << 20 // before anything was read
)

// lane bounds the GETs of one class: how many, and the memory they read into. A GET reserves what it will probably
// need and takes more chunk by chunk; at the bound only the oldest goes on, which may exceed it by one unit, so that
// GETs never wait for each other.
type lane struct {
	gets *semaphore.Weighted
	turn *semaphore.Weighted // of the GETs that wait for memory to begin: one after the other
	room int64               // bytes

	mu struct {
		sync.Mutex
		used    int64
		typical int64    // size of recent units, bytes
		active  []*grant // oldest first
		freed   chan struct{}
	}
}

// grant is the memory of one GET under way.
type grant struct {
	lane *lane
	held int64 // guarded by the lane's lock
}

func newLane(gets int, room int64) *lane {
	l := &lane{gets: semaphore.NewWeighted(int64(gets)), turn: semaphore.NewWeighted(1), room: room}
	l.mu.typical = firstReserve
	l.mu.freed = make(chan struct{})
	return l
}

// reserve is what a GET of at most span bytes begins with. The lock is held.
func (l *lane) reserve(span int64) int64 {
	typical := l.mu.typical + l.mu.typical/4
	return min(max(typical, minReserve), span, l.room)
}

// acquire waits for a GET's turn. The grant is given back by release.
func (l *lane) acquire(ctx context.Context, span int64) (*grant, error) {
	if err := l.gets.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := l.turn.Acquire(ctx, 1); err != nil {
		l.gets.Release(1)
		return nil, err
	}
	defer l.turn.Release(1)
	g := &grant{lane: l}
	err := l.until(ctx, func() bool {
		n := l.reserve(span)
		if l.mu.used > 0 && l.mu.used+n > l.room {
			return false
		}
		g.held = n
		l.mu.used += n
		l.mu.active = append(l.mu.active, g)
		return true
	})
	if err != nil {
		l.gets.Release(1)
		return nil, err
	}
	return g, nil
}

// until waits for something that release may bring. take is called under the lock.
func (l *lane) until(ctx context.Context, take func() bool) error {
	for {
		l.mu.Lock()
		ok, freed := take(), l.mu.freed
		l.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// grow makes sure of memory for size bytes in all.
func (g *grant) grow(ctx context.Context, size int64) error {
	l := g.lane
	return l.until(ctx, func() bool {
		more := size - g.held
		if more > 0 && l.mu.used+more > l.room && l.mu.active[0] != g {
			return false
		}
		if more > 0 {
			g.held += more
			l.mu.used += more
		}
		return true
	})
}

// release ends a GET. size is what it read, 0 if it failed.
func (g *grant) release(size int64) {
	l := g.lane
	l.mu.Lock()
	l.mu.used -= g.held
	if i := slices.Index(l.mu.active, g); i >= 0 {
		l.mu.active = slices.Delete(l.mu.active, i, i+1)
	}
	if size > l.mu.typical {
		l.mu.typical = size // at once: reserving too little holds up others
	} else if size > 0 {
		l.mu.typical -= (l.mu.typical - size) / 8
	}
	close(l.mu.freed)
	l.mu.freed = make(chan struct{})
	l.mu.Unlock()
	l.gets.Release(1)
}

// idle tells whether a GET of at most span bytes would start at once.
func (l *lane) idle(span int64) bool {
	if !l.gets.TryAcquire(1) {
		return false
	}
	defer l.gets.Release(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.used == 0 || l.mu.used+l.reserve(span) <= l.room
}

package edge

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// While frames wait for memory, one that holds memory and stops arriving loses its connection: when it got nothing
// for stallTimeout, or less than slowRate since it has had slowGrace. So the bytes that a half-sent frame holds come free
// soon, however many they are, and one that does come at that rate has all the time it takes.
const (
	stallTimeout  = 2 * time.Second
	slowGrace     = 5 * time.Second
	slowRate      = 512 << 10 // bytes per second
	evictInterval = 250 * time.Millisecond
)

var errStopped = errors.New("connection is closing")

// freshShare: one in so many grants goes to a waiter that is not trusted, while there are both kinds.
const freshShare = 4

// budget bounds the bytes of frames. Waiters get memory in the order they came, but trusted ones before others:
// connections that delivered frames of about that size before. So producers at work go on when memory comes free,
// however many connections that never delivered anything stand in line.
type budget struct {
	limit int64
	small int64        // frames of up to so many bytes never wait: a connection's own buffers take no less
	used  atomic.Int64 // changed under mu; read by metrics
	m     *budgetMetrics

	mu struct {
		sync.Mutex
		trusted  list.List // of *memoryWaiter, like fresh
		fresh    list.List
		turn     int // grants so far that passed over a fresh waiter, modulo freshShare
		arriving map[*arrival]struct{}
		looked   time.Time // when evictStalled last went through arriving
	}
}

type memoryWaiter struct {
	bytes   int64
	arrival *arrival
	ready   chan struct{}
}

// arrival is a frame that has memory and whose bytes are still coming.
type arrival struct {
	granted  time.Time
	progress atomic.Int64 // UnixNano of the last bytes
	received atomic.Int64 // bytes
	trusted  bool         // its connection has delivered such frames before
	evict    func()       // closes the connection; must not block
	evicted  bool
}

func newBudget(limit int64, m *budgetMetrics) *budget {
	b := &budget{limit: limit, m: m}
	b.mu.arriving = make(map[*arrival]struct{})
	return b
}

// usedBytes is what is held, for metrics, which come to be before the budget.
func (b *budget) usedBytes() float64 {
	if b == nil {
		return 0
	}
	return float64(b.used.Load())
}

// reserve takes bytes of the budget for a frame that begins to arrive, waiting until they are there or stop is
// closed. Give them back with release; tell the frame's arrival with arrived.
func (b *budget) reserve(stop <-chan struct{}, bytes int64, a *arrival) error {
	b.mu.Lock()
	if bytes <= b.small || b.waiting() == 0 && b.fits(bytes) {
		b.grant(bytes, a)
		b.mu.Unlock()
		return nil
	}
	w := &memoryWaiter{bytes: bytes, arrival: a, ready: make(chan struct{})}
	element := b.line(a).PushBack(w)
	b.admit() // it may be let in before those that came earlier
	b.mu.Unlock()

	began := time.Now()
	b.m.waiting.Inc()
	defer func() {
		b.m.waiting.Dec()
		b.m.waitSeconds.Add(time.Since(began).Seconds())
	}()
	return b.wait(stop, w, element)
}

func (b *budget) wait(stop <-chan struct{}, w *memoryWaiter, element *list.Element) error {
	tick := time.NewTicker(evictInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.ready:
			return nil
		case now := <-tick.C:
			b.evictStalled(now)
		case <-stop:
			b.mu.Lock()
			defer b.mu.Unlock()
			select {
			case <-w.ready: // granted meanwhile
				delete(b.mu.arriving, w.arrival)
				b.used.Add(-w.bytes)
			default:
				b.line(w.arrival).Remove(element)
			}
			b.admit()
			return errStopped
		}
	}
}

// fits: a frame larger than the whole budget fits when nothing else is held.
func (b *budget) fits(bytes int64) bool {
	used := b.used.Load()
	return used == 0 || used+bytes <= b.limit
}

func (b *budget) grant(bytes int64, a *arrival) {
	b.used.Add(bytes)
	a.granted = time.Now()
	a.progress.Store(a.granted.UnixNano())
	b.mu.arriving[a] = struct{}{}
}

// waiting is how many wait. Called with mu held.
func (b *budget) waiting() int { return b.mu.trusted.Len() + b.mu.fresh.Len() }

// line is where the frame waits.
func (b *budget) line(a *arrival) *list.List {
	if a.trusted {
		return &b.mu.trusted
	}
	return &b.mu.fresh
}

// admit grants waiters what has come free, in order. Called with mu held.
func (b *budget) admit() {
	for b.waiting() > 0 {
		line := &b.mu.trusted
		both := line.Len() > 0 && b.mu.fresh.Len() > 0
		if line.Len() == 0 || both && b.mu.turn == freshShare-1 {
			line = &b.mu.fresh
		}
		w := line.Front().Value.(*memoryWaiter)
		if !b.fits(w.bytes) {
			return
		}
		line.Remove(line.Front())
		if both {
			b.mu.turn = (b.mu.turn + 1) % freshShare
		}
		b.grant(w.bytes, w.arrival)
		close(w.ready)
	}
}

// arrived: the frame is whole, or never will be; it is no longer looked at for stalling.
func (b *budget) arrived(a *arrival) {
	b.mu.Lock()
	delete(b.mu.arriving, a)
	b.mu.Unlock()
}

// force takes bytes without waiting, for the moment in which a growing frame has two buffers.
func (b *budget) force(bytes int64) { b.used.Add(bytes) }

// release gives bytes back.
func (b *budget) release(bytes int64) {
	b.mu.Lock()
	b.used.Add(-bytes)
	b.admit()
	b.mu.Unlock()
}

// evictStalled closes the connections of frames that hold memory others wait for and do not go on. Every waiter calls
// it, so it goes through the frames at most once in evictInterval.
func (b *budget) evictStalled(now time.Time) {
	b.mu.Lock()
	if now.Sub(b.mu.looked) < evictInterval {
		b.mu.Unlock()
		return
	}
	b.mu.looked = now
	var stalled []*arrival
	for a := range b.mu.arriving {
		idle := now.Sub(time.Unix(0, a.progress.Load()))
		due := int64((now.Sub(a.granted) - slowGrace).Seconds() * slowRate) // bytes
		if !a.evicted && (idle >= stallTimeout || a.received.Load() < due) {
			a.evicted = true
			stalled = append(stalled, a)
		}
	}
	b.mu.Unlock()
	for _, a := range stalled {
		b.m.evicted.Inc()
		a.evict()
	}
}

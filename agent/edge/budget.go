package edge

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// While frames wait for memory, an arriving frame that holds memory loses its connection in one of these cases:
//
//   - No byte has arrived for stallTimeout.
//   - After slowGrace, its rate is below slowRate, or below overRate if it is the frame beyond the limit.
//   - At its rate so far, the missing bytes need more than slowArrival, and a frame of less than half of these bytes has waited for evictAfter. The
//     waits of a frame add up.
const (
	stallTimeout  = 2 * time.Second
	slowGrace     = 5 * time.Second
	slowRate      = 512 << 10 // bytes per second
	overRate      = 4 << 20   // bytes per second
	evictAfter    = time.Second
	slowArrival   = 5 * time.Second
	evictInterval = 250 * time.Millisecond
)

var errStopped = errors.New("connection is closing")

// freshShare is the number of grants of which one goes to a waiter that is not trusted, while both kinds wait.
const freshShare = 4

// budget bounds the memory of frames. The buffer of a frame is small at first, and reserves more memory each time that it is full.
//
// A frame is trusted if its connection has delivered a frame of about its size before. Trusted frames get memory before fresh ones, so
// active producers continue when memory is released, however many new connections wait. In each kind, the smallest frame is first.
//
// One frame at a time may exceed the limit. That frame never waits, so a set of half-arrived frames cannot block itself. When its place is free, the
// frame that has waited longest takes it.
type budget struct {
	limit int64
	small int64        // the largest reservation that never waits, in bytes: the own buffers of a connection take as much
	used  atomic.Int64 // changed under mu; read by metrics
	m     *budgetMetrics

	mu struct {
		sync.Mutex
		trusted  []*memoryWaiter // smallest frame first, like fresh
		fresh    []*memoryWaiter // of frames that are not trusted
		turn     int             // grants while both kinds waited, modulo freshShare
		arriving map[*arrival]struct{}
		over     *arrival  // the frame that may exceed the limit
		looked   time.Time // the last time that evictLate examined arriving
	}
}

type memoryWaiter struct {
	bytes   int64
	arrival *arrival
	since   time.Time
	ready   chan struct{}
}

// waited returns the time that the frame has waited for memory so far.
func (w *memoryWaiter) waited(now time.Time) time.Duration {
	return w.arrival.waited + now.Sub(w.since)
}

// arrival is the memory of a frame, from its first buffer to its release.
type arrival struct {
	size     int64        // memory of the whole frame
	trusted  bool         // see budget
	evict    func()       // closes the connection; must not block
	progress atomic.Int64 // UnixNano of the last bytes
	received atomic.Int64 // bytes

	// Guarded by the budget's mu.
	held    int64
	granted time.Time     // the time of its first buffer, moved on by later waits
	waited  time.Duration // the finished waits for memory, added up
	waits   *memoryWaiter // nil if the frame does not wait
	whole   bool          // all bytes have arrived
	evicted bool          // evict was called or will be
}

// missing returns the number of bytes that have not arrived.
func (a *arrival) missing() int64 { return a.size - a.received.Load() }

// late reports whether a frame stalls, or has arrived at less than rate (bytes per second) after slowGrace. A frame that waits for memory is not late.
func (a *arrival) late(now time.Time, rate float64) bool {
	if a.waits != nil {
		return false
	}
	due := int64((now.Sub(a.granted) - slowGrace).Seconds() * rate)
	return now.Sub(time.Unix(0, a.progress.Load())) >= stallTimeout || a.received.Load() < due
}

// slow reports whether a frame needs more than slowArrival for its missing bytes, at its rate so far.
func (a *arrival) slow(now time.Time) bool {
	if a.waits != nil {
		now = a.waits.since
	}
	took := now.Sub(a.granted)
	if took < evictInterval {
		return false
	}
	received := max(1, a.received.Load())
	return time.Duration(float64(took)/float64(received)*float64(a.missing())) > slowArrival
}

func newBudget(limit int64, m *budgetMetrics) *budget {
	b := &budget{limit: limit, m: m}
	b.mu.arriving = make(map[*arrival]struct{})
	return b
}

// usedBytes returns the held bytes, for metrics, which are registered before the budget exists.
func (b *budget) usedBytes() float64 {
	if b == nil {
		return 0
	}
	return float64(b.used.Load())
}

// reserve adds bytes to the memory of a frame, and waits until they are free. It returns errStopped if stop is closed first. The caller calls arrived when
// the frame is whole, and release in any case.
func (b *budget) reserve(stop <-chan struct{}, bytes int64, a *arrival) error {
	b.mu.Lock()
	now := time.Now()
	if bytes <= b.small || a == b.mu.over || b.waiting() == 0 && b.fits(bytes) {
		b.grant(a, bytes, now)
		b.mu.Unlock()
		return nil
	}
	w := &memoryWaiter{bytes: bytes, arrival: a, since: now, ready: make(chan struct{})}
	a.waits = w
	line := b.line(a)
	at, _ := slices.BinarySearchFunc(*line, a.size+1, func(other *memoryWaiter, size int64) int { return cmp.Compare(other.arrival.size, size) })
	*line = slices.Insert(*line, at, w) // behind earlier ones of its size
	b.admit()
	b.mu.Unlock()

	b.m.waiting.Inc()
	defer func() {
		b.m.waiting.Dec()
		b.m.waitSeconds.Add(time.Since(w.since).Seconds())
	}()
	return b.wait(stop, w)
}

func (b *budget) wait(stop <-chan struct{}, w *memoryWaiter) error {
	tick := time.NewTicker(evictInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.ready:
			return nil
		case now := <-tick.C:
			b.evictLate(now)
		case <-stop:
			b.mu.Lock()
			defer b.mu.Unlock()
			if w.arrival.waits != nil {
				b.remove(w)
				b.admit()
			}
			return errStopped
		}
	}
}

// fits reports whether the limit has room for bytes more. The memory of the frame in over does not count. Called with mu held.
func (b *budget) fits(bytes int64) bool {
	used := b.used.Load() + bytes
	if b.mu.over != nil {
		used -= b.mu.over.held
	}
	return used <= b.limit
}

// grant adds bytes to the memory of a frame. Called with mu held.
func (b *budget) grant(a *arrival, bytes int64, now time.Time) {
	b.used.Add(bytes)
	a.held += bytes
	if a.granted.IsZero() {
		a.granted = now
		b.mu.arriving[a] = struct{}{}
	}
	a.progress.Store(now.UnixNano())
}

// waiting returns the number of waiters. Called with mu held.
func (b *budget) waiting() int { return len(b.mu.trusted) + len(b.mu.fresh) }

// line returns the waiters of a frame's kind, trusted or fresh. Called with mu held.
func (b *budget) line(a *arrival) *[]*memoryWaiter {
	if a.trusted {
		return &b.mu.trusted
	}
	return &b.mu.fresh
}

// remove takes a waiter out of its line. Called with mu held.
func (b *budget) remove(w *memoryWaiter) {
	line := b.line(w.arrival)
	at := slices.Index(*line, w)
	*line = slices.Delete(*line, at, at+1)
	w.arrival.waits = nil
}

// admit grants free memory to waiters, in their order. Called with mu held.
func (b *budget) admit() {
	if over := b.mu.over; over != nil && over.whole && b.used.Load() <= b.limit {
		b.mu.over = nil
	}
	for b.waiting() > 0 {
		w := b.next()
		if w == nil {
			if b.mu.over != nil {
				return
			}
			w = b.oldest()
			b.mu.over = w.arrival
		}
		if len(b.mu.trusted) > 0 && len(b.mu.fresh) > 0 {
			b.mu.turn = (b.mu.turn + 1) % freshShare
		}
		b.remove(w)
		now := time.Now()
		waited := now.Sub(w.since)
		w.arrival.waited += waited
		if !w.arrival.granted.IsZero() {
			w.arrival.granted = w.arrival.granted.Add(waited)
		}
		b.grant(w.arrival, w.bytes, now)
		close(w.ready)
	}
}

// lines returns the waiters of both kinds, first the kind that is served next. Called with mu held.
func (b *budget) lines() [2][]*memoryWaiter {
	if b.mu.turn == freshShare-1 {
		return [2][]*memoryWaiter{b.mu.fresh, b.mu.trusted}
	}
	return [2][]*memoryWaiter{b.mu.trusted, b.mu.fresh}
}

// next returns the first waiter of either kind whose bytes fit, or nil. Called with mu held.
func (b *budget) next() *memoryWaiter {
	for _, line := range b.lines() {
		if len(line) > 0 && b.fits(line[0].bytes) {
			return line[0]
		}
	}
	return nil
}

// oldest returns the waiter whose frame has waited longest in all its waits, of the kind that is served next. Called with mu held.
func (b *budget) oldest() *memoryWaiter {
	now := time.Now()
	for _, line := range b.lines() {
		if len(line) > 0 {
			return slices.MaxFunc(line, func(v, w *memoryWaiter) int { return cmp.Compare(v.waited(now), w.waited(now)) })
		}
	}
	return nil
}

// arrived records that all bytes of a frame have arrived. The frame is not evicted any more.
func (b *budget) arrived(a *arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.whole = true
	delete(b.mu.arriving, a)
	b.admit()
}

// force takes bytes without a wait, while a growing frame has its old and its new buffer. unforce returns them.
func (b *budget) force(bytes int64) { b.used.Add(bytes) }

func (b *budget) unforce(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Add(-bytes)
	b.admit()
}

// release returns a frame's memory.
func (b *budget) release(a *arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Add(-a.held)
	a.held = 0
	delete(b.mu.arriving, a)
	if b.mu.over == a {
		b.mu.over = nil
	}
	b.admit()
}

// evictLate closes the connections of frames that are late, or that larger returns. Every waiter calls it, so it returns at once if it has run
// within evictInterval.
func (b *budget) evictLate(now time.Time) {
	b.mu.Lock()
	if now.Sub(b.mu.looked) < evictInterval {
		b.mu.Unlock()
		return
	}
	b.mu.looked = now
	var late []*arrival
	for a := range b.mu.arriving {
		rate := float64(slowRate)
		if a == b.mu.over {
			rate = overRate
		}
		if !a.evicted && a.late(now, rate) {
			a.evicted = true
			late = append(late, a)
		}
	}
	late = append(late, b.larger(now)...)
	b.mu.Unlock()
	for _, a := range late {
		b.m.evicted.Inc()
		a.evict()
	}
}

// larger returns the frames to evict for the first waiter of each kind, if that has waited for evictAfter. The frames are slow, and each misses more than
// twice the bytes of the waiter's frame. It returns as many as make room, with the most missing bytes first. Called with mu held.
func (b *budget) larger(now time.Time) (evicted []*arrival) {
	for _, line := range b.lines() {
		if len(line) == 0 || line[0].waited(now) < evictAfter {
			continue
		}
		w := line[0]
		need := b.used.Load() + w.bytes - b.limit
		var larger []*arrival
		for a := range b.mu.arriving {
			switch {
			case a.evicted || a == b.mu.over:
				need -= a.held
			case a.missing() > 2*w.arrival.size && a.slow(now):
				larger = append(larger, a)
			}
		}
		slices.SortFunc(larger, func(a, c *arrival) int { return cmp.Compare(c.missing(), a.missing()) })
		for _, a := range larger {
			if need <= 0 {
				break
			}
			need -= a.held
			a.evicted = true
			evicted = append(evicted, a)
		}
	}
	return evicted
}

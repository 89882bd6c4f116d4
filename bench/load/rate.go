package load

import (
	"context"
	"math"
	"sync"
	"time"
)

// Rate is the schedule of messages that all senders of a worker share: message k is due when the rate, summed over
// time, has reached k. Safe for concurrent use.
type Rate struct {
	mu       sync.Mutex
	epoch    time.Time     // what the times below count from
	segments []segment     // the first is the one in which the next message falls
	taken    int64         // messages handed out
	changed  chan struct{} // closed by Set and Restart
}

// segment is a stretch of time with one rate; it ends where the next begins.
type segment struct {
	start   time.Duration
	rate    float64 // messages/s
	already float64 // messages due before start
}

// NewRate starts a schedule now, at perSecond messages a second. Zero, or less, is a pause.
func NewRate(perSecond float64) *Rate {
	return &Rate{
		epoch: time.Now(), segments: []segment{{rate: max(0, perSecond)}}, changed: make(chan struct{}),
	}
}

// Set changes the rate from now on. What is overdue stays so.
func (r *Rate) Set(perSecond float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	perSecond = max(0, perSecond)
	last := r.segments[len(r.segments)-1]
	if last.rate == perSecond {
		return
	}
	now := time.Since(r.epoch)
	due := last.already + last.rate*(now-last.start).Seconds()
	r.segments = append(r.segments, segment{start: now, rate: perSecond, already: due})
	r.wake()
}

// Restart begins a new schedule now and forgets what is overdue, as the OpenMessaging Benchmark does when it looks for
// the highest rate: what a rate too high left behind would otherwise be counted against the next one.
func (r *Rate) Restart(perSecond float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.segments = append(r.segments[:0], segment{
		start: time.Since(r.epoch), rate: max(0, perSecond), already: float64(r.taken),
	})
	r.wake()
}

func (r *Rate) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// PerSecond gives the rate of now, in messages a second.
func (r *Rate) PerSecond() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.segments[len(r.segments)-1].rate
}

// Overdue gives how many messages should have been sent by now and were not.
func (r *Rate) Overdue() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.segments[len(r.segments)-1]
	due := last.already + last.rate*(time.Since(r.epoch)-last.start).Seconds()
	return max(0, int64(due)-r.taken)
}

// Take waits until the next message is due and gives its intended time; the caller sends it. It fails only with the
// context's error.
func (r *Rate) Take(ctx context.Context) (time.Time, error) {
	for {
		at, changed, ok := r.tryTake()
		if ok {
			return at, ctx.Err()
		}
		if err := sleepUntil(ctx, at, changed); err != nil {
			return time.Time{}, err
		}
	}
}

// tryTake hands out the next message if it is due; if not, it says when it will be, as long as nothing changes.
func (r *Rate) tryTake() (at time.Time, changed <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := r.next()
	if due > time.Since(r.epoch) {
		return r.epoch.Add(due), r.changed, false
	}
	r.taken++
	return r.epoch.Add(due), nil, true
}

// farAway is the due time of messages under a rate of zero; it can be added to any time without overflow.
const farAway = 10 * 365 * 24 * time.Hour

// next gives when the next message is due, and drops segments that lie before it.
func (r *Rate) next() time.Duration {
	for {
		s := r.segments[0]
		due := farAway
		if s.rate > 0 {
			if seconds := max(0, float64(r.taken)-s.already) / s.rate; seconds < farAway.Seconds() {
				due = s.start + time.Duration(math.Round(seconds*float64(time.Second)))
			}
		}
		if len(r.segments) == 1 || due < r.segments[1].start {
			return due
		}
		r.segments = r.segments[1:]
	}
}

func sleepUntil(ctx context.Context, at time.Time, changed <-chan struct{}) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

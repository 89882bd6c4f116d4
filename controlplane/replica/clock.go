package replica

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore"
)

// clock compares this machine's clock with the store's, which all replicas share. A replica whose clock
// is off does not become the owner, and an owner whose clock goes off lets nothing expire.
//
// Command time never goes back, so one bad step of the machine's clock would age the state for good. now therefore
// goes on from the last time at which both clocks agreed, by the monotonic clock. Before they ever agreed, now goes on from
// the last entry's time in the same way, and is never above the machine's clock.
type clock struct {
	bucket  objstore.Bucket
	max     time.Duration
	log     *zap.Logger
	metrics *metrics
	wall    func() time.Time // this machine's clock

	measured atomic.Bool
	skew     atomic.Int64              // ns that this clock is ahead, as last measured
	start    agreement                 // when the process started, by this machine's clock alone
	entry    atomic.Pointer[agreement] // time of the last entry, and when it was read; nil before resume
	agreed   atomic.Pointer[agreement] // nil before this clock and the store's agreed
}

// agreement is one moment by two clocks: what was the time, and when that was on the monotonic clock.
type agreement struct{ wall, at time.Time }

// now returns the time of that agreement plus what has passed since.
func (a *agreement) now() time.Time { return a.wall.Add(time.Since(a.at)) }

func newClock(bucket objstore.Bucket, limit time.Duration, log *zap.Logger, m *metrics) *clock {
	c := &clock{bucket: bucket, max: limit, log: log, metrics: m, wall: time.Now}
	c.start = agreement{wall: c.wall(), at: time.Now()}
	return c
}

// now is the time for commands.
func (c *clock) now() time.Time {
	if a := c.agreed.Load(); a != nil {
		return a.now()
	}
	now := c.start.now()
	if e := c.entry.Load(); e != nil && e.now().Before(now) {
		return e.now()
	}
	return now
}

// resume tells the clock the command time that the state has reached, before this replica proposes anything.
func (c *clock) resume(nowMs int64) {
	c.entry.Store(&agreement{wall: time.UnixMilli(nowMs), at: time.Now()})
}

// clockTimeout bounds one question to the store, so that a store that is down delays no takeover by more.
const clockTimeout = time.Second

const (
	// clockPeriod is the pause between measurements.
	clockPeriod = 30 * time.Second
	// firstPeriod is the longest pause between measurements before the first one that succeeds.
	firstPeriod = time.Second
)

// run measures every period until ctx ends, and more often before the store has answered once.
func (c *clock) run(ctx context.Context, period time.Duration) {
	for {
		wait := period
		if !c.measured.Load() {
			wait = min(period, firstPeriod)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			c.measure(ctx)
		}
	}
}

func (c *clock) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	before := agreement{wall: c.wall(), at: time.Now()}
	store, err := c.bucket.Now(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("the store's clock cannot be read", zap.Error(err))
		}
		return
	}
	middle := before.wall.Add(time.Since(before.at) / 2)
	skew := middle.Sub(store)
	c.skew.Store(int64(skew))
	c.measured.Store(true)
	c.metrics.skew.Set(skew.Seconds())
	if skew.Abs() > c.max {
		c.log.Error("clock is off, taking no ownership and expiring nothing", zap.Duration("ahead", skew),
			zap.Duration("limit", c.max), zap.Time("machine", middle), zap.Time("store", store))
		return
	}
	c.agreed.Store(&before)
}

var (
	errClockOff = errors.New("no ownership is taken while this machine's clock and the object store's differ")
	errNoClock  = errors.New("cannot start a new virtual cluster: the object store's clock cannot be read")
)

// mayOwn returns nil if the clock lets this replica become the owner: it is near the store's clock, or the store's cannot be read.
// An empty log needs the store's clock, because nothing else bounds the time of the first entry. Errors: errClockOff, errNoClock.
func (c *clock) mayOwn(ctx context.Context, empty bool) error {
	if !c.measured.Load() {
		c.measure(ctx)
	}
	switch {
	case !c.near():
		return fmt.Errorf("%w: this machine's clock is %v ahead, the limit is %v in both directions; set this machine's clock, or check the Date header of the store",
			errClockOff, time.Duration(c.skew.Load()).Round(time.Millisecond), c.max)
	case empty && !c.measured.Load():
		return errNoClock
	}
	return nil
}

// near reports whether this clock was near the store's when both were last compared; true if they never were.
func (c *clock) near() bool { return time.Duration(c.skew.Load()).Abs() <= c.max }

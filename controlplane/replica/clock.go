package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/objstore"
)

// clock compares this machine's clock with the store's, which all replicas share. If the two differ, other clocks decide whether this
// replica may become the owner (survey). An owner whose clock differs from the store's lets nothing expire.
//
// Command time never goes back, so one bad step of the machine's clock would age the state for good. now therefore
// goes on from the last time at which both clocks agreed, by the monotonic clock. Before they ever agreed, now goes on from
// the last entry's time in the same way, and is never above the machine's clock. Other clocks do not change command time.
//
// The last entry may be an hour old, or as old as an outage. If now stepped ahead by that time once the clocks agree, transactions that began after
// the takeover would time out at once. So now catches up at one and a half times the speed of the clock. At this speed the least grace of garbage,
// 10 minutes, takes 6 min 40 s, which is longer than the 5 minutes for which agents read stale windows.
type clock struct {
	bucket  objstore.Bucket
	others  func() []Clock
	max     time.Duration
	log     *zap.Logger
	metrics *metrics
	wall    func() time.Time // this machine's clock

	measured atomic.Bool
	skew     atomic.Int64              // ns that this clock is ahead of the store's, as last measured
	start    agreement                 // when the process started, by this machine's clock alone
	entry    atomic.Pointer[agreement] // command time from which now goes on or catches up; nil before resume, or if now may step
	agreed   atomic.Pointer[agreement] // nil before this clock and the store's agreed
	surveyed atomic.Pointer[survey]    // the newest survey; nil before the first
}

// agreement is one moment by two clocks: wall by the one that tells the time, at by the monotonic clock.
type agreement struct{ wall, at time.Time }

// now returns the time of that agreement plus the time that has passed since.
func (a *agreement) now() time.Time { return a.wall.Add(time.Since(a.at)) }

// ahead returns the time of that agreement plus one and a half times the time that has passed since.
func (a *agreement) ahead() time.Time { return a.wall.Add(time.Since(a.at) * 3 / 2) }

func newClock(cfg Config, m *metrics) *clock {
	c := &clock{bucket: cfg.Bucket, others: cfg.Clocks, max: cfg.MaxSkew, log: cfg.Logger, metrics: m, wall: time.Now}
	c.start = agreement{wall: c.wall(), at: time.Now()}
	return c
}

// now is the time for commands.
func (c *clock) now() time.Time {
	a := c.agreed.Load() // before entry: measure stores them in the other order
	now, e := c.start.now(), c.entry.Load()
	if a != nil {
		now = a.now()
	}
	switch {
	case e == nil:
		return now
	case a == nil:
		return earlier(now, e.now())
	}
	return earlier(now, e.ahead())
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// resume sets the command time that the state has reached, before this replica proposes anything. If the clocks have agreed, now steps to them: the time
// since the last entry has passed, and nothing has begun in it.
func (c *clock) resume(nowMs int64) {
	if c.agreed.Load() != nil {
		c.entry.Store(nil)
		return
	}
	c.entry.Store(&agreement{wall: time.UnixMilli(nowMs), at: time.Now()})
}

// clockTimeout bounds one request for the time, so that a silent store and silent clocks delay a takeover by 1 s each.
const clockTimeout = time.Second

const (
	// clockPeriod is the pause between measurements.
	clockPeriod = 30 * time.Second
	// firstPeriod is the longest pause between measurements before the first one that succeeds.
	firstPeriod = time.Second
)

// repeat measures every period until ctx ends, and more often before the store has answered once.
func (c *clock) repeat(ctx context.Context, period time.Duration) *periodic.Loop {
	pause := func() time.Duration {
		if !c.measured.Load() {
			return min(period, firstPeriod)
		}
		return period
	}
	l := new(periodic.Loop)
	l.Start(ctx, pause(), func(ctx context.Context) time.Duration {
		c.measure(ctx)
		if !c.near() {
			c.log.Error("clocks differ, expiring nothing", zap.Stringer("clocks", c.survey(ctx)), zap.Duration("limit", c.max))
		}
		return pause()
	})
	return l
}

// measure compares this machine's clock with the store's.
func (c *clock) measure(ctx context.Context) {
	before, skew, err := c.compare(ctx, c.bucket.Now)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) { // the probe logs a silent store
			c.log.Warn("the store's clock cannot be read", zap.Error(err))
		}
		return
	}
	c.skew.Store(int64(skew))
	c.measured.Store(true)
	c.metrics.skew.Set(skew.Truncate(time.Second).Seconds()) // a store tells no fractions of a second
	if skew.Abs() <= c.max {
		if e := c.entry.Load(); c.agreed.Load() == nil && e != nil { // now begins to catch up
			c.entry.CompareAndSwap(e, &agreement{wall: c.now(), at: time.Now()})
		}
		c.agreed.Store(&before)
	}
}

// compare asks another clock for the time and returns how far this machine's clock is ahead of it, and the moment of the request.
func (c *clock) compare(ctx context.Context, other func(context.Context) (time.Time, error)) (before agreement, ahead time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	before = agreement{wall: c.wall(), at: time.Now()}
	told, err := other(ctx)
	if err != nil {
		return agreement{}, 0, cmp.Or(ctx.Err(), err)
	}
	middle := before.wall.Add(time.Since(before.at) / 2)
	return before, middle.Sub(told), nil
}

var (
	errClockOff = errors.New("no ownership is taken while this machine's clock and the object store's differ")
	errNoClock  = errors.New("cannot start a new virtual cluster: the object store's clock cannot be read")
)

// mayOwn returns nil if the clocks let this replica become the owner: its clock is near the store's, the store's cannot be read, or
// a majority of at least three clocks agrees with its clock. An empty log needs the store's clock, because nothing else bounds the
// time of the first entry. Errors: errClockOff, errNoClock.
func (c *clock) mayOwn(ctx context.Context, empty bool) error {
	if !c.measured.Load() {
		c.measure(ctx)
	}
	if c.near() {
		if empty && !c.measured.Load() {
			return errNoClock
		}
		return nil
	}
	found := c.survey(ctx)
	if !empty && found.confirmed() {
		c.log.Warn("ownership may be taken, because a majority of clocks agrees with this machine's", zap.Stringer("clocks", found))
		return nil
	}
	return fmt.Errorf("%w: this machine's clock is %v ahead, the limit is %v in both directions; %s; correct the clock that is off, in the object store its Date header",
		errClockOff, time.Duration(c.skew.Load()).Round(time.Millisecond), c.max, found)
}

// near reports whether this clock was near the store's when both were last compared; true if they never were.
func (c *clock) near() bool { return time.Duration(c.skew.Load()).Abs() <= c.max }

// warning returns which clocks differ, "" if this machine's clock and the store's were near when last compared.
func (c *clock) warning() string {
	found := c.surveyed.Load()
	if c.near() || found == nil {
		return ""
	}
	return found.String() + "; nothing expires until this machine's clock and the object store's agree"
}

package replica

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore"
)

// clock compares this machine's clock with the store's, which all replicas share (design.md 6). A replica whose clock
// is off does not become the owner, and an owner whose clock goes off lets nothing expire.
//
// Command time never goes back, so one bad step of the machine's clock would age the state for good. now therefore
// goes on from the last time at which both clocks agreed, by the monotonic clock.
type clock struct {
	bucket  objstore.Bucket
	max     time.Duration
	log     *zap.Logger
	metrics *metrics
	wall    func() time.Time // this machine's clock

	measured atomic.Bool
	skew     atomic.Int64 // ns that this clock is ahead, as last measured
	agreed   atomic.Pointer[agreement]
}

// agreement is one moment by two clocks: what was the time, and when that was on the monotonic clock.
type agreement struct{ wall, at time.Time }

// newClock gives a clock that takes this machine's to be right until it was compared.
func newClock(bucket objstore.Bucket, limit time.Duration, log *zap.Logger, m *metrics) *clock {
	c := &clock{bucket: bucket, max: limit, log: log, metrics: m, wall: time.Now}
	c.agreed.Store(&agreement{wall: c.wall(), at: time.Now()})
	return c
}

// now is the time for commands.
func (c *clock) now() time.Time {
	a := c.agreed.Load()
	return a.wall.Add(time.Since(a.at))
}

// clockTimeout bounds one question to the store, so that a store that is down delays no takeover by more.
const clockTimeout = time.Second

// run measures every period until ctx ends.
func (c *clock) run(ctx context.Context, period time.Duration) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
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
			zap.Duration("limit", c.max))
		return
	}
	c.agreed.Store(&before)
}

// mayOwn tells whether this clock is near the store's, as far as the store could be asked: one that is down keeps
// nobody from answering for the metadata.
func (c *clock) mayOwn(ctx context.Context) bool {
	if !c.measured.Load() {
		c.measure(ctx)
	}
	return c.near()
}

// near tells whether this clock was near the store's when it was last compared, if ever.
func (c *clock) near() bool { return time.Duration(c.skew.Load()).Abs() <= c.max }

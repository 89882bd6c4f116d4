package replica

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore"
)

// clock compares this machine's clock with the store's, which all replicas share (design.md 6). A replica whose clock
// is off does not become the owner.
type clock struct {
	bucket  objstore.Bucket
	max     time.Duration
	log     *zap.Logger
	metrics *metrics

	measured atomic.Bool
	skew     atomic.Int64 // ns that this clock is ahead, as last measured
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
	before := time.Now()
	store, err := c.bucket.Now(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("the store's clock cannot be read", zap.Error(err))
		}
		return
	}
	middle := before.Add(time.Since(before) / 2)
	skew := middle.Sub(store)
	c.skew.Store(int64(skew))
	c.measured.Store(true)
	c.metrics.skew.Set(skew.Seconds())
	if skew.Abs() > c.max {
		c.log.Error("clock is off, taking no ownership", zap.Duration("ahead", skew), zap.Duration("limit", c.max))
	}
}

// mayOwn tells whether this clock is near the store's, as far as the store could be asked: one that is down keeps
// nobody from answering for the metadata.
func (c *clock) mayOwn(ctx context.Context) bool {
	if !c.measured.Load() {
		c.measure(ctx)
	}
	return time.Duration(c.skew.Load()).Abs() <= c.max
}

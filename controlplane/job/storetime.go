package job

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
)

// storeClock is the object store's clock, asked at most once in storeTimeAge, also while it does not answer.
type storeClock struct {
	ask   func(context.Context) (time.Time, error)
	asked time.Time // zero before the first question
	ms    int64     // the answer, since the epoch
	ok    bool
}

// read returns a time that the store's clock has passed, at most storeTimeAge old, or false while the store does not answer.
// err is that of a question which was just asked.
func (c *storeClock) read(ctx context.Context) (ms int64, ok bool, err error) {
	if now := time.Now(); c.asked.IsZero() || now.Sub(c.asked) >= storeTimeAge {
		asking, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		var at time.Time
		at, err = c.ask(asking)
		c.asked, c.ms, c.ok = now, at.UnixMilli(), err == nil
	}
	return c.ms, c.ok, err
}

// cleaningTime returns the time by which partitions are cleaned, in ms since the epoch: the earlier of the state's and the
// store's, so that an owner whose clock is ahead removes nothing before its time. While the store does not answer, nothing
// is cleaned.
func (t *Tenure) cleaningTime(ctx context.Context, s *metadata.State) (ms int64, ok bool) {
	store, ok, err := t.storeTime.read(ctx)
	if err != nil && ctx.Err() == nil {
		t.log.Warn("object store does not tell the time, nothing is cleaned until it does", zap.Error(err))
	}
	return min(store, s.Now()), ok
}

package owner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
)

// ErrOverloaded: the virtual cluster has as many extents or bundles as it may have (Config.MaxExtents, MaxFresh). Commits are
// refused until compaction, retention or deletion have made room; nothing else is.
var ErrOverloaded = errors.New("metadata is at its bound, compaction is behind")

// Shares of the bound at which the log speaks, and from which on commits are delayed.
const (
	halfOfBound = 0.5
	slowFrom    = 0.75
)

// load is how near the state is to its bounds. What it holds costs memory on every replica, and the time that a takeover
// takes; commits make it grow, and only work that itself goes through the log takes it down. So commits alone slow down,
// those of other virtual clusters not at all (I10).
type load struct {
	share  atomic.Uint64 // math.Float64bits; 1 is the bound
	warned float64       // highest share of halfOfBound and slowFrom that was logged; the apply goroutine's
	// crowded: the log said that producers are near their bound; the apply goroutine's.
	crowded bool
}

func (l *load) get() float64 { return math.Float64frombits(l.share.Load()) }

// weigh notes how much there is, after commands were applied.
func (o *Owner) weigh() {
	l := o.state.Load()
	share := max(float64(l.Extents)/float64(o.cfg.MaxExtents), float64(l.Fresh)/float64(o.cfg.MaxFresh))
	o.load.share.Store(math.Float64bits(share))
	o.metrics.extents.Set(float64(l.Extents))
	o.metrics.fresh.Set(float64(l.Fresh))
	o.metrics.bundles.Set(float64(l.Bundles))
	o.metrics.share.Set(share)
	o.weighProducers(l, o.state.ProducerLimit())
	level := 0.0
	switch {
	case share >= slowFrom:
		level = slowFrom
	case share >= halfOfBound:
		level = halfOfBound
	case share >= halfOfBound*0.9:
		level = min(o.load.warned, halfOfBound) // no line for every crossing to and fro
	}
	if level > o.load.warned {
		o.cfg.Logger.Warn("metadata grows towards its bound: from 0.75 of it commits are delayed, at 1 refused; "+
			"let more agents do background jobs, shorten retention, delete topics (they count until --topic-undelete is over), "+
			"or raise --max-extents and --max-fresh-bundles",
			zap.Float64("share", share), zap.Int64("extents", l.Extents), zap.Int64("max_extents", o.cfg.MaxExtents),
			zap.Int("fresh_bundles", l.Fresh), zap.Int("max_fresh_bundles", o.cfg.MaxFresh))
	}
	o.load.warned = level
}

// weighProducers reports the producers that the state remembers, beside its bound of active ones.
func (o *Owner) weighProducers(l metadata.Load, limit int64) {
	share := float64(l.Producers) / float64(limit)
	o.metrics.producers.Set(float64(l.Producers))
	o.metrics.resting.Set(float64(l.Resting))
	o.metrics.remembered.Set(float64(l.ProducerBytes()))
	o.metrics.crowding.Set(share)
	full := share >= slowFrom
	if full && !o.load.crowded {
		o.cfg.Logger.Warn("active producers grow towards their bound, at which new ones are refused: let clients reuse their producers "+
			"instead of starting one for each call, or raise --max-producers",
			zap.Float64("share", share), zap.Int("producers", l.Producers), zap.Int64("max_producers", limit))
	}
	o.load.crowded = full || o.load.crowded && share >= slowFrom*0.9
}

// admit delays a commit in proportion to what is above slowFrom, and refuses it at the bound. Errors: ErrOverloaded,
// ErrNotOwner, the context's.
func (o *Owner) admit(ctx context.Context, cmd metadata.Command) error {
	if _, commit := cmd.(*metadata.CommitBundle); !commit {
		return nil
	}
	share := o.load.get()
	switch {
	case share >= 1:
		o.metrics.overloaded.Inc()
		return ErrOverloaded
	case share <= slowFrom:
		return nil
	}
	d := time.Duration((share - slowFrom) / (1 - slowFrom) * float64(o.cfg.MaxDelay))
	o.metrics.slowed.Add(d.Seconds())
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("held back: %w", ctx.Err())
	case <-o.done:
		return ErrNotOwner
	case <-timer.C:
		return nil
	}
}

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/metadata/id"
)

// Lifecycle does the work of one virtual cluster, one tenure at a time.
type Lifecycle struct {
	cfg     Config
	metrics *metrics
	lists   *rate.Limiter // of LIST errands of the sweep
	// heldBack are dead bundles whose objects could not be deleted, at most as many as there are dead bundles. Of collect alone.
	heldBack setbacks[id.Bundle]
	waits    bool // garbage waits for an agent. Used by collect.
	// unswept are sessions and jobs whose sweep failed, at most as many as there are ended ones. Of sweep alone.
	unswept setbacks[id.Session]
}

// New checks the configuration.
func New(cfg Config) (*Lifecycle, error) {
	cfg.applyDefaults()
	err := cfg.Settings.Validate()
	if cfg.Agents == nil || cfg.StoreTime == nil {
		err = errors.Join(err, errors.New("no agents or no clock of the store"))
	}
	if err != nil {
		return nil, fmt.Errorf("lifecycle: %w", err)
	}
	return &Lifecycle{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), lists: rate.NewLimiter(listsPerSecond, 1),
		heldBack: setbacks[id.Bundle]{}, unswept: setbacks[id.Session]{},
	}, nil
}

// Tenure is the time of one owner.
type Tenure struct {
	Owner Owner
	// Kept gives the log index of the older of the retained snapshots, 0 while there are fewer than two.
	Kept func() uint64
	// WantSnapshot asks for a snapshot though there is little log: garbage waits for it.
	WantSnapshot func()
}

// Start works until ctx ends. Failures are logged and tried again at the next interval. wait returns after the end.
func (l *Lifecycle) Start(ctx context.Context, t Tenure) (wait func()) {
	settings := &l.cfg.Settings
	all := []*periodic.Loop{
		l.every(ctx, settings.RetentionCheck, "retention failed, it is tried again", func(ctx context.Context) error { return l.retain(ctx, t.Owner) }),
		l.every(ctx, settings.GarbageCheck, "garbage not deleted, it is tried again", func(ctx context.Context) error { return l.collect(ctx, t) }),
		l.every(ctx, settings.GarbageCheck, "orphans not swept, it is tried again", func(ctx context.Context) error { return l.sweep(ctx, t.Owner) }),
		l.every(ctx, settings.GarbageCheck, "deleted topics not purged, it is tried again", func(ctx context.Context) error { return l.purge(ctx, t.Owner) }),
	}
	return func() {
		for _, work := range all {
			work.Wait()
		}
		l.waits = false
		l.metrics.forget()
	}
}

// storeTimeout bounds the question to the store for its time.
const storeTimeout = 10 * time.Second

// storeTime is the time of the store's clock, in ms since the epoch. What time deletes goes by the earlier one of it and
// the state's: an owner whose clock was ahead while no store could be asked has aged the state for good.
func (l *Lifecycle) storeTime(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now, err := l.cfg.StoreTime(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the store for the time: %w", err)
	}
	return now.UnixMilli(), nil
}

func (l *Lifecycle) every(ctx context.Context, interval time.Duration, failure string, do func(context.Context) error) *periodic.Loop {
	return periodic.Every(ctx, interval, func(ctx context.Context) {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			l.metrics.failures.Inc()
			l.cfg.Log.Warn(failure, zap.Error(err)) //nolint:zapconst // one of a few constants
		}
	})
}

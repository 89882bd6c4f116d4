package job

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/id"
)

// Planner plans the background jobs of one virtual cluster on this replica, one tenure at a time.
type Planner struct {
	cfg     Config
	metrics *metrics
	tenure  atomic.Pointer[Tenure] // the newest
}

// New checks the configuration.
func New(cfg Config) (*Planner, error) {
	cfg.applyDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("job planner: %w", err)
	}
	return &Planner{cfg: cfg, metrics: newMetrics(cfg.Registerer)}, nil
}

// Tenure begins to plan under an owner: Begin, then Start.
func (p *Planner) Tenure(o Owner, r Runners) *Tenure {
	t := &Tenure{
		storeTime: storeClock{ask: p.cfg.StoreTime},
		settings:  p.cfg.Settings, maxExtents: p.cfg.MaxExtents, log: p.cfg.Log.With(zap.String("part", "jobs")), metrics: p.metrics, owner: o, runners: r,
		frontiers: newFrontiers(), judged: map[id.Bundle]bool{}, given: map[id.Session]uint64{},
		vacant: map[id.Bundle]time.Time{}, cuts: make(chan *cut, 1), over: make(chan struct{}), reclaims: reclaims{seen: map[id.Bundle]time.Time{}},
	}
	t.mu.leases = map[id.Session]*lease{}
	t.mu.setbacks = newSetbacks()
	p.tenure.Store(t)
	return t
}

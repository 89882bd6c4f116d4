package zonewriter

import (
	"cmp"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata/id"
)

// Config of a Planner.
type Config struct {
	Rates Rates
	// Slows reports whether the owner delays commits, or soon will. Meanwhile no savings are lent. nil: it never does.
	Slows      func() bool
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// Agents are the agents connected to the owner.
type Agents interface {
	// TellZoneWriter sends an agent its writer, its part of the PUT budget, and the limit of its PUTs by savings. It reports
	// whether the agent is connected. The message may still be lost with the stream.
	TellZoneWriter(agent, writer id.Session, share float64, savings uint64) bool
}

// Planner plans the writers of one virtual cluster's zones while this replica is its owner.
type Planner struct {
	cfg     Config
	metrics *metrics
	tenure  atomic.Pointer[Tenure]
}

// New builds a Planner.
func New(cfg Config) *Planner {
	cfg.Rates.ApplyDefaults()
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	if cfg.Slows == nil {
		cfg.Slows = func() bool { return false }
	}
	return &Planner{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
}

// Tenure makes what plans for one tenure, by what the table of loads has.
func (p *Planner) Tenure(loads *load.Table, agents Agents) *Tenure {
	t := newTenure(p, loads, agents)
	p.tenure.Store(t)
	return t
}

// List gives the agents with what they write, by zone and session. Errors: owner.ErrNotOwner if this replica is not the
// owner.
func (p *Planner) List() ([]Info, error) {
	t := p.tenure.Load()
	if t == nil || t.over.Load() {
		return nil, owner.ErrNotOwner
	}
	return t.infos(), nil
}

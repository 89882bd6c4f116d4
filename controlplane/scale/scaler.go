// Package scale computes how many agents each zone of a virtual cluster should have, for whoever scales them: Kubernetes'
// HorizontalPodAutoscaler, KEDA, ECS, a person. It starts and stops no agents itself.
//
// An agent's load is the largest share of its CPU, its network and its memory budgets that is in use. A zone's figure is the
// sum of its agents' loads over the target, rounded up. It has no memory: damping is the autoscaler's (docs/scaling.md). Figures are
// computed when they are asked for, so that idle virtual clusters cost nothing.
// Only the owner knows the loads. A new owner has no figure for a zone before it has heard all of the zone's agents, or for 3 s.
package scale

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// learning is how long a new owner waits for the agents of a zone to report their load.
	learning = 3 * time.Second
	// minTarget is the lowest target.
	minTarget = 0.05
	// mostLoad bounds what one agent counts for: a limit that is set too low must not ask for hundreds of agents.
	mostLoad = 2
	// rounding is the error that sums of shares may have.
	rounding = 1e-9
)

// Settings are the configuration of figures. Zero fields take the defaults.
type Settings struct {
	// Target is the load that agents should have on average. Default 0.6.
	Target float64
}

// ApplyDefaults fills the fields left zero.
func (s *Settings) ApplyDefaults() { s.Target = cmp.Or(s.Target, 0.6) }

// Validate checks the settings.
func (s *Settings) Validate() error {
	if !(s.Target >= minTarget && s.Target < 1) {
		return fmt.Errorf("target utilization %v: %v or more, below 1", s.Target, minTarget)
	}
	return nil
}

// Owner is the part of the virtual cluster's owner that is needed (package owner).
type Owner interface {
	Read(fn func(*metadata.State)) (index uint64, err error)
}

// Scaler computes the figures of one virtual cluster on this replica while that is the owner.
type Scaler struct {
	target float64
	tenure atomic.Pointer[tenure] // nil if this replica is not the owner
}

// New checks the settings.
func New(settings Settings, r prometheus.Registerer) (*Scaler, error) {
	settings.ApplyDefaults()
	if err := settings.Validate(); err != nil {
		return nil, fmt.Errorf("scaler: %w", err)
	}
	s := &Scaler{target: settings.Target}
	if err := r.Register(figures{s}); err != nil {
		return nil, fmt.Errorf("scaler: %w", err)
	}
	return s, nil
}

// tenure is one ownership.
type tenure struct {
	owner Owner
	loads func() *load.Table
	begun time.Time
}

// Start begins a tenure, which ends when end is called. loads returns the reports that the owner has of agents, nil while there are none.
func (s *Scaler) Start(o Owner, loads func() *load.Table) (end func()) {
	s.tenure.Store(&tenure{owner: o, loads: loads, begun: time.Now()})
	return func() { s.tenure.Store(nil) }
}

// members returns the agents that serve clients, by zone. Agents that are hidden because their stream broke are among them: they
// may still run. Errors: owner.ErrNotOwner.
func (t *tenure) members() (map[string][]id.Session, error) {
	members := map[string][]id.Session{}
	_, err := t.owner.Read(func(s *metadata.State) {
		for info := range s.Sessions() {
			if info.Serves() {
				members[info.Zone] = append(members[info.Zone], info.ID)
			}
		}
	})
	return members, err
}

// reports returns the recent reports of agents.
func (t *tenure) reports(now time.Time) map[id.Session]load.Agent {
	if table := t.loads(); table != nil {
		return table.Recent(now)
	}
	return nil
}

// Info is a zone's figure, for operators and autoscalers.
type Info struct {
	Zone        string  `json:"zone"`             // "" of agents without one
	Desired     *int    `json:"desired_replicas"` // null while there is no figure; then Utilization and Load are 0
	Agents      int     `json:"agents"`           // that serve clients
	Utilization float64 `json:"utilization"`      // mean of the agents' loads, 0 to 1
	Load        float64 `json:"load"`             // sum of the agents' loads
	Loads       []Load  `json:"loads"`            // of the agents that reported theirs in the last 5 s
}

// Load is the latest report of one agent.
type Load struct {
	Session               uint32  `json:"session"`
	Utilization           float64 `json:"utilization"`
	CPU                   float64 `json:"cpu"`
	Network               float64 `json:"network"`
	Buffers               float64 `json:"buffers"`
	ProduceBytesPerSecond float64 `json:"produce_bytes_per_second"`
	SilenceSeconds        float64 `json:"silence_seconds"`
}

func infoOf(zone string, members []id.Session, reports map[id.Session]load.Agent, now time.Time) Info {
	info := Info{Zone: zone, Agents: len(members), Loads: []Load{}}
	for _, session := range members {
		if a, ok := reports[session]; ok {
			info.Loads = append(info.Loads, Load{
				Session: uint32(session), Utilization: a.Load.Utilization(), CPU: a.Load.Cpu, Network: a.Load.Network, Buffers: a.Load.Buffers,
				ProduceBytesPerSecond: a.Load.ProduceBytesPerSecond, SilenceSeconds: now.Sub(a.Heard).Seconds(),
			})
		}
	}
	return info
}

// compute sets the figure. An agent without a recent report counts as much as the mean of the others: a silent agent must
// not look like an idle one.
func (i *Info) compute(target float64) {
	for n := range i.Loads {
		i.Utilization += min(i.Loads[n].Utilization, mostLoad)
	}
	i.Utilization /= float64(len(i.Loads))
	i.Load = i.Utilization * float64(i.Agents)
	desired := max(1, int(math.Ceil(i.Load/target-rounding)))
	i.Desired = &desired
}

// List returns the figures of all zones, ordered by name. Errors: owner.ErrNotOwner.
func (s *Scaler) List() ([]Info, error) {
	t := s.tenure.Load()
	if t == nil {
		return nil, owner.ErrNotOwner
	}
	members, err := t.members()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	reports := t.reports(now)
	infos := make([]Info, 0, len(members))
	for _, zone := range slices.Sorted(maps.Keys(members)) {
		info := infoOf(zone, members[zone], reports, now)
		if len(info.Loads) == info.Agents || len(info.Loads) > 0 && now.Sub(t.begun) >= learning {
			info.compute(s.target)
		}
		infos = append(infos, info)
	}
	return infos, nil
}

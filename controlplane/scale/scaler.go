package scale

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Interval is how often figures are made.
const Interval = time.Second

// Owner is what is needed of the owner of the virtual cluster (package owner).
type Owner interface {
	Read(fn func(*metadata.State)) (index uint64, err error)
}

// Scaler makes the figures of one virtual cluster on this replica, while that is the owner.
type Scaler struct {
	cfg     Config
	metrics *metrics

	mu struct {
		sync.Mutex
		tenure *tenure // nil: this replica is not the owner
	}
}

// New checks the configuration.
func New(cfg Config) (*Scaler, error) {
	cfg.applyDefaults()
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("scaler: %w", err)
	}
	return &Scaler{cfg: cfg, metrics: newMetrics(cfg.Registerer)}, nil
}

// tenure is what is followed for the length of one ownership.
type tenure struct {
	owner Owner
	loads func() *load.Table
	zones map[string]*Zone // of Run's goroutine
	infos []Info           // guarded by Scaler.mu; replaced whole
}

// Run makes figures once a second until ctx ends. loads gives what agents told the owner, nil while there is none.
func (s *Scaler) Run(ctx context.Context, o Owner, loads func() *load.Table) {
	t := &tenure{owner: o, loads: loads, zones: map[string]*Zone{}}
	s.set(t)
	defer func() {
		s.set(nil)
		s.metrics.clear()
	}()
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.step(t, now)
		}
	}
}

func (s *Scaler) set(t *tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.tenure = t
}

// step makes the figures of all zones.
func (s *Scaler) step(t *tenure, now time.Time) {
	members, err := t.members()
	if err != nil { // fenced, or about to end
		s.metrics.clear()
		return
	}
	told := t.told(now)
	for name := range members {
		if t.zones[name] == nil {
			t.zones[name] = NewZone(s.cfg.Settings)
		}
	}
	infos := make([]Info, 0, len(t.zones))
	for _, name := range slices.Sorted(maps.Keys(t.zones)) {
		zone := t.zones[name]
		if len(members[name]) == 0 && zone.Gone(now) {
			delete(t.zones, name)
			s.metrics.forget(name)
			continue
		}
		before := zone.last
		figure, known := zone.Step(now, agentsOf(members[name], told))
		s.metrics.show(name, figure, known)
		s.say(name, before, figure)
		infos = append(infos, infoOf(name, figure, known, members[name], told, now))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.infos = infos
}

// say logs what changes in a zone.
func (s *Scaler) say(zone string, before, figure Figure) {
	if before.Replicas == figure.Replicas {
		return
	}
	s.cfg.Log.Info("agents that the zone should have", zap.String("zone", zone), zap.Int("desired", figure.Replicas),
		zap.Int("desired_before", before.Replicas), zap.Int("agents", figure.Agents),
		zap.Float64("utilization", math.Round(figure.Utilization*1000)/1000), zap.String("reason", string(figure.Reason)))
}

// members are the agents that clients are sent to, by zone. Errors: owner.ErrNotOwner.
func (t *tenure) members() (map[string][]id.Session, error) {
	members := map[string][]id.Session{}
	_, err := t.owner.Read(func(s *metadata.State) {
		for info := range s.Sessions() {
			if info.Shown() {
				members[info.Zone] = append(members[info.Zone], info.ID)
			}
		}
	})
	return members, err
}

// told returns the recent reports of agents.
func (t *tenure) told(now time.Time) map[id.Session]load.Agent {
	told := map[id.Session]load.Agent{}
	table := t.loads()
	if table == nil {
		return told
	}
	for _, zone := range table.Zones(now) {
		for _, a := range zone.Agents {
			told[a.Session] = a
		}
	}
	return told
}

func agentsOf(members []id.Session, told map[id.Session]load.Agent) []Agent {
	agents := make([]Agent, len(members))
	for i, session := range members {
		a, known := told[session]
		agents[i] = Agent{Session: session, Utilization: a.Load.Utilization(), Known: known}
	}
	return agents
}

// Info is a zone's figure, for operators and autoscalers.
type Info struct {
	Zone        string  `json:"zone"`             // "" of agents without one
	Desired     *int    `json:"desired_replicas"` // null while no agent has told its load
	Agents      int     `json:"agents"`           // that clients are sent to
	Utilization float64 `json:"utilization"`      // average, 0 to 1
	Reason      Reason  `json:"reason"`
	Loads       []Load  `json:"loads"` // of the agents that told theirs in the last 5 s
}

// Load is what one agent told last.
type Load struct {
	Session               uint32  `json:"session"`
	Utilization           float64 `json:"utilization"`
	CPU                   float64 `json:"cpu"`
	Network               float64 `json:"network"`
	Buffers               float64 `json:"buffers"`
	ProduceBytesPerSecond float64 `json:"produce_bytes_per_second"`
	SilenceSeconds        float64 `json:"silence_seconds"`
}

func infoOf(name string, f Figure, known bool, members []id.Session, told map[id.Session]load.Agent, now time.Time) Info {
	info := Info{Zone: name, Agents: f.Agents, Utilization: f.Utilization, Reason: f.Reason, Loads: []Load{}}
	if known {
		info.Desired = &f.Replicas
	}
	for _, session := range members {
		if a, ok := told[session]; ok {
			info.Loads = append(info.Loads, Load{
				Session: uint32(session), Utilization: a.Load.Utilization(), CPU: a.Load.Cpu, Network: a.Load.Network, Buffers: a.Load.Buffers,
				ProduceBytesPerSecond: a.Load.ProduceBytesPerSecond, SilenceSeconds: now.Sub(a.Heard).Seconds(),
			})
		}
	}
	return info
}

// List gives the figures of all zones as they were made last, in order of their names. Errors: owner.ErrNotOwner.
func (s *Scaler) List() ([]Info, error) {
	s.mu.Lock()
	t, infos := s.mu.tenure, []Info(nil)
	if t != nil {
		infos = t.infos
	}
	s.mu.Unlock()
	if t == nil {
		return nil, owner.ErrNotOwner
	}
	if _, err := t.owner.Read(func(*metadata.State) {}); err != nil {
		return nil, err
	}
	if infos == nil {
		return []Info{}, nil
	}
	return infos, nil
}

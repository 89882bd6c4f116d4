package controlplane

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/session"
)

const (
	// contactPause is the time between two looks at virtual clusters that an agent has called. After failures it grows to maxContactPause.
	contactPause    = time.Second
	maxContactPause = time.Minute
	// contactTimeout bounds the time of one look. The rest waits for the next one.
	contactTimeout = 10 * time.Second
	// sessionLook is the time between two looks for agents with a session, which call no more while it lasts.
	sessionLook = time.Hour
)

// contacts tells the registry which virtual clusters of etcd have agents, once every registry.ContactEvery, because those of teams that are not
// approved expire without agents. If the replica ends before, an agent calls another replica.
type contacts struct {
	clusters *clusters
	note     func(ctx context.Context, clusterID string) error
	serves   func(*cluster) bool // servesAgents
	log      *zap.Logger
	backlog  prometheus.Gauge
}

func newContacts(s *clusters, note func(context.Context, string) error, log *zap.Logger, r prometheus.Registerer) *contacts {
	c := &contacts{clusters: s, note: note, serves: (*cluster).servesAgents, log: log, backlog: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "freshet_controlplane_contacts_backlog", Help: "Virtual clusters that agents have called and whose records do not show it yet.",
	})}
	r.MustRegister(c.backlog)
	return c
}

func (c *contacts) run(ctx context.Context) error {
	pause := contactPause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		failed, err := c.noteAll(ctx, time.Now())
		if failed == 0 || ctx.Err() != nil {
			pause = contactPause
			continue
		}
		pause = min(2*pause, maxContactPause)
		c.log.Warn("contacts of agents were not stored, and are tried again",
			zap.Int("virtual_clusters", failed), zap.Duration("after", pause), zap.Error(err))
	}
}

// noteAll notes all new contacts. One that fails does not keep the others, and is tried again at the next look. noteAll returns the number of failures, and
// one error.
func (c *contacts) noteAll(ctx context.Context, now time.Time) (failed int, fault error) {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	for _, called := range c.contacted(now) {
		called.contacted.Store(false) // before the note, so that no later call is lost
		if err := c.note(ctx, called.spec.ID); err != nil {
			called.contacted.Store(true)
			failed++
			fault = err
			continue
		}
		called.noteDue = now.Add(registry.ContactEvery)
	}
	c.backlog.Set(float64(failed))
	return failed, fault
}

// contacted returns the running virtual clusters of etcd with a contact to note, in random order.
func (c *contacts) contacted(now time.Time) (all []*cluster) {
	c.clusters.mu.RLock()
	defer c.clusters.mu.RUnlock()
	for _, e := range c.clusters.mu.bySource {
		if running := e.running; e.kind == ofEtcd && running != nil && c.isDue(running, now) {
			all = append(all, running)
		}
	}
	return all
}

// isDue reports whether a virtual cluster has a contact to note.
func (c *contacts) isDue(of *cluster, now time.Time) bool {
	switch {
	case now.Before(of.noteDue):
		return false
	case of.contacted.Load():
		return true
	case of.noteDue.IsZero(): // a session begins with a call
		return false
	case c.serves(of):
		return true
	}
	of.noteDue = now.Add(sessionLook)
	return false
}

// idle reports whether this replica owns a virtual cluster of etcd that had no agent in the last ten minutes. The state has the sessions under earlier owners, too.
func (c *contacts) idle(clusterID string) bool {
	e, ok := c.clusters.ofEtcd(clusterID)
	if !ok || e.running == nil {
		return false
	}
	list, owned := e.running.sessions.Agents()
	return owned && len(list.Agents) == 0
}

// servesAgents reports whether this replica owns the virtual cluster and an agent has a session.
func (c *cluster) servesAgents() bool {
	list, owned := c.sessions.Agents()
	return owned && slices.ContainsFunc(list.Agents, func(a session.AgentInfo) bool { return a.State != session.AgentStopped })
}

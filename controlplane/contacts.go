package controlplane

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

const (
	// contactPause is the time between two looks at virtual clusters that an agent has called. After failures it grows to maxContactPause.
	contactPause    = time.Second
	maxContactPause = time.Minute
	// contactTimeout bounds the time of one look. The rest waits for the next one.
	contactTimeout = 10 * time.Second
)

// contacts tells the registry once of each virtual cluster of etcd that an agent has called, because one that no agent ever called expires. If the
// replica ends before, an agent calls another replica.
type contacts struct {
	clusters *clusters
	note     func(ctx context.Context, clusterID string) error
	log      *zap.Logger
	backlog  prometheus.Gauge
}

func newContacts(s *clusters, note func(context.Context, string) error, log *zap.Logger, r prometheus.Registerer) *contacts {
	c := &contacts{clusters: s, note: note, log: log, backlog: prometheus.NewGauge(prometheus.GaugeOpts{
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
		failed, err := c.noteAll(ctx)
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
func (c *contacts) noteAll(ctx context.Context) (failed int, fault error) {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	for _, called := range c.clusters.contacted() {
		if err := c.note(ctx, called.spec.ID); err != nil {
			failed++
			fault = err
			continue
		}
		called.noted.Store(true)
	}
	c.backlog.Set(float64(failed))
	return failed, fault
}

// contacted returns the running virtual clusters of etcd whose contact is not noted, in random order.
func (s *clusters) contacted() (all []*cluster) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.mu.bySource {
		if c := e.running; e.kind == ofEtcd && c != nil && c.contacted.Load() && !c.noted.Load() {
			all = append(all, c)
		}
	}
	return all
}

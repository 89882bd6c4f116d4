// Package expiry removes the remains of an open sign-up: clusters that no agent ever called, and accounts without a login.
//
// It touches only clusters of teams of a sign-up whose owners are all unverified, and unverified accounts (registry.Account.Unverified). A cluster that an agent has
// called once never expires, and neither does its team.
//
// Every replica with the HTTP API for tenants sweeps. Each step compares the revisions of what it read, so replicas that sweep at once do no harm.
package expiry

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
)

const (
	// ClusterLife is the time from the creation of a cluster to its deletion if no agent calls.
	ClusterLife = 7 * 24 * time.Hour
	// UndeleteTime is the time from the deletion of such a cluster to its removal.
	UndeleteTime = 24 * time.Hour
	// AccountLife is the time from the last login to the removal of an account.
	AccountLife = 30 * 24 * time.Hour

	// sweepPause is the pause between two sweeps. After a sweep that failed, it begins at retryPause.
	sweepPause = time.Hour
	retryPause = time.Minute
	// itemPause is the pause after each change, so that a sweep leaves etcd to others.
	itemPause = 100 * time.Millisecond
	// itemTimeout bounds the time of one item.
	itemTimeout = 10 * time.Second
)

// Config configures a Sweeper.
type Config struct {
	Registry   *registry.Registry
	Directory  directory.Directory
	Now        func() time.Time // default time.Now
	Log        *zap.Logger
	Registerer prometheus.Registerer // nil means no metrics
}

// Sweeper removes expired clusters and accounts.
type Sweeper struct {
	cfg     Config
	metrics metrics
}

// New returns a Sweeper.
func New(cfg Config) *Sweeper {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Sweeper{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
}

// by is the actor of audit entries.
var by = registry.Actor{Name: "expiry"}

// Run sweeps until ctx ends. The first sweep begins within sweepPause, at a random time, so that replicas take turns.
func (s *Sweeper) Run(ctx context.Context) error {
	pause, retry := rand.N(sweepPause), retryPause
	for s.wait(ctx, pause) {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("expired clusters and accounts were not removed, another sweep follows", zap.Duration("after", retry), zap.Error(err))
			pause, retry = retry, min(2*retry, sweepPause)
			continue
		}
		pause, retry = sweepPause, retryPause
	}
	return nil
}

func (s *Sweeper) wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// Sweep looks at all clusters, accounts and teams once. An item that fails does not keep the others, and stays in the backlog until the next sweep. Sweep returns
// an error if etcd did not list the items, and the first error of an item.
func (s *Sweeper) Sweep(ctx context.Context) error {
	clusters, accounts, teams := s.newTurn(ctx, "cluster"), s.newTurn(ctx, "account"), s.newTurn(ctx, "team")
	err := s.cfg.Registry.EachCluster(ctx, func(c *registry.Cluster, err error) {
		clusters.item(err, func(ctx context.Context) (step, error) { return s.cluster(ctx, c) })
	})
	clusters.end(err)
	accountsErr := s.cfg.Registry.EachAccount(ctx, func(a *registry.Account, err error) {
		accounts.item(err, func(ctx context.Context) (step, error) { return s.account(ctx, a) })
	})
	accounts.end(accountsErr)
	teamsErr := s.cfg.Registry.EachTeam(ctx, func(t *registry.Team, err error) {
		teams.item(err, func(ctx context.Context) (step, error) { return s.team(ctx, t) })
	})
	teams.end(teamsErr)
	return errors.Join(err, accountsErr, teamsErr, clusters.fault, accounts.fault, teams.fault)
}

// turn is the part of a sweep over one kind of items.
type turn struct {
	*Sweeper
	ctx    context.Context //nolint:containedctx // of one sweep
	kind   string
	failed int
	fault  error // the first one
}

func (s *Sweeper) newTurn(ctx context.Context, kind string) *turn {
	return &turn{Sweeper: s, ctx: ctx, kind: kind}
}

// item looks at one item. unreadable is the error of its record.
func (t *turn) item(unreadable error, sweep func(context.Context) (step, error)) {
	if t.ctx.Err() != nil {
		return
	}
	var done step
	err := unreadable
	if err == nil {
		ctx, cancel := context.WithTimeout(t.ctx, itemTimeout)
		done, err = sweep(ctx)
		cancel()
	}
	switch {
	case errors.Is(err, registry.ErrNotFound), errors.Is(err, registry.ErrConflict), errors.Is(err, directory.ErrChanged):
		// Another replica was first, or a user. The next sweep looks again.
	case err != nil:
		if t.failed++; t.fault == nil {
			t.fault = err
		}
	case done != "":
		t.metrics.steps.WithLabelValues(string(done)).Inc()
		t.wait(t.ctx, itemPause)
	}
}

// end sets the backlog. If the items were not listed, the backlog of the sweep before stays.
func (t *turn) end(err error) {
	if err == nil && t.ctx.Err() == nil {
		t.metrics.backlog.WithLabelValues(t.kind).Set(float64(t.failed))
	}
}

// account removes an account that was abandoned, with its teams.
func (s *Sweeper) account(ctx context.Context, a *registry.Account) (step, error) {
	deleted, err := s.cfg.Registry.DeleteAbandoned(ctx, by, a, s.cfg.Now().Add(-AccountLife))
	if err != nil || !deleted {
		return "", err
	}
	s.cfg.Log.Info("abandoned account was removed", zap.String("account", a.ID))
	return accountRemoved, nil
}

// team completes a deletion that ended early. No account shows such a team any more.
func (s *Sweeper) team(ctx context.Context, t *registry.Team) (step, error) {
	if !t.Deleting {
		return "", nil
	}
	return teamRemoved, s.cfg.Registry.DeleteTeam(ctx, by, t.ID)
}

// cluster deletes a cluster that has expired, and removes it UndeleteTime later.
func (s *Sweeper) cluster(ctx context.Context, c *registry.Cluster) (step, error) {
	now := s.cfg.Now()
	since := c.Created
	if c.Restored.After(since) {
		since = c.Restored
	}
	expired := c.State == directory.Active && now.Sub(since) >= ClusterLife
	if !c.Contacted.IsZero() || !expired && c.State != directory.Deleted {
		return "", nil
	}
	if unverified, err := s.cfg.Registry.Unverified(ctx, c.Team); err != nil || !unverified {
		return "", err
	}
	if expired {
		return s.delete(ctx, c)
	}
	spec, revision, err := s.cfg.Directory.Get(ctx, c.ID)
	if err != nil {
		return "", err
	}
	name := c.ID // of a Spec that was never written
	if spec != nil {
		name = spec.Name
	}
	switch {
	case spec != nil && spec.State != directory.Deleted: // a deletion ended before its Spec
		spec.State = directory.Deleted
		return clusterDeleted, s.cfg.Directory.Update(ctx, spec, revision)
	case now.Sub(c.Deleted) < UndeleteTime:
		return "", nil
	}
	return clusterRemoved, s.cfg.Registry.RemoveCluster(ctx, by, c.ID, s.cfg.Directory.Removal(c.ID, name, revision))
}

// delete marks the record of a cluster as deleted, and then its Spec. The Spec is read first, so a user's later change of it stays.
func (s *Sweeper) delete(ctx context.Context, c *registry.Cluster) (step, error) {
	spec, revision, err := s.cfg.Directory.Get(ctx, c.ID)
	if err != nil {
		return "", err
	}
	err = s.cfg.Registry.UpdateCluster(ctx, by, c.ID, func(next *registry.Cluster) error {
		if next.Revision != c.Revision { // an agent has called, or the user has changed something
			return registry.ErrConflict
		}
		next.State = directory.Deleted
		return nil
	})
	if err != nil {
		return "", err
	}
	s.cfg.Log.Info("virtual cluster has expired without a call of an agent", zap.String("cluster_id", c.ID), zap.String("team", c.Team))
	if spec == nil {
		return clusterDeleted, nil
	}
	spec.State = directory.Deleted
	return clusterDeleted, s.cfg.Directory.Update(ctx, spec, revision)
}

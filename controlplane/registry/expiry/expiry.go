// Package expiry deletes clusters that have expired, purges deleted clusters, and removes accounts without a login.
//
// A demo expires at its time. A cluster of a team that is not approved (registry.Team.Approved) expires ClusterLife after its creation if no agent ever called, and
// otherwise ContactLife after the last contact of an agent. Only the owner of an active cluster deletes it, and only while it has no agents: the record may
// lack later contacts, since earlier builds stored only the first one. A cluster that an operator blocked does not expire, unless it is a demo. An account expires if it has a password and all its teams are not approved. Nothing else expires.
//
// A deleted cluster of any team is purged registry.UndeleteTime later, or at once if its user says so: its snapshots, and then everything that etcd has of it.
//
// Every replica with the HTTP API for tenants sweeps. Each step compares the revisions of what it read, so replicas that sweep at once do no harm.
package expiry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/metadata/snapshot"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
)

const (
	// ClusterLife is the time from the creation of a cluster to its deletion if no agent calls.
	ClusterLife = 7 * 24 * time.Hour
	// ContactLife is the time from the last contact of an agent to the deletion of the cluster.
	ContactLife = 30 * 24 * time.Hour
	// AccountLife is the time from the last login to the removal of an account.
	AccountLife = 30 * 24 * time.Hour

	// sweepPause is the pause between two sweeps. After a sweep that failed, it begins at retryPause.
	sweepPause = time.Hour
	retryPause = time.Minute
	// firstSweep is the minimum time from the start to the first sweep. In this time, agents find this replica and their contacts are stored.
	firstSweep = 10 * time.Minute
	// purgePause is the time from Wake to the purge. While a purge fails, it grows to sweepPause.
	purgePause = 5 * time.Second
	// settleTime is the time from a deletion to the purge in which all replicas read the deletion, so that none takes the cluster over meanwhile.
	settleTime = 5 * time.Second
	// itemPause is the pause after each change, so that a sweep leaves etcd to others.
	itemPause = 100 * time.Millisecond
	// maxSkew is the maximum difference of this machine's clock and the object store's.
	maxSkew = 30 * time.Second
	// itemTimeout bounds the time of one item.
	itemTimeout = 10 * time.Second
)

// Config configures a Sweeper.
type Config struct {
	Registry   *registry.Registry
	Directory  directory.Directory
	Bucket     objstore.Bucket               // of the snapshots
	Snapshots  func(clusterID string) string // prefix of a cluster's snapshots in Bucket
	Idle       func(clusterID string) bool   // reports whether this replica owns a cluster and has seen no agent of it lately
	Now        func() time.Time              // default time.Now
	Log        *zap.Logger
	Registerer prometheus.Registerer // nil means no metrics
}

// Sweeper removes expired clusters and accounts.
type Sweeper struct {
	cfg     Config
	metrics metrics
	wake    chan struct{}
}

// New returns a Sweeper.
func New(cfg Config) *Sweeper {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Sweeper{cfg: cfg, metrics: newMetrics(cfg.Registerer), wake: make(chan struct{}, 1)}
}

// Wake has Run purge the clusters of registry.PurgeCluster soon.
func (s *Sweeper) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // Run knows already
	}
}

// by is the actor of audit entries.
var by = registry.Actor{Name: "expiry"}

// Run sweeps until ctx ends. The first sweep begins firstSweep to sweepPause later, at a random time, so that replicas take turns.
func (s *Sweeper) Run(ctx context.Context) error {
	sweeps := round{run: s.inTime(s.Sweep), first: retryPause, due: time.After(firstSweep + rand.N(sweepPause-firstSweep))}
	purges := round{run: s.inTime(s.Purge), first: purgePause}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			if purges.due == nil {
				purges.due = time.After(purgePause)
			}
		case <-purges.due:
			purges.turn(ctx, s.cfg.Log)
		case <-sweeps.due:
			if sweeps.turn(ctx, s.cfg.Log); sweeps.due == nil {
				sweeps.due = time.After(sweepPause)
			}
		}
	}
}

// inTime returns a sweep that fails if this machine's clock and the object store's differ: a clock that is ahead would remove clusters early.
func (s *Sweeper) inTime(sweep func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		asking, cancel := context.WithTimeout(ctx, itemTimeout)
		at, err := s.cfg.Bucket.Now(asking)
		cancel()
		if err != nil {
			return fmt.Errorf("read the object store's time: %w", err)
		}
		if skew := s.cfg.Now().Sub(at); skew.Abs() > maxSkew {
			return fmt.Errorf("%w: by %v, the limit is %v", errSkew, skew, maxSkew)
		}
		return sweep(ctx)
	}
}

// errSkew is returned instead of a sweep if the clocks differ.
var errSkew = errors.New("the clocks of this machine and of the object store differ")

// round is a kind of sweeps. One that fails is due again, after pauses from first to sweepPause.
type round struct {
	run          func(context.Context) error
	first, retry time.Duration
	due          <-chan time.Time // nil after a success
}

func (r *round) turn(ctx context.Context, log *zap.Logger) {
	err := r.run(ctx)
	if r.due = nil; err == nil || ctx.Err() != nil {
		r.retry = 0
		return
	}
	r.retry = min(max(2*r.retry, r.first), sweepPause)
	r.due = time.After(r.retry)
	log.Warn("clusters and accounts were not removed, another sweep follows", zap.Duration("after", r.retry), zap.Error(err))
}

// Purge purges the clusters of registry.PurgeCluster. Errors as of Sweep.
func (s *Sweeper) Purge(ctx context.Context) error {
	purges := s.newTurn(ctx, "purge")
	err := s.cfg.Registry.EachCluster(ctx, func(c *registry.Cluster, err error) {
		if err == nil && !c.Purged.IsZero() { // the sweep reports records that cannot be read
			purges.item(nil, func(ctx context.Context) (step, error) { return s.deleted(ctx, c) })
		}
	})
	purges.end(err)
	return errors.Join(err, purges.fault)
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
		select {
		case <-t.ctx.Done():
		case <-time.After(itemPause):
		}
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

// cluster deletes a cluster that has expired, and purges one that is deleted.
func (s *Sweeper) cluster(ctx context.Context, c *registry.Cluster) (step, error) {
	now := s.cfg.Now()
	since, life := c.Created, ClusterLife
	if !c.Contacted.IsZero() {
		since, life = c.Contacted, ContactLife
	}
	if c.Restored.After(since) {
		since = c.Restored
	}
	switch {
	case c.State == directory.Deleted:
		return s.deleted(ctx, c)
	case c.Expired(now):
		return s.delete(ctx, c, "demo has expired")
	case !c.Blocked.IsZero(): // which keeps its agents away
		return "", nil
	case now.Sub(since) < life:
		return "", nil
	}
	if t, err := s.cfg.Registry.Team(ctx, c.Team); err != nil || t.Approved() {
		return "", err
	}
	spec, _, err := s.cfg.Directory.Get(ctx, c.ID)
	if err != nil || spec != nil && spec.State == directory.Active && !s.cfg.Idle(c.ID) {
		return "", err
	}
	return s.delete(ctx, c, "virtual cluster has expired without a call of an agent")
}

// errServed is returned for a deleted cluster that a replica serves, or may take over, because it has not read the deletion yet.
var errServed = errors.New("a deleted virtual cluster is not left by all replicas yet")

// deleted purges a deleted cluster at its time. The record goes last, together with all else in etcd, so a purge that ends early is made again.
func (s *Sweeper) deleted(ctx context.Context, c *registry.Cluster) (step, error) {
	c, err := s.cfg.Registry.Cluster(ctx, c.ID) // its user may have brought it back since the sweep read it
	if errors.Is(err, registry.ErrNotFound) || err == nil && c.State != directory.Deleted {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	now := s.cfg.Now()
	spec, revision, err := s.cfg.Directory.Get(ctx, c.ID)
	if err != nil {
		return "", err
	}
	name := c.ID // of a Spec that was never written
	if spec != nil {
		name = spec.Name
	}
	if spec != nil && spec.State != directory.Deleted { // a deletion ended before its Spec
		spec.State = directory.Deleted
		if err := s.cfg.Directory.Update(ctx, spec, revision, s.cfg.Registry.Unchanged(c)); err != nil || c.Purged.IsZero() {
			return clusterDeleted, err
		}
		return clusterDeleted, errServed
	}
	if now.Before(c.PurgeTime()) {
		return "", nil
	}
	if err := s.cfg.Registry.PurgeCluster(ctx, by, c.ID); err != nil { // from here on, no user brings the cluster back
		return "", err
	}
	owned, err := s.cfg.Directory.Owned(ctx, c.ID)
	if err == nil && (owned || now.Sub(c.Deleted) < settleTime) {
		err = fmt.Errorf("%w: %s", errServed, c.ID)
	}
	if err != nil {
		return "", err
	}
	if err := s.deleteObjects(ctx, c.ID, name); err != nil {
		return "", err
	}
	if err := s.cfg.Registry.RemoveCluster(ctx, by, c.ID, s.cfg.Directory.Removal(c.ID, name, revision)); err != nil {
		return "", err
	}
	s.cfg.Log.Info("deleted virtual cluster was purged", zap.String("cluster_id", c.ID), zap.String("team", c.Team))
	return clusterRemoved, nil
}

// deleteObjects deletes the snapshots of a cluster, and its marker.
func (s *Sweeper) deleteObjects(ctx context.Context, clusterID, name string) error {
	if _, err := snapshot.DeleteOlder(ctx, s.cfg.Bucket, s.cfg.Snapshots(clusterID), math.MaxUint64); err != nil {
		return err
	}
	m, err := marker.Read(ctx, s.cfg.Bucket, name)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return nil
	case err != nil:
		return err
	case m.ClusterID != clusterID: // of another cluster that took the name
		return nil
	}
	return s.cfg.Bucket.Delete(ctx, []string{marker.Key(name)})
}

// delete marks the record of a cluster as deleted, and then its Spec. The Spec is read first, so a user's later change of it stays.
func (s *Sweeper) delete(ctx context.Context, c *registry.Cluster, reason string) (step, error) {
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
	s.cfg.Log.Info("virtual cluster was deleted", zap.String("reason", reason), zap.String("cluster_id", c.ID), zap.String("team", c.Team))
	if spec == nil {
		return clusterDeleted, nil
	}
	spec.State = directory.Deleted
	return clusterDeleted, s.cfg.Directory.Update(ctx, spec, revision)
}

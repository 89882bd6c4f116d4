// Package logsoak loads a metadata log for minutes, through everything that carries it in production: an owner and a
// warm follower (controlplane/replica) over an embedded etcd (internal/etcdserver) with its upkeep
// (etcdlog.Maintainer) and snapshots in a bucket. It shows that etcd's database and write-ahead log stay bounded, and,
// with snapshots failing for a while, that commits slow down and are refused at the log budget and go on when
// snapshots do.
//
// The load is commits as agents send them. Most of the log's bytes are one large commit that is handed in again and
// again: it is logged each time and takes effect once (I3), so the soak loads the log and not the machine's memory.
// Between them new small commits make the state grow.
package logsoak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/file"
)

// Config of a soak.
type Config struct {
	Dir      string        // an empty directory for etcd and objects
	Duration time.Duration // of the load; default 10 min
	Rate     int64         // log bytes a second; default 16 MiB
	// Failing makes every snapshot of the first Duration fail; the load then goes on for Heal (default 3 min), or with
	// StopHealed only until commits are taken at full rate again.
	Failing    bool
	Heal       time.Duration
	StopHealed bool
	Sample     time.Duration // between lines of the report; default 10 s

	// Small bounds for a short soak; zero fields take the product's defaults.
	SnapshotBytes              int64
	SnapshotPoll               time.Duration
	SoftLogBytes, HardLogBytes int64
	SnapshotCount              uint64        // etcd's: see etcdserver.Config
	Upkeep                     time.Duration // between looks of the etcd maintainer
	CompactBytes, DefragBytes  int64         // see etcdlog.MaintainerConfig

	Out io.Writer   // of the report while it grows; default nowhere
	Log *zap.Logger // default: none
}

// ApplyDefaults sets the fields that are zero.
func (c *Config) ApplyDefaults() {
	c.Duration = cmp.Or(c.Duration, 10*time.Minute)
	c.Rate = cmp.Or(c.Rate, 16<<20)
	c.Heal = cmp.Or(c.Heal, 3*time.Minute)
	c.Sample = cmp.Or(c.Sample, 10*time.Second)
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
}

const virtualCluster = "soak"

// rig is the processes' worth of parts in this one process.
type rig struct {
	cfg    Config
	etcd   *etcdserver.Server
	bucket *fault.Bucket
	log    *watchedLog // the owner's
	owns   chan *owner.Owner
	owner  *replica.Replica
	warm   *replica.Replica
	upkeep *etcdlog.Maintainer
	leases []*metalog.Lease // of the owner and of the follower
}

// Run soaks and returns the samples. An error means that something failed that never may: a replica or etcd stopped,
// the states diverged, a commit got a wrong answer. Whether sizes were acceptable is for the caller to judge.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg.ApplyDefaults()
	r, err := newRig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.etcd.Close()
	defer r.runLeases()() // the replicas resign before
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.owner.Run(ctx) })
	group.Go(func() error { return r.upkeep.Run(ctx) })
	var result *Result
	group.Go(func() (err error) {
		defer cancel()
		result, err = r.soak(ctx, group)
		return err
	})
	err = group.Wait()
	if err == nil && result == nil {
		err = context.Cause(ctx)
	}
	return result, err
}

func newRig(ctx context.Context, cfg Config) (_ *rig, err error) {
	r := &rig{cfg: cfg, owns: make(chan *owner.Owner, 1)}
	objects, err := file.Open(filepath.Join(cfg.Dir, "objects"))
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	r.bucket = fault.New(objects, 1)
	r.etcd, err = etcdserver.Start(ctx, etcdserver.Config{Dir: r.etcdDir(), SnapshotCount: cfg.SnapshotCount}, cfg.Log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.etcd.Close()
		}
	}()
	ownLog, err := r.openLog()
	if err != nil {
		return nil, err
	}
	r.log = &watchedLog{Log: ownLog}
	if r.owner, err = r.newReplica("owner", r.log); err != nil {
		return nil, err
	}
	warmLog, err := r.openLog()
	if err != nil {
		return nil, err
	}
	if r.warm, err = r.newReplica("follower", warmLog); err != nil {
		return nil, err
	}
	r.upkeep, err = etcdlog.NewMaintainer(etcdlog.MaintainerConfig{
		Client: r.etcd.Client(), Replica: "owner", Check: cfg.Upkeep, CompactBytes: cfg.CompactBytes,
		DefragBytes: cfg.DefragBytes, Logger: cfg.Log,
	})
	return r, err
}

func (r *rig) etcdDir() string { return filepath.Join(r.cfg.Dir, "etcd") }

// openLog returns the log of one replica, under a lease of this replica.
func (r *rig) openLog() (metalog.Log, error) {
	cfg := metalog.Config{Logger: r.cfg.Log}
	lease, err := etcdlog.NewLease(r.etcd.Client(), "", cfg)
	if err != nil {
		return nil, err
	}
	r.leases = append(r.leases, lease)
	cfg.Lease = lease
	return etcdlog.Open(etcdlog.Config{Client: r.etcd.Client(), ClusterID: virtualCluster, Log: cfg})
}

// runLeases runs the leases until stop is called.
func (r *rig) runLeases() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	for _, lease := range r.leases {
		running.Go(func() error { return lease.Run(ctx) })
	}
	return func() {
		cancel()
		_ = running.Wait() // Run returns nil
	}
}

func (r *rig) newReplica(name string, log metalog.Log) (*replica.Replica, error) {
	return replica.New(replica.Config{
		Replica: name, Log: log, Bucket: r.bucket, SnapshotPrefix: "snapshots/", SnapshotBytes: r.cfg.SnapshotBytes,
		SnapshotPoll: r.cfg.SnapshotPoll,
		Owner:        owner.Config{SoftLogBytes: r.cfg.SoftLogBytes, HardLogBytes: r.cfg.HardLogBytes},
		OnOwner: func(o *owner.Owner) func() {
			select {
			case r.owns <- o:
			default: // a second tenure: the soak ends with the first
			}
			return func() {}
		},
		Logger: r.cfg.Log,
	})
}

// errSecondOwner: the follower must not become owner while the owner runs.
var errSecondOwner = errors.New("ownership was lost")

// soak waits for ownership, starts the follower, and loads.
func (r *rig) soak(ctx context.Context, group *errgroup.Group) (*Result, error) {
	var own *owner.Owner
	select {
	case own = <-r.owns:
	case <-ctx.Done():
		return nil, nil
	}
	group.Go(func() error { return r.warm.Run(ctx) })
	group.Go(func() error {
		select {
		case <-own.Done():
			if ctx.Err() == nil {
				return errors.Join(errSecondOwner, own.Err())
			}
		case <-ctx.Done():
		}
		return nil
	})
	l, err := newLoad(ctx, own, r.cfg.Rate)
	if err != nil {
		return nil, err
	}
	m := newMonitor(r, l)
	if !r.cfg.Failing {
		err := m.watch(ctx, r.cfg.Duration, nil)
		return m.result(), err
	}
	rules, err := r.bucket.Add("put key^snapshots/ fail")
	if err != nil {
		return nil, fmt.Errorf("make snapshots fail: %w", err)
	}
	if err := m.watch(ctx, r.cfg.Duration, nil); err != nil {
		return m.result(), err
	}
	r.bucket.Remove(rules...)
	m.healing()
	err = m.watch(ctx, r.cfg.Heal, m.healed)
	return m.result(), err
}

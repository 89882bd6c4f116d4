package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/group"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/offsetslog"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/scale"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/controlplane/txn"
	"github.com/freshet-io/freshet/controlplane/zonewriter"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/marker"
)

// cluster is one virtual cluster on this replica.
type cluster struct {
	name     string
	registry *registry
	replica  *replica.Replica
	sessions *session.Cluster
	work     *lifecycle.Lifecycle
	jobs     *job.Planner
	scaler   *scale.Scaler
	writers  *zonewriter.Planner
	log      *zap.Logger
	bucket   *bucketCheck
	stopped  atomic.Bool // ended by itself
}

func (c *ControlPlane) newCluster(vc VirtualCluster) (*cluster, error) {
	built := &cluster{name: vc.Name, registry: c.registry, log: c.cfg.Log.With(zap.String("virtual_cluster", vc.Name))}
	registerer := prometheus.WrapRegistererWith(prometheus.Labels{"virtual_cluster": vc.Name}, c.cfg.Registry)
	metadataLog, err := etcdlog.Open(etcdlog.Config{
		Client: c.cfg.Etcd, Prefix: c.cfg.EtcdPrefix, VirtualCluster: vc.Name,
		Log: metalog.Config{Timing: c.cfg.Timing, Logger: built.log, Registerer: registerer},
	})
	if err != nil {
		return nil, err
	}
	built.bucket = &bucketCheck{
		bucket: c.cfg.Bucket, gate: marker.NewGate(c.cfg.Bucket), location: c.cfg.BucketLocation, etcdPrefix: c.cfg.EtcdPrefix,
		virtualCluster: vc.Name, log: built.log, metalog: metadataLog,
		clusterID: func() string { return built.replica.ClusterID() }, owner: func() *owner.Owner { return built.replica.Owner() },
	}
	built.jobs, err = job.New(job.Config{Settings: c.cfg.Jobs, MaxExtents: c.cfg.maxExtents(), StoreTime: c.cfg.Bucket.Now, Log: built.log, Registerer: registerer})
	if err != nil {
		return nil, err
	}
	built.scaler, err = scale.New(c.cfg.Scale, registerer)
	if err != nil {
		return nil, err
	}
	built.writers = zonewriter.New(zonewriter.Config{Log: built.log, Registerer: registerer})
	groups := group.Config{Settings: group.SettingsOf(vc.Broker), Log: built.log, Registerer: registerer}
	built.sessions = session.NewCluster(session.ClusterConfig{
		Name: vc.Name, BundlePrefix: BundlePrefix(vc.Name), Locator: built, Limits: c.cfg.Limits,
		NewForwards: func(o *owner.Owner, spawn session.Spawn) session.Forwards {
			f := newForwards(spawn)
			f.handle(admin.New(admin.Config{DefaultPartitions: vc.DefaultPartitions, Broker: vc.Broker, UndeleteMs: c.cfg.Lifecycle.UndeleteMs(), Log: built.log}, o))
			f.handle(offsetslog.New(o))
			f.handle(txn.New(txn.Config{MaxTimeout: vc.Broker.Duration(brokerconfig.TransactionMaxTimeoutMs), Log: built.log}, o))
			if coordinator, err := group.New(groups, o, spawn); err == nil {
				f.start(coordinator)
			} else {
				built.log.DPanic("no group coordinator", zap.Error(err)) // Config.Validate has seen to it
			}
			return f
		},
		Waits:   group.Waits,
		Marked:  built.bucket.marked,
		NewJobs: func(o *owner.Owner, r session.Runners) session.Jobs { return built.jobs.Tenure(o, r) },
		NewZoneWriters: func(l *load.Table, a session.ZoneAgents) session.ZoneWriters {
			return built.writers.Tenure(l, a)
		},
		Log: c.cfg.Log, Registerer: c.cfg.Registry,
	})
	work, err := lifecycle.New(lifecycle.Config{
		Settings: c.cfg.Lifecycle, Bucket: built.bucket.gate, BundlePrefix: BundlePrefix(vc.Name),
		Log: built.log, Registerer: registerer,
	})
	if err != nil {
		return nil, err
	}
	built.work = work
	built.replica, err = replica.New(replica.Config{
		Replica: c.cfg.ReplicaID, Address: c.cfg.Advertise, TakeOver: c.cfg.TakeOver, Log: metadataLog,
		Bucket: built.bucket.gate, SnapshotPrefix: SnapshotPrefix(vc.Name), BucketLocation: c.cfg.BucketLocation,
		OnOwner: built.sessions.Own, BeforeBootstrap: built.bucket.beforeBootstrap, ConfirmBucket: built.bucket.confirm, Final: final,
		Beside: built.beside, Version: c.registry.versions.Lowest,
		SnapshotBytes: c.cfg.SnapshotBytes, SnapshotInterval: c.cfg.SnapshotInterval,
		Owner:  owner.Config{SoftLogBytes: c.cfg.SoftLogBytes, HardLogBytes: c.cfg.HardLogBytes, MaxExtents: c.cfg.maxExtents(), MaxFresh: c.cfg.MaxFreshBundles},
		Logger: built.log, Registerer: registerer, MaxProducers: c.cfg.maxProducers(),
	})
	if err != nil {
		return nil, err
	}
	return built, nil
}

// beside runs what runs beside the owner, until ctx ends.
func (c *cluster) beside(ctx context.Context, t replica.Tenure) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { c.scaler.Run(ctx, t.Owner, c.sessions.Loads) })
	c.work.Run(ctx, lifecycle.Tenure{Owner: t.Owner, Kept: t.Kept, WantSnapshot: t.WantSnapshot})
}

// Owner implements session.Locator: what this replica saw when it last looked, at most a few polls ago.
func (c *cluster) Owner(context.Context) (id, address string, err error) {
	o, ok := c.replica.Located()
	if !ok {
		return "", "", nil
	}
	return o.Replica, o.Address, nil
}

// Replicas implements session.Locator.
func (c *cluster) Replicas() []string { return c.registry.Replicas() }

// operator gives what operators are answered from.
func (c *cluster) operator() operator.Cluster {
	return operator.Cluster{
		Log: c.log, Owner: c.replica.Owner,
		Jobs:    func() (any, error) { return c.jobs.List() },
		Zones:   func() (any, error) { return c.scaler.List() },
		Writers: func() (any, error) { return c.writers.List() },
		Located: func() (id, address string) {
			id, address, _ = c.Owner(context.Background()) // it has no errors
			return id, address
		},
	}
}

var errNoOwner = errors.New("no owner at the moment")

// errNotCompared is the fault of a virtual cluster whose bucket was not compared yet, though the object store works.
var errNotCompared = errors.New("the bucket's cluster id has not been compared yet")

func (c *cluster) ready(works <-chan struct{}) error {
	if c.stopped.Load() {
		return fmt.Errorf("virtual cluster %s: stopped on this replica", c.name)
	}
	if _, ok := c.replica.Located(); ok {
		select {
		case <-works:
			if !c.bucket.marked() {
				return fmt.Errorf("virtual cluster %s: %w", c.name, errNotCompared)
			}
		default: // a store that is away is no reason
		}
		return nil
	}
	// A replica waits for the registry before its first round.
	if fault := cmp.Or(c.replica.Fault(), c.registry.fault()); fault != nil {
		return fmt.Errorf("virtual cluster %s: %w: %w", c.name, errNoOwner, fault)
	}
	return fmt.Errorf("virtual cluster %s: %w", c.name, errNoOwner)
}

// run follows and owns until ctx ends. An error means that this replica's state cannot be trusted, or that its bucket is another
// cluster's; it has been logged. works is closed when the object store can be used.
func (c *cluster) run(ctx context.Context, works <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	compared := make(chan error, 1)
	go func() {
		err := c.bucket.run(ctx, works)
		if err != nil {
			c.log.Error("virtual cluster stops: its bucket is a wrong one", zap.Error(err))
			cancel()
		}
		compared <- err
	}()
	err := c.replica.Run(ctx)
	cancel()
	err = cmp.Or(<-compared, err)
	c.stopped.Store(err != nil)
	if err != nil {
		return fmt.Errorf("virtual cluster %s: %w", c.name, err)
	}
	return nil
}

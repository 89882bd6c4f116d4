package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/errand"
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
	"github.com/freshet-io/freshet/internal/pattern"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/probe"
)

// cluster is one virtual cluster on this replica.
type cluster struct {
	spec      *directory.Spec
	limited   atomic.Pointer[directory.Spec] // the newest Spec, whose Limits hold
	cfg       *Config
	statuses  *statuses
	members   *members
	store     *probe.Watch
	bucket    *storeClock
	directory directory.Directory
	sessions  *session.Cluster
	jobs      *job.Planner
	errands   *errand.Dispatcher
	scaler    *scale.Scaler
	writers   *zonewriter.Planner
	log       *zap.Logger
	gathered  prometheus.Gatherer        // of its own metrics
	metrics   prometheus.Registerer      // with the label virtual_cluster
	topics    atomic.Pointer[admin.APIs] // of this replica's newest tenure, nil before the first
	stored    atomic.Pointer[stored]     // nil until the cluster's id is known
	fault     atomic.Pointer[error]      // of the newest attempt to learn it
	unfollow  func()                     // set by identify
	warm      chan struct{}              // of ControlPlane
	takeovers *semaphore.Weighted        // of ControlPlane
	snapshots *semaphore.Weighted        // of ControlPlane
	space     *etcdSpace                 // of ControlPlane
	heap      *heapRoom                  // of ControlPlane
	began     atomic.Bool                // run was called
	contacted atomic.Bool                // an agent has called since the last note in the registry
	noteDue   time.Time                  // next note or look, of contacts.run alone; zero before the first note
	stopped   atomic.Pointer[error]      // why it ended by itself, nil otherwise
}

// stored has the parts that work on the keys and objects of a cluster id.
type stored struct {
	clusterID string
	log       metalog.Log
	replica   *replica.Replica
	work      *lifecycle.Lifecycle
	bucket    *bucketCheck
}

func (c *ControlPlane) newCluster(spec *directory.Spec) (*cluster, error) {
	built := &cluster{
		spec: spec, cfg: &c.cfg, statuses: c.statuses, members: c.members, store: c.store, log: c.cfg.Log.With(zap.String("virtual_cluster", spec.Name)),
		bucket: c.bucket, directory: c.directory(), warm: c.warm, takeovers: c.takeovers, snapshots: c.snapshots, space: c.space, heap: c.heap,
	}
	if spec.Stored {
		own := &gauges{virtualCluster: spec.Name}
		built.gathered, built.metrics = own, hostedMetrics{own: own, shared: c.clusters.hosted}
	} else {
		own := prometheus.NewRegistry()
		built.gathered, built.metrics = own, prometheus.WrapRegistererWith(prometheus.Labels{"virtual_cluster": spec.Name}, own)
	}
	built.limited.Store(spec)
	bounds := c.cfg.boundsOf(spec)
	var err error
	built.jobs, err = job.New(job.Config{Settings: c.cfg.Jobs, MaxExtents: bounds.PlannedExtents, StoreTime: built.bucket.Now, Log: built.log, Registerer: built.metrics})
	if err != nil {
		return nil, err
	}
	built.errands = errand.New(errand.Config{Log: built.log, Registerer: built.metrics})
	built.scaler, err = scale.New(c.cfg.Scale, built.metrics)
	if err != nil {
		return nil, err
	}
	built.writers = zonewriter.New(zonewriter.Config{
		Slows: func() bool { o := built.owner(); return o != nil && o.Slows() }, Log: built.log, Registerer: built.metrics,
	})
	queue := new(pattern.Queue)
	groups := group.Config{Settings: group.SettingsOf(spec.Broker), Log: built.log, Registerer: built.metrics, Patterns: queue, MemberBytes: bounds.MemberBytes}
	built.sessions = session.NewCluster(session.ClusterConfig{
		Name: spec.Name, BundlePrefix: BundlePrefix, Locator: built, Limits: c.cfg.limitsOf(spec), Answers: c.answers, Messages: c.messages,
		NewForwards: func(o *owner.Owner, spawn session.Spawn) session.Forwards {
			f := newForwards(spawn)
			topics := admin.New(admin.Config{DefaultPartitions: spec.DefaultPartitions, Broker: spec.Broker, UndeleteMs: c.cfg.Lifecycle.UndeleteMs(), Log: built.log}, o)
			built.topics.Store(topics)
			f.handle(topics)
			f.handle(offsetslog.New(o))
			f.handle(txn.New(txn.Config{MaxTimeout: spec.Broker.Duration(brokerconfig.TransactionMaxTimeoutMs), Log: built.log, Patterns: queue}, o))
			if coordinator, err := group.New(groups, o, spawn); err == nil {
				f.start(coordinator)
			} else {
				built.log.DPanic("no group coordinator", zap.Error(err)) // Config.Validate has seen to it
			}
			return f
		},
		Waits:        group.Waits,
		Marked:       func() bool { return built.stored.Load().bucket.marked() }, // asked by the owner's tenure alone
		AgentsBucket: c.cfg.AgentsBucket,
		NewJobs: func(o *owner.Owner, r session.Runners) session.Jobs {
			t := built.jobs.Tenure(o, r)
			o.OnApply(t.Applied)
			return t
		},
		NewZoneWriters: func(l *load.Table, a session.ZoneAgents) session.ZoneWriters {
			return built.writers.Tenure(l, a)
		},
		NewErrands: func(a session.ErrandAgents) session.Errands { return built.errands.Tenure(a) },
		Log:        c.cfg.Log, Registerer: built.metrics,
	})
	return built, nil
}

// open builds the parts that work on the keys and objects of the cluster's id.
func (c *cluster) open(clusterID string, warm bool) (*stored, error) {
	needs := ""
	if c.spec.Stored {
		needs = c.directory.SpecKey(clusterID)
	}
	metadataLog, err := etcdlog.Open(etcdlog.Config{
		Client: c.cfg.Etcd, Prefix: c.cfg.EtcdPrefix, ClusterID: clusterID, Needs: needs,
		Log: metalog.Config{Lease: c.members.lease, Timing: c.cfg.Timing, Logger: explaining(c.log, c.members.health.explainRequest), Registerer: c.metrics},
	})
	if err != nil {
		return nil, err
	}
	s := &stored{clusterID: clusterID, log: metadataLog}
	s.bucket = &bucketCheck{bucketFacts: bucketFacts{
		setting: c.cfg.bucketSetting(), records: !c.cfg.AgentsBucket, bucket: c.cfg.Bucket, gate: marker.NewGate(c.bucket), location: c.cfg.BucketLocation,
		etcdPrefix: c.cfg.EtcdPrefix, virtualCluster: c.spec.Name, log: c.log, metalog: metadataLog,
		clusterID: func() string { return s.replica.ClusterID() }, owner: func() *owner.Owner { return s.replica.Owner() },
		failed: c.store.NoteFailure,
	}}
	s.work, err = lifecycle.New(lifecycle.Config{
		Settings: c.cfg.Lifecycle, Agents: c.errands, StoreTime: c.bucket.Now, Log: c.log, Registerer: c.metrics,
	})
	if err != nil {
		return nil, err
	}
	bounds := c.cfg.boundsOf(c.spec)
	snapshotBytes, softLog, hardLog := c.cfg.logLimitsOf(c.spec)
	var memoryRoom func() (forNew, forExisting float64) // nil for virtual clusters of the settings, which have fixed shares of the memory limit
	if c.spec.Stored {
		memoryRoom = c.heap.roomOf(bounds.Bytes)
	}
	s.replica, err = replica.New(replica.Config{
		Replica: c.cfg.ReplicaID, Address: c.cfg.Advertise, TakeOver: c.cfg.TakeOver, Cold: !warm, Log: metadataLog, ClusterID: clusterID,
		Turn: c.turn, Admit: c.admission(warm),
		Bucket: s.bucket.gate, SnapshotPrefix: SnapshotPrefix(clusterID), BucketLocation: c.cfg.BucketLocation,
		OnOwner: c.sessions.Own, BeforeBootstrap: s.bucket.beforeBootstrap, ConfirmBucket: s.bucket.confirm, Final: final,
		Beside: func(ctx context.Context, t replica.Tenure) (wait func()) { return c.beside(ctx, s.work, t) }, Version: c.members.versions.Lowest,
		Clocks:        c.clocks,
		SnapshotBytes: snapshotBytes, SnapshotInterval: c.cfg.SnapshotInterval, SnapshotSlots: c.snapshots,
		Owner: owner.Config{
			SoftLogBytes: softLog, HardLogBytes: hardLog, LogRoom: c.space.roomOf(hardLog), ReserveRoom: c.space.reserve, QueueBytes: bounds.QueueBytes,
			MaxExtents: bounds.Extents, MaxFresh: c.cfg.MaxFreshBundles, MaxBytes: bounds.Bytes, MemoryRoom: memoryRoom,
		},
		Logger: c.log, Registerer: c.metrics, MaxProducers: bounds.Producers,
		Limits: func() metadata.Limits { return c.cfg.boundsOf(c.limited.Load()).Limits },
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// beside begins the work beside the owner, which lasts until ctx ends.
func (c *cluster) beside(ctx context.Context, work *lifecycle.Lifecycle, t replica.Tenure) (wait func()) {
	scaled := c.scaler.Start(t.Owner, c.sessions.Loads)
	worked := work.Start(ctx, lifecycle.Tenure{Owner: t.Owner, Kept: t.Kept, WantSnapshot: t.WantSnapshot})
	return func() {
		scaled()
		worked()
	}
}

// located returns the owner as this replica knows it, or false if there is none.
func (c *cluster) located() (metalog.Owner, bool) {
	s := c.stored.Load()
	if s == nil {
		return metalog.Owner{}, false
	}
	return s.replica.Located()
}

// clusterID returns the cluster id, or "" before it is known.
func (c *cluster) clusterID() string {
	if s := c.stored.Load(); s != nil {
		return s.clusterID
	}
	return c.spec.ID
}

// owner returns the owner on this replica, or nil.
func (c *cluster) owner() *owner.Owner {
	s := c.stored.Load()
	if s == nil {
		return nil
	}
	return s.replica.Owner()
}

// Owner implements session.Locator. It returns the owner that this replica knows of, with its address for agents. If there is
// none and etcd fails, the error names etcd, for the logs of agents.
func (c *cluster) Owner(context.Context) (id, address string, err error) {
	o, ok := c.located()
	if !ok {
		return "", "", c.members.health.fault()
	}
	return o.Replica, c.members.forAgents(o.Replica, o.Address), nil
}

// Replicas implements session.Locator.
func (c *cluster) Replicas() []string { return c.members.Replicas() }

// operator returns the cluster as operator.Handler needs it.
func (c *cluster) operator() operator.Cluster {
	return operator.Cluster{
		Owner: c.owner, Topics: c.topics.Load,
		Jobs:    func() (any, error) { return c.jobs.List() },
		Holds:   c.jobs.Holds,
		Cut:     c.jobs.Cut,
		Zones:   func() (any, error) { return c.scaler.List() },
		Writers: func() (any, error) { return c.writers.List() },
		Agents:  c.sessions.Agents,
		Located: func() (id, address string, err error) {
			o, ok := c.located()
			if !ok {
				return "", "", c.members.health.fault()
			}
			return o.Replica, o.Address, nil
		},
		Status: func(ctx context.Context) *operator.Status { return c.statuses.of(ctx, c) },
	}
}

var (
	errNoOwner = errors.New("no owner at the moment")
	errNoID    = errors.New("its cluster id is not known yet")
)

// errNotCompared is the fault of a virtual cluster whose bucket was not compared yet, though the object store works.
var errNotCompared = errors.New("the bucket's cluster id has not been compared yet")

func (c *cluster) ready(works <-chan struct{}) error {
	if stopped := c.stopped.Load(); stopped != nil {
		return fmt.Errorf("virtual cluster %s: stopped on this replica, starts again after a pause: %w", c.spec.Name, *stopped)
	}
	stored := c.stored.Load()
	if stored == nil {
		fault := errNoID
		if learning := c.fault.Load(); learning != nil {
			fault = c.members.health.explainRequest(*learning)
		}
		fault = cmp.Or(c.members.health.fault(), fault)
		return fmt.Errorf("virtual cluster %s: %w: %w", c.spec.Name, errNoOwner, fault)
	}
	if _, ok := stored.replica.Located(); ok {
		select {
		case <-works:
			if !stored.bucket.marked() {
				return fmt.Errorf("virtual cluster %s: %w", c.spec.Name, errNotCompared)
			}
		default: // a store that is away is no reason
		}
		return nil
	}
	// A replica waits for members before its first round.
	if fault := cmp.Or(c.members.health.explain(stored.replica.Fault()), c.members.health.fault()); fault != nil {
		return fmt.Errorf("virtual cluster %s: %w: %w", c.spec.Name, errNoOwner, fault)
	}
	return fmt.Errorf("virtual cluster %s: %w", c.spec.Name, errNoOwner)
}

// warning returns a fault that the replica works with, "" if there is none.
func (c *cluster) warning() string {
	if stored := c.stored.Load(); stored != nil {
		if differ := stored.replica.ClockWarning(); differ != "" {
			return "virtual cluster " + c.spec.Name + ": " + differ
		}
	}
	return ""
}

// run learns the cluster's id, then follows and owns until ctx ends. An error means that this replica's state cannot be trusted, or
// that its bucket is another cluster's; it has been logged. works is closed when the object store can be used.
func (c *cluster) run(ctx context.Context, works <-chan struct{}) error {
	warm, release := c.stayWarm()
	defer release()
	s, err := c.identify(ctx, warm)
	if s != nil {
		err = errors.Join(c.serve(ctx, s, works), s.log.Close())
		c.unfollow()
	}
	if err != nil {
		c.stopped.Store(&err)
		return fmt.Errorf("virtual cluster %s: %w", c.spec.Name, err)
	}
	return nil
}

// maxWarm is the maximum number of virtual clusters that stay warm without Spec.Warm.
const maxWarm = 8

// stayWarm reports whether the replica follows the cluster's log while another replica is the owner.
func (c *cluster) stayWarm() (warm bool, release func()) {
	if c.spec.Warm {
		return true, func() {}
	}
	select {
	case c.warm <- struct{}{}:
		return true, func() { <-c.warm }
	default:
		return false, func() {}
	}
}

// turn returns how long this replica waits before it claims the virtual cluster. Those of the settings are few, and any replica takes them.
func (c *cluster) turn(former string) time.Duration {
	if !c.spec.Stored {
		return 0
	}
	return c.members.turn(c.clusterID(), former)
}

// admission returns Admit of the replica. A warm one has the state already, and does not wait for others.
func (c *cluster) admission(warm bool) func(ctx context.Context) (done func(), err error) {
	if warm {
		return nil
	}
	return func(ctx context.Context) (func(), error) {
		if err := c.takeovers.Acquire(ctx, 1); err != nil {
			return nil, fmt.Errorf("wait for other takeovers: %w", err)
		}
		return func() { c.takeovers.Release(1) }, nil
	}
}

// Bounds of learning the cluster's id.
const (
	identifyTimeout = 3 * time.Second        // of one attempt
	identifyPause   = 500 * time.Millisecond // between two
)

// errOtherCluster is returned for agent keys with the id of another cluster.
var errOtherCluster = errors.New("keys of another cluster")

// identify learns the cluster's id and opens its log and objects. It repeats attempts that etcd does not answer, until ctx
// ends, and then returns nil and no error.
func (c *cluster) identify(ctx context.Context, warm bool) (*stored, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, identifyTimeout)
		clusterID, err := c.spec.ID, error(nil)
		if !c.spec.Stored {
			clusterID, err = c.directory.Resolve(attempt, c.spec.Name)
		}
		if err == nil && (c.spec.ID == "" || clusterID == c.spec.ID) {
			c.unfollow, err = c.members.secrets.follow(attempt, c.directory, clusterID, c.spec.Stored, c.sessions.SetPeerSecret)
		}
		cancel()
		switch {
		case err == nil && c.spec.ID != "" && clusterID != c.spec.ID:
			err = fmt.Errorf("keys are of cluster %s, but the cluster id is %s: %w: make a key with `freshet key create --cluster-id %s`",
				c.spec.ID, clusterID, errOtherCluster, clusterID)
			c.log.Error("virtual cluster stops: its keys belong to another cluster", zap.Error(err))
			return nil, err
		case err == nil:
			s, err := c.open(clusterID, warm)
			if err != nil {
				return nil, err
			}
			c.stored.Store(s)
			return s, nil
		case ctx.Err() != nil:
			return nil, nil //nolint:nilerr // the replica stops
		case errors.Is(err, etcdlog.ErrRemoved):
			return nil, err // the reconciler logs it
		case directory.Final(err):
			c.log.Error("virtual cluster stops: it has no cluster id", zap.Error(err))
			return nil, err
		}
		if c.fault.Swap(&err) == nil {
			c.log.Warn("cluster id is not known yet, trying again", zap.Error(c.members.health.explainRequest(err)))
		}
		select {
		case <-time.After(identifyPause):
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// serve follows and owns the state until ctx ends.
func (c *cluster) serve(ctx context.Context, s *stored, works <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	compared := make(chan error, 1)
	go func() {
		err := s.bucket.run(ctx, works)
		if err != nil {
			c.log.Error("virtual cluster stops: its bucket is a wrong one", zap.Error(err))
			cancel()
		}
		compared <- err
	}()
	err := s.replica.Run(ctx)
	cancel()
	err = cmp.Or(<-compared, err)
	s.bucket.wait()
	return err
}

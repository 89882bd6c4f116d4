package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/errand"
	"github.com/freshet-io/freshet/controlplane/group"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/keys"
	controlload "github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/controlplane/txn"
	"github.com/freshet-io/freshet/controlplane/zonewriter"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

// One virtual cluster, its id, the keys of its agents, and the secret by which they know each other.
const (
	vc         = "sim"
	clusterID  = "0MP4Kxjfr8KpC_OLjGQtgg"
	agentKey   = "key"
	newKey     = "new key" // to which agentKey is rotated
	peerSecret = "secret"
)

// Prefixes of its objects.
const (
	snapshotPrefix = clusterID + "/snapshots/"
	bundlePrefix   = clusterID + "/bundles/"
)

// Timings of ownership: brief ones are a fraction of the real ones, so that tests that take owners away need not wait;
// leases are whole seconds. With lasting ones nobody loses what nobody takes away.
var (
	brief   = metalog.Timing{Lease: 2 * time.Second, Renew: 200 * time.Millisecond, SelfFence: 1400 * time.Millisecond}
	lasting = metalog.Timing{Lease: patience, Renew: 200 * time.Millisecond, SelfFence: patience * 3 / 4}
)

// controlPlane is one running replica.
type controlPlane struct {
	c       *cluster
	name    string
	store   *memlog.Replica // with the faults of its way to the log
	replica *replica.Replica
	jobs    *job.Planner // nil if none are planned
	server  *grpc.Server
	cancel  context.CancelFunc
	ended   chan error
}

// startReplica starts a control-plane replica; its address is its name.
func (c *cluster) startReplica(name string) *controlPlane {
	c.t.Helper()
	log := c.logger.Named(name)
	timing := lasting
	if c.opts.succession {
		timing = brief
	}
	metadataLog, way, err := c.log.Open(name, metalog.Config{Timing: timing, Logger: log})
	require.NoError(c.t, err)
	p := &controlPlane{c: c, name: name, store: way, ended: make(chan error, 1)}
	sides := session.ClusterConfig{
		Name: vc, BundlePrefix: func(string) string { return bundlePrefix }, Locator: p, Limits: c.opts.limits, Log: log,
		NewForwards: func(o *owner.Owner, spawn session.Spawn) session.Forwards {
			groups, err := group.New(group.Config{Log: log}, o, spawn)
			if err != nil {
				panic(err) // of defaults
			}
			return newForwards(spawn, groups, admin.New(admin.Config{Log: log}, o), txn.New(txn.Config{Log: log}, o))
		},
		Waits: group.Waits,
	}
	if c.opts.jobs != nil {
		p.jobs, err = job.New(job.Config{Settings: *c.opts.jobs, StoreTime: c.objects.Now, Log: log, Registerer: c.opts.work.registry()})
		require.NoError(c.t, err)
		sides.NewJobs = func(o *owner.Owner, r session.Runners) session.Jobs {
			t := p.jobs.Tenure(o, r)
			o.OnApply(t.Applied)
			return t
		}
	}
	sides.NewZoneWriters = c.opts.zoneWriters
	if sides.NewZoneWriters == nil {
		planner := zonewriter.New(zonewriter.Config{Log: log})
		sides.NewZoneWriters = func(l *controlload.Table, a session.ZoneAgents) session.ZoneWriters { return planner.Tenure(l, a) }
	}
	errands := errand.New(errand.Config{Log: log})
	sides.NewErrands = func(a session.ErrandAgents) session.Errands { return errands.Tenure(a) }
	sessions := session.NewCluster(sides)
	sessions.SetPeerSecret(peerSecret)
	cfg := replica.Config{
		Replica: name, Address: name, Log: metadataLog, Bucket: c.objects, SnapshotPrefix: snapshotPrefix, ClusterID: clusterID,
		OnOwner: func(o *owner.Owner) func() {
			c.tenure.Store(o)
			return sessions.Own(o)
		},
		Poll: 50 * time.Millisecond, Logger: log,
	}
	c.opts.work.join(c, &cfg, errands)
	if c.opts.lifecycle != nil {
		c.opts.lifecycle(&cfg, errands)
	}
	if c.opts.replica != nil {
		c.opts.replica(&cfg)
	}
	p.replica, err = replica.New(cfg)
	require.NoError(c.t, err)
	set := keys.NewSet()
	require.NoError(c.t, set.Replace("sim", []keys.Entry{
		{Hash: accesskey.HashOf(agentKey), Kind: keys.Agent, VirtualCluster: vc}, {Hash: accesskey.HashOf(newKey), Kind: keys.Agent, VirtualCluster: vc},
	}))
	p.server = grpc.NewServer(session.ServerOptions(set, nil, zap.NewNop())...)
	api.RegisterControlPlaneServer(p.server, session.NewServer(func(name string) (*session.Cluster, error) {
		if name != vc {
			return nil, session.ErrNotServed
		}
		return sessions, nil
	}))
	socket := c.net.listen(name)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { _ = p.server.Serve(socket) }()
	go func() { p.ended <- p.replica.Run(ctx) }()
	c.replicas[name] = p
	return p
}

// Owner implements session.Locator.
func (p *controlPlane) Owner(context.Context) (id, address string, err error) {
	o, ok := p.replica.Located()
	if !ok {
		return "", "", nil
	}
	return o.Replica, o.Address, nil
}

// Replicas implements session.Locator.
func (p *controlPlane) Replicas() []string { return p.c.opts.replicaNames }

// owns tells whether the replica is the owner and may still answer.
func (p *controlPlane) owns() bool { return p.replica.Owner() != nil }

// stop ends the replica in order: ownership is handed over.
func (p *controlPlane) stop() {
	p.c.t.Helper()
	p.cancel()
	require.NoError(p.c.t, p.wait(), "replica %s", p.name)
	p.gone()
}

// crash ends the replica as a kill does: nothing of it reaches the log or the agents any more.
func (p *controlPlane) crash() {
	p.c.t.Helper()
	p.store.CutOff()
	p.gone()
	p.cancel()
	require.NoError(p.c.t, p.wait(), "replica %s", p.name)
}

func (p *controlPlane) gone() {
	p.c.net.close(p.name)
	p.server.Stop()
	delete(p.c.replicas, p.name)
}

func (p *controlPlane) wait() error {
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		return context.DeadlineExceeded
	}
}

// owner waits for a replica that owns the virtual cluster.
func (c *cluster) owner() *controlPlane {
	c.t.Helper()
	var found *controlPlane
	c.await("an owner", func() bool {
		for _, p := range c.replicas {
			if p.owns() {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// dethrone cuts the owner off the log, and lets its lease run out once its fence has fallen. No lease ends before: until
// then what the owner has told, nobody else may go beyond (I4).
func (c *cluster) dethrone() *controlPlane {
	c.t.Helper()
	old := c.owner()
	old.store.CutOff()
	c.await("the fall of the owner's fence", func() bool { return !old.owns() })
	c.log.ExpireLeases()
	return old
}

// succeeded waits for another owner than the dethroned one, which may reach the log again then.
func (c *cluster) succeeded(old *controlPlane) *controlPlane {
	c.t.Helper()
	found := c.awaitOther(old)
	old.store.SetFaults(nil)
	return found
}

// awaitOther waits for another owner.
func (c *cluster) awaitOther(old *controlPlane) *controlPlane {
	c.t.Helper()
	var found *controlPlane
	c.await("another owner", func() bool {
		for _, p := range c.replicas {
			if p != old && p.owns() {
				found = p
				return true
			}
		}
		return false
	})
	c.logger.Info("owner changed", zap.String("from", old.name), zap.String("to", found.name))
	return found
}

// replicaList gives the replicas that run.
func (c *cluster) replicaList() []*controlPlane { return slices.Collect(maps.Values(c.replicas)) }

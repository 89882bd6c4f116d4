package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	controlload "github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/fault"
	bucketmarker "github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/mem"
)

// options of a cluster; zero fields take defaults.
type options struct {
	seed     uint64
	replicas int // default 2
	agents   int // default 2
	zones    int // agents are placed in them in turn and share caches; 0: none, and nothing is shared
	hedge    bool
	memory   int64 // per agent; default 256 MiB
	limits   session.Limits
	// succession says that owners are taken away: their leases are short. Others keep theirs on a slow machine.
	succession bool
	// patient says that nobody is to be taken for dead or late because the machine is slow, in tests that count what is
	// done and break nothing.
	patient bool
	work    *work // what runs beside owners; nil: nothing does
	replica func(*replica.Config)
	// lifecycle adds retention, garbage and sweeps to a replica; agents delete for it. nil: see work.
	lifecycle func(*replica.Config, lifecycle.Agents)
	agent     func(*agent.Config)
	jobs      *job.Settings // of background jobs; nil: none are planned
	// zoneWriters plans who writes in a zone; nil: what the product does.
	zoneWriters func(*controlload.Table, session.ZoneAgents) session.ZoneWriters

	replicaNames []string
}

// cluster is everything in this process.
type cluster struct {
	t        *testing.T
	opts     options
	logger   *zap.Logger
	log      *memlog.Store
	audit    *audited
	objects  *fault.Bucket // what everybody sees of the store
	net      *network
	replicas map[string]*controlPlane
	agents   []*node
	started  int
	tenure   atomic.Pointer[owner.Owner] // the newest
}

// node is one running agent.
type node struct {
	c        *cluster
	name     string
	zone     string
	agent    *agent.Agent
	link     *link
	registry *prometheus.Registry
	cancel   context.CancelFunc
	ended    chan error
}

// logger writes to the test's log at the level that FRESHET_SIM_LOG names, errors otherwise.
func logger(t *testing.T) *zap.Logger {
	t.Helper()
	level := zap.ErrorLevel
	if name := os.Getenv("FRESHET_SIM_LOG"); name != "" {
		require.NoError(t, level.UnmarshalText([]byte(name)))
	} else {
		return zap.NewNop()
	}
	return zaptest.NewLogger(t, zaptest.Level(level))
}

func newCluster(t *testing.T, opts options) *cluster {
	t.Helper()
	setDefault(&opts.replicas, 2)
	setDefault(&opts.agents, 2)
	setDefault(&opts.memory, 256<<20)
	for i := range opts.replicas {
		opts.replicaNames = append(opts.replicaNames, fmt.Sprintf("replica-%d", i))
	}
	if opts.patient {
		setDefault(&opts.limits.SessionTimeout, patience)
	}
	c := &cluster{
		t: t, opts: opts, logger: logger(t), log: memlog.New(), audit: &audited{Bucket: mem.New()}, net: newNetwork(),
		replicas: map[string]*controlPlane{},
	}
	_, err := bucketmarker.Create(t.Context(), c.audit.Bucket, vc, bucketmarker.Marker{ClusterID: clusterID})
	require.NoError(t, err)
	c.objects = fault.New(c.audit, opts.seed)
	t.Cleanup(c.stop)
	for _, name := range opts.replicaNames {
		c.startReplica(name)
	}
	for range opts.agents {
		c.startAgent()
	}
	c.awaitMembers()
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// stop ends everything; what tests left broken is mended first.
func (c *cluster) stop() {
	c.objects.Clear()
	for _, p := range c.replicas {
		p.store.SetFaults(nil)
	}
	for _, a := range slices.Clone(c.agents) {
		a.link.setDown(false)
		a.stop()
	}
	for _, p := range c.replicas {
		p.stop()
	}
	require.Zero(c.t, c.audit.torn.Load(), "puts whose bytes changed under way")
	torn, _, err := c.audit.tornObjects(context.Background())
	require.NoError(c.t, err)
	require.Empty(c.t, torn, "objects that are not what was put")
}

// startAgent starts a new agent on a port of its own.
func (c *cluster) startAgent() *node { return c.startAgentAt("127.0.0.1:0") }

// startAgentAt starts a new agent at an address, its predecessor's say.
func (c *cluster) startAgentAt(address string) *node {
	c.t.Helper()
	a := &node{
		c: c, name: fmt.Sprintf("agent-%d", c.started), link: newLink(c.net), registry: prometheus.NewRegistry(),
		ended: make(chan error, 1),
	}
	if c.opts.zones > 0 {
		a.zone = fmt.Sprintf("zone-%d", c.started%c.opts.zones)
	}
	c.started++
	cfg := agent.Config{
		Zone:           a.zone,
		VirtualCluster: vc, ControlPlane: c.opts.replicaNames, AgentKey: agentKey, DialControlPlane: a.link.dial,
		Bucket: shared{c.objects}, Hedge: c.opts.hedge, Listen: []string{address}, HTTPListen: "127.0.0.1:0",
		MemoryLimit: c.opts.memory, PutBudget: 50, DrainTimeout: 2 * time.Second, DeleteMinAge: -1,
		Log: c.logger.Named(a.name), Registry: a.registry,
	}
	if c.opts.zones > 0 {
		cfg.Peers.Listen = "127.0.0.1:0"
	}
	if c.opts.patient {
		cfg.HandOver, cfg.Peers.Silence, cfg.Peers.OwnerSilence, cfg.Peers.TurnPatience = patience, patience, patience, patience
		cfg.Peers.Configure, cfg.OwnerTimeout = patientPeers, patience
	}
	if c.opts.work != nil {
		cfg.Bucket = fast{cfg.Bucket, c.opts.work}
	}
	if c.opts.agent != nil {
		c.opts.agent(&cfg)
	}
	var err error
	a.agent, err = agent.New(c.t.Context(), cfg)
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() { a.ended <- a.agent.Run(ctx) }()
	c.agents = append(c.agents, a)
	return a
}

func (a *node) address() string { return a.agent.Addresses()[0].String() }

// stop ends the agent in order.
func (a *node) stop() {
	a.c.t.Helper()
	a.cancel()
	select {
	case err := <-a.ended:
		require.NoError(a.c.t, err)
	case <-time.After(patience):
		require.Fail(a.c.t, "agent does not end", a.name)
	}
	a.c.agents = slices.DeleteFunc(a.c.agents, func(other *node) bool { return other == a })
}

// crash ends the agent with its link to the control plane cut: nothing that it has under way is committed, and its
// session is closed by its silence.
func (a *node) crash() {
	a.c.t.Helper()
	a.link.setDown(true)
	a.stop()
}

// agentList gives the agents that run.
func (c *cluster) agentList() []*node { return slices.Clone(c.agents) }

// metric sums the samples of a metric of the agent.
func (a *node) metric(name string) float64 {
	a.c.t.Helper()
	families, err := a.registry.Gather()
	require.NoError(a.c.t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// patience is how long tests wait for what must happen; machines that build something else at the same time are slow.
const patience = 2 * time.Minute

// await polls until cond holds.
func (c *cluster) await(what string, cond func() bool) {
	c.t.Helper()
	require.Eventually(c.t, cond, patience, 20*time.Millisecond, what)
}

// awaitMembers waits until every agent shows all agents of its zone.
func (c *cluster) awaitMembers() {
	c.t.Helper()
	for _, a := range c.agents {
		client, all := c.pinned(a), 0
		for _, other := range c.agents {
			if other.zone == a.zone {
				all++
			}
		}
		c.await("the members at "+a.name, func() bool {
			ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
			defer cancel()
			m, err := kadm.NewClient(client).BrokerMetadata(ctx)
			return err == nil && len(m.Brokers) == all
		})
		client.Close()
	}
}

// seeds are the clients' bootstrap addresses.
func (c *cluster) seeds() []string {
	var addresses []string
	for _, a := range c.agents {
		addresses = append(addresses, a.address())
	}
	return addresses
}

// clientOptions let clients notice changes quickly.
func (c *cluster) clientOptions(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(c.seeds()...), kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.FetchMaxWait(200 * time.Millisecond), kgo.ProducerLinger(0),
		kgo.AlwaysRetryEOF(), // an agent that crashes at a connection's first request is no listener that wants SASL
	}, more...)
}

// pinnedOptions are of clients all of whose requests go to one agent, whatever Metadata says.
func (c *cluster) pinnedOptions(a *node, more ...kgo.Opt) []kgo.Opt {
	to := a.address()
	return append(c.clientOptions(kgo.SeedBrokers(to), kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, to)
	})), more...)
}

// pinned is a client that talks to one agent alone. The caller closes it.
func (c *cluster) pinned(a *node, more ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(c.pinnedOptions(a, more...)...)
	require.NoError(c.t, err)
	return client
}

// createTopic creates a topic.
func (c *cluster) createTopic(name string, partitions int32) {
	c.createTopicWith(name, partitions, nil)
}

// createTopicWith creates a topic with configs. The owner may be lost meanwhile, and the answer with it: what is there
// already was created by the attempt before.
func (c *cluster) createTopicWith(name string, partitions int32, configs map[string]*string) {
	c.t.Helper()
	client := c.pinned(c.agents[0])
	defer client.Close()
	c.await("topic "+name, func() bool {
		created, err := kadm.NewClient(client).CreateTopic(c.t.Context(), partitions, 1, configs, name)
		return err == nil && created.Err == nil || errors.Is(err, kerr.TopicAlreadyExists)
	})
}

// seed is the seed of a test: the one that FRESHET_SIM_SEED gives, or the default.
func seed(t *testing.T, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv("FRESHET_SIM_SEED")
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

var _ objstore.Bucket = shared{}

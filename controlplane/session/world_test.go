package session_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	vcName     = "vc1"
	agentKey   = "key-of-agents"
	peerSecret = "secret-of-agents"
)

// world is one virtual cluster with replicas and agents in a bubble of synctest: real gRPC over memory.
type world struct {
	t       *testing.T
	hosts   int // of agents, each with an address of its own
	store   *memlog.Store
	bucket  *mem.Bucket
	limits  session.Limits
	answers *session.Answers
	// version of the state that all replicas support; nil: the newest.
	version func() uint32
	// forwards answers forwarded requests; nil: the admin APIs do.
	forwards func(*owner.Owner, session.Spawn) session.Forwards
	jobs     func(*owner.Owner, session.Runners) session.Jobs
	writers  func(*load.Table, session.ZoneAgents) session.ZoneWriters
	errands  func(session.ErrandAgents) session.Errands
	marked   func() bool // see session.ClusterConfig
	// agentsBucket is ClusterConfig.AgentsBucket.
	agentsBucket bool
	protocol     uint32 // of owners that start, 0: the usual one

	keys *keys.Set

	mu    sync.Mutex
	nodes map[string]*node // by address
	conns []*lossyConn
}

// node is one control-plane replica.
type node struct {
	*replica.Replica
	name     string
	net      *memlog.Replica
	sessions *session.Cluster
	listen   *bufconn.Listener
	grpc     *grpc.Server
	cancel   context.CancelFunc
	ended    chan error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: memlog.New(), bucket: mem.New(), nodes: map[string]*node{}, keys: keys.NewSet()}
	w.openWith(agentKey)
	return w
}

// openWith makes a key the only one of the agents.
func (w *world) openWith(key string) {
	w.t.Helper()
	require.NoError(w.t, w.keys.Replace("test", []keys.Entry{{Hash: accesskey.HashOf(key), Kind: keys.Agent, VirtualCluster: vcName}}))
}

// locator asks one replica who the owner is.
type locator struct {
	w *world
	n *node
}

func (l locator) Owner(context.Context) (string, string, error) {
	o, _ := l.n.Located()
	return o.Replica, o.Address, nil
}

func (l locator) Replicas() []string { return l.w.addresses() }

func (w *world) addresses() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for address := range w.nodes {
		all = append(all, address)
	}
	slices.Sort(all)
	return all
}

// adminForwards has the admin APIs answer on goroutines of the tenure.
type adminForwards struct {
	apis  *admin.APIs
	spawn session.Spawn
}

func (f *adminForwards) Start(ctx context.Context, r *api.Forward, reply func([]byte, error)) {
	f.spawn(func(context.Context) { reply(f.apis.Handle(ctx, r)) })
}

// start runs a replica.
func (w *world) start(name string) *node {
	w.t.Helper()
	log, network, err := w.store.Open(name, metalog.Config{})
	require.NoError(w.t, err)
	n := &node{name: name, net: network, listen: bufconn.Listen(1 << 20), ended: make(chan error, 2)}
	cluster := session.NewCluster(session.ClusterConfig{
		Name: vcName, BundlePrefix: func(string) string { return "vc1/bundles/" }, Locator: locator{w, n}, Limits: w.limits, Answers: w.answers,
		NewForwards: func(o *owner.Owner, spawn session.Spawn) session.Forwards {
			if w.forwards != nil {
				return w.forwards(o, spawn)
			}
			return &adminForwards{admin.New(admin.Config{}, o), spawn}
		},
		Waits:   func(apiKey int32) bool { return apiKey == waitingKey },
		NewJobs: w.jobs, NewZoneWriters: w.writers, NewErrands: w.errands, Marked: w.marked, AgentsBucket: w.agentsBucket, Protocol: w.protocol,
	})
	cluster.SetPeerSecret(peerSecret)
	n.sessions = cluster
	n.Replica, err = replica.New(replica.Config{
		Replica: name, Address: name + ":7050", Log: log, Bucket: w.bucket, SnapshotPrefix: "s/", OnOwner: cluster.Own,
		Version: w.version,
	})
	require.NoError(w.t, err)
	n.grpc = grpc.NewServer(session.ServerOptions(w.keys, nil, zap.NewNop())...)
	api.RegisterControlPlaneServer(n.grpc, session.NewServer(func(name string) (*session.Cluster, error) {
		if name != vcName {
			return nil, session.ErrNotServed
		}
		return cluster, nil
	}))
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() { n.ended <- n.Run(ctx) }()
	go func() { n.ended <- n.grpc.Serve(n.listen) }()
	w.mu.Lock()
	w.nodes[name+":7050"] = n
	w.mu.Unlock()
	return n
}

// stop ends a replica cleanly.
func (w *world) stop(n *node) {
	w.t.Helper()
	n.net.SetFaults(nil)
	n.cancel()
	require.NoError(w.t, <-n.ended)
	n.grpc.Stop()
	require.NoError(w.t, <-n.ended)
	w.mu.Lock()
	delete(w.nodes, n.name+":7050")
	w.mu.Unlock()
}

func (w *world) dial(ctx context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	n := w.nodes[address]
	w.mu.Unlock()
	if n == nil {
		return nil, fmt.Errorf("nobody listens at %s", address)
	}
	conn, err := n.listen.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	lossy := &lossyConn{Conn: conn}
	w.mu.Lock()
	w.conns = append(w.conns, lossy)
	w.mu.Unlock()
	return lossy, nil
}

// lossyConn can lose everything from some moment on, without a sign, and be slow to send.
type lossyConn struct {
	net.Conn
	lost atomic.Bool
	slow atomic.Int64 // time.Duration
}

func (c *lossyConn) Write(p []byte) (int, error) {
	if c.lost.Load() {
		return len(p), nil
	}
	time.Sleep(time.Duration(c.slow.Load())) // the bubble's time
	return c.Conn.Write(p)
}

func (c *lossyConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.lost.Load() {
			return n, err
		}
	}
}

// loseConnections makes every connection there is lose everything.
func (w *world) loseConnections() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.lost.Store(true)
	}
}

// slowConnections makes what is sent on every connection there is come late.
func (w *world) slowConnections(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.slow.Store(int64(by))
	}
}

func (w *world) waitFor(what string, cond func() bool) {
	w.t.Helper()
	start := time.Now()
	for !cond() {
		if time.Since(start) > time.Minute {
			require.Fail(w.t, "timed out", what)
		}
		time.Sleep(5 * time.Millisecond) // the bubble's time
		synctest.Wait()
	}
}

// agent is one agent: a client session and what its handler heard.
type agent struct {
	*client.Session
	w      *world
	cancel context.CancelFunc
	ended  chan error
	n      uint32 // last submission

	mu       sync.Mutex
	events   []string
	topics   map[string]*api.Topic
	members  int
	changes  int                         // memberships received, the first of each stream included
	gone     []*api.Member               // as the newest membership has them
	marks    map[id.TopicPartition]int64 // high watermark by notices and look-ups
	extents  map[id.TopicPartition][]extent.Extent
	session  id.Session
	welcomes int
	protocol uint32   // of the newest stream
	cluster  string   // name of the virtual cluster, of the newest stream
	secrets  []string // told by the owner
	closed   int

	stall chan struct{} // while not nil, catalogues are not taken until it is closed
}

func (w *world) agent(adjust ...func(*client.Config)) *agent {
	w.t.Helper()
	a := &agent{
		w: w, ended: make(chan error, 1), topics: map[string]*api.Topic{},
		marks: map[id.TopicPartition]int64{}, extents: map[id.TopicPartition][]extent.Extent{},
	}
	w.hosts++
	cfg := client.Config{
		Replicas: w.addresses(), VirtualCluster: vcName, AgentKey: agentKey, Zone: "a", Version: "test",
		Endpoints: []*api.Endpoint{{Host: fmt.Sprintf("agent-%d", w.hosts), Port: 9092}}, Handler: a, Dial: w.dial,
	}
	for _, f := range adjust {
		f(&cfg)
	}
	var err error
	a.Session, err = client.New(cfg)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() { a.ended <- a.Run(ctx) }()
	return a
}

// leave ends the agent's process without a goodbye.
func (a *agent) leave() {
	a.cancel()
	require.NoError(a.w.t, <-a.ended)
}

func (a *agent) OnWelcome(m *api.Welcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.welcomes++
	a.protocol, a.cluster = m.Protocol, m.VirtualCluster
	a.secrets = append(a.secrets, m.PeerSecret)
	if s := id.Session(m.Session); s != a.session {
		a.session, a.n = s, m.NextN-1
	}
	clear(a.marks)
}

func (a *agent) OnPeerSecret(secret string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets = append(a.secrets, secret)
}

func (a *agent) OnCatalogue(m *api.Catalogue) {
	a.mu.Lock()
	if stall := a.stall; stall != nil {
		a.mu.Unlock()
		<-stall
		a.mu.Lock()
	}
	defer a.mu.Unlock()
	if m.Full {
		clear(a.topics)
	}
	for _, t := range m.Topics {
		a.topics[t.Name] = t
	}
	for _, gone := range m.DeletedTopics {
		for name, t := range a.topics {
			if string(t.Id) == string(gone) {
				delete(a.topics, name)
			}
		}
	}
	if m.Membership != nil {
		a.changes++
		a.members, a.gone = len(m.Membership.Members), m.Membership.Gone
	}
}

// OnLookup begins partitions where the look-up says.
func (a *agent) OnLookup(asked []*api.PartitionLookup, answer *api.LookupAnswer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, p := range answer.Partitions {
		tp := id.TopicPartition{Topic: id.Topic(asked[i].Topic), Partition: asked[i].Partition}
		a.marks[tp] = p.HighWatermark
		exts, err := extent.ParseList(p.Extents)
		if err != nil {
			panic(err)
		}
		a.extents[tp] = exts
	}
}

// OnNotice checks that notices of a partition go on exactly where what is known ends.
func (a *agent) OnNotice(m *api.Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range m.Partitions {
		tp := id.TopicPartition{Topic: id.Topic(p.Topic), Partition: p.Partition}
		exts, err := extent.ParseList(p.Extents)
		if err != nil {
			panic(err)
		}
		for _, e := range exts {
			if known, ok := a.marks[tp]; !ok || e.Base != known {
				a.events = append(a.events, fmt.Sprintf("gap: %v: extent at %d after %d", tp, e.Base, known))
			}
			a.marks[tp] = e.Last + 1
			a.extents[tp] = append(a.extents[tp], e)
		}
	}
}

func (a *agent) OnDisconnect() {}

func (a *agent) OnSessionClosed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed++
}

func (a *agent) read(fn func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn()
}

func (a *agent) opened() {
	a.w.t.Helper()
	<-a.Opened()
}

// batch is one idempotent batch of one record.
type batch struct {
	tp       id.TopicPartition
	producer int64
	sequence int32
}

// encode builds a commit of batches, each a section of its own.
func encode(sub id.Submission, resubmit bool, batches ...batch) []byte {
	var b commit.Builder
	b.Reset(commit.Header{Submission: sub, Bytes: uint32(1000 * len(batches)), Resubmit: resubmit})
	for i, in := range batches {
		b.Section(commit.Section{Partition: in.tp, Position: uint32(1000 * i)})
		b.Batch(commit.Batch{
			Records: 1, Bytes: 1000, MaxTimestamp: 5, ProducerID: in.producer, BaseSequence: in.sequence,
		})
	}
	return b.AppendTo(nil)
}

// plain is a batch without a producer id.
func plain(tp id.TopicPartition) batch { return batch{tp: tp, producer: commit.NoProducer} }

// submit commits as the agent's next submission.
func (a *agent) submit(batches ...batch) (*commit.Result, error) {
	a.mu.Lock()
	a.n++
	sub := id.Submission{Session: a.session, N: a.n}
	a.mu.Unlock()
	return a.Commit(context.Background(), encode(sub, false, batches...), time.Time{})
}

// topic creates a topic through the owner.
func (w *world) topic(n *node, name string, partitions int32) id.Topic {
	w.t.Helper()
	w.waitFor("ownership", func() bool { return n.Owner() != nil })
	c := &metadata.CreateTopic{Name: name, Partitions: partitions}
	copy(c.ID[:], name)
	result, _, err := n.Owner().Propose(w.t.Context(), c)
	require.NoError(w.t, err)
	require.NoError(w.t, result.Err)
	return c.ID
}

// subscribe looks a partition up and subscribes.
func (a *agent) subscribe(tp id.TopicPartition) *api.PartitionAnswer {
	a.w.t.Helper()
	answer, err := a.Lookup(a.w.t.Context(), []*api.PartitionLookup{{
		Topic: tp.Topic[:], Partition: tp.Partition, Want: &api.PartitionLookup_ExtentsFrom{}, Subscribe: true,
	}})
	require.NoError(a.w.t, err)
	return answer.Partitions[0]
}

// createTopic forwards a CreateTopics request and gives its error code.
func (a *agent) createTopic(name string) (int16, error) {
	in := kmsg.NewPtrCreateTopicsRequest()
	in.SetVersion(7)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	in.Topics = append(in.Topics, topic)
	body, err := a.Forward(a.w.t.Context(), client.Forward{Key: in.Key(), Version: 7, Body: in.AppendTo(nil)})
	if err != nil {
		return 0, err
	}
	out := kmsg.NewPtrCreateTopicsResponse()
	out.SetVersion(7)
	if err := out.ReadFrom(body); err != nil {
		return 0, err
	}
	return out.Topics[0].ErrorCode, nil
}

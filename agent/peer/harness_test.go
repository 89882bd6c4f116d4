package peer

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

const (
	testSecret  = "the agents' secret"
	testCluster = "cluster-1"
	testZone    = "zone-a"
)

// counted counts GETs and can hold them back.
type counted struct {
	objstore.Bucket
	gets atomic.Int32
	hold func(ctx context.Context) error
}

func (b *counted) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	b.gets.Add(1)
	if b.hold != nil {
		if err := b.hold(ctx); err != nil {
			return nil, err
		}
	}
	return b.Bucket.Get(ctx, key, offset, length)
}

// catalogue is one agent's view of a membership.
type catalogue struct{ now atomic.Pointer[view.Snapshot] }

func (c *catalogue) Load() *view.Snapshot { return c.now.Load() }

// agent is the reading side of one agent.
type agent struct {
	session   id.Session
	zone      string
	address   string // where it is asked; "" nowhere
	secret    Secret
	catalogue catalogue
	cache     *cache.Cache
	asks      *Zone
	server    *Server
	stop      func()
	kill      func()
	ran       error
	registry  prometheus.Gatherers // the server's is added at each start
}

// cluster is agents over one bucket.
type cluster struct {
	t      testing.TB
	bucket *counted
	agents []*agent
	next   id.Session

	// What agents that are started get.
	server func(*ServerConfig)
	asks   func(*Config)
	cache  func(*cache.Config)
}

func newCluster(t testing.TB, agents int) *cluster {
	t.Helper()
	c := &cluster{t: t, bucket: &counted{Bucket: mem.New()}, next: 1}
	for range agents {
		c.start(testZone)
	}
	return c
}

// start adds an agent that all others know of at once.
func (c *cluster) start(zone string) *agent {
	c.t.Helper()
	r := prometheus.NewRegistry()
	a := &agent{session: c.next, zone: zone, registry: prometheus.Gatherers{r}}
	c.next++
	a.catalogue.now.Store(&view.Snapshot{})
	a.secret.Set(testSecret)
	asks := Config{
		Zone: zone, Secret: &a.secret, Catalogue: &a.catalogue, Registerer: r,
		// Nothing here takes long by itself, but machines are busy.
		DialTimeout: time.Minute, SilenceTimeout: time.Minute, UnitTimeout: time.Minute, StallTimeout: time.Minute,
	}
	if c.asks != nil {
		c.asks(&asks)
	}
	var err error
	a.asks, err = New(asks)
	require.NoError(c.t, err)
	caching := cache.Config{Bucket: c.bucket, Key: cachetest.Key, Zone: a.asks, Registerer: r}
	if c.cache != nil {
		c.cache(&caching)
	}
	a.cache, err = cache.New(caching)
	require.NoError(c.t, err)
	c.serve(a)
	c.t.Cleanup(func() { a.stop(); a.cache.Close(); a.asks.Close() })
	c.agents = append(c.agents, a)
	c.tell()
	return a
}

func (c *cluster) serve(a *agent) {
	c.t.Helper()
	r := prometheus.NewRegistry()
	a.registry = append(a.registry, r)
	cfg := ServerConfig{
		Address: "127.0.0.1:0", Secret: &a.secret, Zone: a.zone, Cluster: func() string { return testCluster }, Units: a.cache,
		Registerer: r,
	}
	if c.server != nil {
		c.server(&cfg)
	}
	var err error
	a.server, err = NewServer(cfg)
	require.NoError(c.t, err)
	require.NoError(c.t, a.server.Listen(c.t.Context()))
	a.address = a.server.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.ran = a.server.Run(ctx) })
	a.stop = func() { cancel(); running.Wait(); require.NoError(c.t, a.ran) }
	a.kill = func() { _ = a.server.http.Close(); cancel(); running.Wait(); a.ran = nil }
}

// tell lets every agent know all agents.
func (c *cluster) tell() {
	var members []*view.Member
	for _, a := range c.agents {
		members = append(members, &view.Member{Session: a.session, Zone: a.zone, Peer: a.address})
	}
	for _, a := range c.agents {
		a.catalogue.now.Store(&view.Snapshot{ClusterID: testCluster, Session: a.session, Members: members})
	}
}

// leave takes an agent out of what the others know.
func (c *cluster) leave(gone *agent) {
	for i, a := range c.agents {
		if a == gone {
			c.agents = append(c.agents[:i:i], c.agents[i+1:]...)
			break
		}
	}
	c.tell()
}

// bundle stores a bundle of n batches of that size and gives the extent of each.
func (c *cluster) bundle(b id.Bundle, n, size int) (*cachetest.Bundle, []extent.Extent) {
	c.t.Helper()
	made := cachetest.NewBundle(b)
	var extents []extent.Extent
	for i := range n {
		extents = append(extents, made.Extent(int64(100*i), made.Add(cachetest.Batch(make([]byte, size), int64(i)))))
	}
	made.Store(c.t, c.bucket)
	return made, extents
}

// read reads an extent by an agent and checks its bytes.
func (c *cluster) read(a *agent, made *cachetest.Bundle, e *extent.Extent) {
	c.t.Helper()
	got, err := a.cache.Read(c.t.Context(), e, cache.Live)
	require.NoError(c.t, err)
	defer got.Release()
	require.Equal(c.t, expected(made, e), collect(got))
}

// expected is an extent of one batch as readers must see it.
func expected(made *cachetest.Bundle, e *extent.Extent) []byte {
	for _, p := range made.Batches {
		if p.Position == e.Position {
			return cachetest.Patched(p.Raw, e.Base)
		}
	}
	return nil
}

func collect(b *cache.Bytes) []byte {
	var out []byte
	for _, p := range b.Append(nil, 0, b.Size()) {
		out = append(out, p...)
	}
	return out
}

// metric sums the samples of a metric whose label, if any is named, has a value.
func (a *agent) metric(t testing.TB, name string, value ...string) int {
	t.Helper()
	families, err := a.registry.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (len(value) == 0 || m.GetLabel()[len(m.GetLabel())-1].GetValue() == value[0]) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return int(sum)
}

// await waits until a metric has a value: requests are counted when they end, a little after their bytes are readable.
func (a *agent) await(t testing.TB, want int, name string, value ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return a.metric(t, name, value...) >= want }, time.Minute, time.Millisecond, name)
	require.Equal(t, want, a.metric(t, name, value...))
}

// awaitRequests waits until the agents have sent so many requests to each other.
func (c *cluster) awaitRequests(n int) {
	c.t.Helper()
	count := func() int {
		sum := 0
		for _, a := range c.agents {
			sum += a.metric(c.t, "freshet_peer_requests_total")
		}
		return sum
	}
	require.Eventually(c.t, func() bool { return count() >= n }, time.Minute, time.Millisecond)
	require.Equal(c.t, n, count())
}

// owned finds a bundle whose whole unit an agent owns, as another one sees it.
func (c *cluster) owned(by, seenBy *agent, from id.Bundle) id.Bundle {
	for b := from; ; b++ {
		owner := seenBy.asks.owner(seenBy.asks.current(), b, cache.Unit{})
		if owner == by.session {
			return b
		}
	}
}

func written(by id.Session, n uint32) id.Bundle { return id.Submission{Session: by, N: n}.Bundle() }

func newBucket() objstore.Bucket { return mem.New() }

package requests

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/job/runner"
	"github.com/freshet-io/freshet/agent/peer"
	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/agent/zonewriter"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/hedge"
)

// Bounds of an agent's memory here, far below those of a machine that carries such a load: what is read at the live edge
// is read at once.
const (
	slabBytes = 128 << 20
	liveBytes = 256 << 20
)

// agent is the parts of one that ask the store.
type agent struct {
	w        *world
	number   int
	zone     string
	session  id.Session
	registry *prometheus.Registry
	bucket   objstore.Bucket // hedged, and counted below that
	writer   *writer.Writer
	route    *zonewriter.Route
	taker    *zonewriter.Taker // nil in the half with jobs, as what follows
	cache    *cache.Cache
	runner   *runner.Runner
	parts    job.Plan // parts given of the plan to come

	secret    peer.Secret
	asks      *peer.Zone
	server    *peer.Server
	address   string
	catalogue atomic.Pointer[view.Snapshot]
	serves    []bool // by partition

	order struct {
		sync.Mutex
		turn *sync.Cond
		next uint32 // submission that is to be handed in next
	}
}

// newAgent opens a session and builds what the load needs.
func (w *world) newAgent(number int) *agent {
	a := &agent{
		w: w, number: number, zone: fmt.Sprintf("zone-%d", number%w.load.zones), registry: prometheus.NewRegistry(),
		address: fmt.Sprintf("agent-%d:1", number),
	}
	a.order.turn, a.order.next = sync.NewCond(&a.order), 1
	opened := w.propose(&metadata.OpenSession{
		Instance: a.address, Zone: a.zone, Peer: a.address, Roles: metadata.RoleJobs | metadata.RoleProduce | metadata.RoleFetch,
	})
	a.session = opened.(metadata.OpenSessionResult).Session
	var err error
	a.bucket, err = hedge.New(w.sorted, hedge.Config{}, a.registry)
	require.NoError(w.t, err)
	a.buildRunner()
	if w.load.live {
		a.buildCache()
	}
	a.buildWriter()
	return a
}

func (a *agent) buildWriter() {
	pool, err := slab.NewPool(slab.Config{Budget: slabBytes}, a.registry)
	require.NoError(a.w.t, err)
	cfg := writer.Config{
		Pool: pool, Bucket: a.bucket, Committer: a, FlushBytes: a.w.load.bundle, Share: func() float64 { return a.route.Share() },
	}
	if a.cache != nil {
		cfg.Sink = a
	}
	a.writer, err = writer.New(cfg, a.registry)
	require.NoError(a.w.t, err)
	a.buildRoute()
	a.writer.OnWelcome(&api.Welcome{Session: uint32(a.session), BundlePrefix: prefix, NextN: 1})
}

func (a *agent) buildCache() {
	a.catalogue.Store(&view.Snapshot{})
	a.secret.Set("secret")
	var err error
	a.asks, err = peer.New(peer.Config{Zone: a.zone, Secret: &a.secret, Catalogue: a, Dial: a.w.dial, Registerer: a.registry})
	require.NoError(a.w.t, err)
	a.cache, err = cache.New(cache.Config{
		Bucket: a.bucket, Key: func(b id.Bundle) string { return bundle.Key(prefix, b) }, Zone: a.asks,
		Live: cache.Bounds{Bytes: liveBytes}, Registerer: a.registry,
	})
	require.NoError(a.w.t, err)
	socket := bufconn.Listen(1 << 20)
	a.w.sockets[a.address] = socket
	a.server, err = peer.NewServer(peer.ServerConfig{
		Secret: &a.secret, Zone: a.zone, Cluster: func() string { return clusterID }, Units: a, Registerer: a.registry,
		Listener: func(context.Context) (net.Listener, error) { return socket, nil },
		Upgrades: map[string]peer.Upgrade{zonewriter.Protocol: func(conn net.Conn, in *bufio.Reader, from id.Session) {
			a.taker.Serve(conn, in, from)
		}},
	})
	require.NoError(a.w.t, err)
	require.NoError(a.w.t, a.server.Listen(a.w.t.Context()))
}

// run works until the load is over, and gives what ends it.
func (a *agent) run(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = a.writer.Run(ctx) })
	all.Go(func() { _ = a.runner.Run(ctx) })
	all.Go(func() { _ = a.route.Run(ctx) })
	all.Go(func() { a.report(ctx) })
	if a.server != nil {
		all.Go(func() { _ = a.server.Run(ctx) })
	}
	return func() {
		cancel()
		if a.cache != nil {
			a.taker.Close()
			a.asks.Close()
			a.cache.Close()
		}
		all.Wait()
	}
}

// Load implements peer.Catalogue.
func (a *agent) Load() *view.Snapshot { return a.catalogue.Load() }

// OnCommitted implements writer.Sink as package agent does.
func (a *agent) OnCommitted(c *writer.Committed) { a.cache.Put(c.ID, c) }

// Prepare implements peer.Lender.
func (a *agent) Prepare(o *cache.Order) { a.cache.Prepare(o) }

// Lend implements peer.Lender as package agent does.
func (a *agent) Lend(ctx context.Context, o *cache.Order, unit int) (*cache.Loan, error) {
	a.handedOver(o.Bundle)
	return a.cache.Lend(ctx, o, unit)
}

// handedOver waits a little for a bundle of this agent's that is not in its cache yet.
func (a *agent) handedOver(b id.Bundle) {
	if done, ok := a.writer.Settling(b); ok {
		select {
		case <-done:
		case <-time.After(200 * time.Millisecond):
		}
	}
}

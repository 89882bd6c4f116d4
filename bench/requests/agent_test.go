package requests

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
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
	"github.com/freshet-io/freshet/metadata/commit"
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

// buildRoute builds what takes batches to the zone's writer.
func (a *agent) buildRoute() {
	cfg := zonewriter.Config{
		Own: a.writer, Session: func() id.Session { return a.session }, Agents: func() int { return a.w.load.agents / a.w.load.zones },
		Registerer: a.registry,
	}
	if a.asks != nil {
		cfg.Dial = func(ctx context.Context, to id.Session) (net.Conn, *bufio.Reader, error) {
			return a.asks.Stream(ctx, to, zonewriter.Protocol)
		}
		a.taker = zonewriter.NewTaker(a.writer, 0, zap.NewNop(), a.registry)
	}
	a.route = zonewriter.New(cfg)
}

func (a *agent) buildCache() {
	a.catalogue.Store(&view.Snapshot{})
	var err error
	a.asks, err = peer.New(peer.Config{Zone: a.zone, Key: agentKey, Catalogue: a, Dial: a.w.dial, Registerer: a.registry})
	require.NoError(a.w.t, err)
	a.cache, err = cache.New(cache.Config{
		Bucket: a.bucket, Key: func(b id.Bundle) string { return bundle.Key(prefix, b) }, Zone: a.asks,
		Live: cache.Bounds{Bytes: liveBytes}, Registerer: a.registry,
	})
	require.NoError(a.w.t, err)
	socket := bufconn.Listen(1 << 20)
	a.w.sockets[a.address] = socket
	a.server, err = peer.NewServer(peer.ServerConfig{
		Key: agentKey, Zone: a.zone, Cluster: func() string { return clusterID }, Units: a, Registerer: a.registry,
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

// Commit implements writer.Committer: in order, as package session does.
func (a *agent) Commit(ctx context.Context, encoded []byte) (*commit.Result, error) {
	h, err := commit.ParseHeader(encoded)
	if err != nil {
		return nil, err
	}
	encoded = bytes.Clone(encoded)
	p, err := a.inTurn(h.Submission.N, func() (proposal, error) {
		return a.w.owner.Enqueue(ctx, &metadata.CommitBundle{Encoded: encoded})
	})
	if err != nil {
		return nil, err
	}
	r, _, err := p.Wait(ctx)
	if err != nil {
		return nil, err
	}
	if r.Err != nil {
		return nil, r.Err
	}
	result := r.Value.(*commit.Result)
	a.w.committed(encoded, result)
	return result, nil
}

// proposal is *owner.Proposal.
type proposal interface {
	Wait(ctx context.Context) (metadata.Result, uint64, error)
}

// inTurn hands a submission in when those before it were.
func (a *agent) inTurn(n uint32, hand func() (proposal, error)) (proposal, error) {
	a.order.Lock()
	defer a.order.Unlock()
	for a.order.next != n {
		a.order.turn.Wait()
	}
	p, err := hand()
	a.order.next++
	a.order.turn.Broadcast()
	return p, err
}

// Abandon implements writer.Committer.
func (a *agent) Abandon(context.Context, uint32) (*commit.Result, error) {
	a.w.t.Error("a bundle was abandoned")
	return nil, context.Canceled
}

// report tells the planner of zone writers what this agent's clients send, as package load does.
func (a *agent) report(ctx context.Context) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	rate, before := float64(a.w.load.rate)/float64(a.w.load.agents), a.route.Bytes()
	for {
		a.w.loads.Heard(a.session, a.zone, &api.Load{ProduceBytesPerSecond: rate, TakesBatches: true}, time.Now())
		a.w.writers.Heard(a.session, true)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		bytes := a.route.Bytes()
		rate, before = float64(bytes-before)/reportEvery.Seconds(), bytes
	}
}

const reportEvery = time.Second

// tick is how often an agent takes batches in.
const tick = 5 * time.Millisecond

// produce takes batches in at a rate until ctx ends: what clients send, in partitions chosen evenly.
func (a *agent) produce(ctx context.Context, bytesPerSecond float64) {
	rng := rand.New(rand.NewPCG(seed, uint64(a.number)))
	began, sent := time.Now(), 0
	for ctx.Err() == nil {
		time.Sleep(tick) // sleeps: in a synctest bubble, whose clock it drives
		due := int(time.Since(began).Seconds() * bytesPerSecond / float64(a.w.load.batch))
		var batches []writer.Batch
		for ; sent < due; sent++ {
			batches = append(batches, a.w.producerBatch(rng.Int32N(a.w.load.partitions)))
		}
		if len(batches) > 0 {
			a.route.Add(ctx, batches)
		}
	}
}

// producerBatch is what a client sends to a partition.
func (w *world) producerBatch(partition int32) writer.Batch {
	return writer.Batch{
		Partition: id.TopicPartition{Topic: topic, Partition: partition}, Bytes: w.batch,
		Commit: commit.Batch{
			Records: int32(w.load.batch / recordBytes), Bytes: int32(w.load.batch), MaxTimestamp: time.Now().UnixMilli(),
			ProducerID: commit.NoProducer,
		},
	}
}

// announced has the groups read what this agent serves of a bundle. They come one after the other, as their fetches do.
func (a *agent) announced(exts []placed) {
	var mine []placed
	for _, x := range exts {
		if a.serves[x.partition] {
			mine = append(mine, x)
		}
	}
	for group := range a.w.load.fanout {
		a.w.reads.Go(func() {
			time.Sleep(noticeTime + time.Duration(group)*groupsApart) // sleeps: as above
			a.consume(mine)
		})
	}
}

// How long after a commit its notice has come, and how far behind each other groups read.
const (
	noticeTime  = 2 * time.Millisecond
	groupsApart = 20 * time.Millisecond
)

// consume reads extents as fetches at the live edge do.
func (a *agent) consume(exts []placed) {
	for i := range exts {
		if _, settling := a.writer.Settling(exts[i].extent.Bundle); !settling {
			a.cache.Start(&exts[i].extent, cache.Live)
		}
	}
	for i := range exts {
		a.handedOver(exts[i].extent.Bundle)
		b, err := a.cache.Read(context.Background(), &exts[i].extent, cache.Live)
		if err != nil {
			a.w.t.Errorf("read: %v", err)
			return
		}
		a.w.read.Add(int64(b.Size()))
		b.Release()
	}
}

package sim

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/agent/peer"
	"github.com/freshet-io/freshet/objstore"
)

// TestStall_ZoneWriter: how long clients of the agents that hand over wait when their writer is cut off, from the owner,
// from the object store or from its peers, both ways or one, and lives on. The planner is the product's, and moves agents
// off one that lost the object store or the owner. After it is mended too, each record comes behind those that its client
// had been told of before, also those of a client without sequence numbers that it told of a failure.
func TestStall_ZoneWriter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut     func(w *node, ways *cutWays, lost *atomic.Bool)
		bound   time.Duration // as the package documentation of zonewriter has it
		planned bool          // another one writes in its place
	}{
		"owner":           {func(w *node, _ *cutWays, _ *atomic.Bool) { w.link.setDown(true) }, 6 * time.Second, true},
		"hears no owner":  {func(w *node, _ *cutWays, _ *atomic.Bool) { w.link.deafen() }, 7 * time.Second, true},
		"object store":    {func(_ *node, _ *cutWays, lost *atomic.Bool) { lost.Store(true) }, 5 * time.Second, true},
		"hears no peers":  {func(_ *node, ways *cutWays, _ *atomic.Bool) { ways.out.Store(true) }, 3500 * time.Millisecond, false},
		"heard by no one": {func(_ *node, ways *cutWays, _ *atomic.Bool) { ways.in.Store(true) }, 3500 * time.Millisecond, false},
		"peers": {func(_ *node, ways *cutWays, _ *atomic.Bool) {
			ways.in.Store(true)
			ways.out.Store(true)
		}, 3500 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ways, stores := &cutWays{}, &ownStores{}
			cl := newCluster(t, options{seed: 1, agents: 3, zones: 1, agent: func(cfg *agent.Config) {
				ways.configure(cfg)
				stores.configure(cfg)
			}})
			cl.createTopic("t", 2)
			writer, others := cl.zoneWriter()
			pulses := []*pulse{cl.pulse(others[0], 0), cl.pulse(others[1], 1, kgo.DisableIdempotentWrite())}
			for _, p := range pulses {
				p.acked(20)
			}
			lost := stores.of(cl, writer)
			c.cut(writer, ways, lost)
			cutAt := time.Now()
			cl.await("all that follows from it", func() bool { return time.Since(cutAt) > c.bound+time.Second })
			if c.planned {
				cl.await("another writer", func() bool { return total(others, "freshet_zonewriter_streams") == 1 })
			}
			ways.mend()
			writer.link.setDown(false)
			writer.link.hear()
			lost.Store(false)
			for _, p := range pulses {
				p.acked(100)
				t.Logf("client without sequence numbers: %v, longest stall %v", p.plain, p.stop().Round(10*time.Millisecond))
				require.Less(t, p.stop(), c.bound+slack)
				p.check()
			}
		})
	}
}

// slack is what a slow machine may add to a stall. With it a stall is still shorter than the 20 s after which a client
// gives up a request that nobody answers.
const slack = 12 * time.Second

// zoneWriter waits until one agent writes for all, and gives it and the others.
func (c *cluster) zoneWriter() (writer *node, others []*node) {
	c.t.Helper()
	c.await("one writer", func() bool {
		writer, others = nil, nil
		for _, a := range c.agents {
			if int(a.metric("freshet_zonewriter_streams")) == len(c.agents)-1 {
				writer = a
			} else {
				others = append(others, a)
			}
		}
		return writer != nil
	})
	return writer, others
}

// pulse is a client that sends one record after the other to one partition through one agent.
type pulse struct {
	c         *cluster
	client    *kgo.Client
	partition int32
	plain     bool // without sequence numbers
	cancel    context.CancelFunc
	ended     sync.WaitGroup
	count     atomic.Int64
	longest   atomic.Int64 // ns
}

func (c *cluster) pulse(a *node, partition int32, more ...kgo.Opt) *pulse {
	c.t.Helper()
	p := &pulse{
		c: c, partition: partition, plain: len(more) > 0,
		client: c.pinned(a, append(more, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("t"))...),
	}
	c.t.Cleanup(p.client.Close)
	ctx, cancel := context.WithCancel(c.t.Context())
	p.cancel = cancel
	p.ended.Go(func() {
		for ctx.Err() == nil {
			began, value := time.Now(), strconv.FormatInt(p.count.Load(), 10)
			if p.client.ProduceSync(ctx, &kgo.Record{Partition: partition, Value: []byte(value)}).FirstErr() == nil {
				p.longest.Store(max(p.longest.Load(), int64(time.Since(began))))
				p.count.Add(1)
			}
		}
	})
	return p
}

// check reads what is there: every acknowledged record, in order, and none behind a later one. A client without sequence
// numbers may have a record twice, if it was told of a failure and tried again.
func (p *pulse) check() {
	p.c.t.Helper()
	records, _ := p.c.committedOf("t", p.partition)
	next := int64(0)
	for _, r := range records {
		n, err := strconv.ParseInt(string(r.Value), 10, 64)
		require.NoError(p.c.t, err)
		if p.plain && n == next-1 {
			continue
		}
		require.Equal(p.c.t, next, n, "offset %d", r.Offset)
		next++
	}
	require.GreaterOrEqual(p.c.t, next, p.count.Load())
}

// acked waits for so many further records.
func (p *pulse) acked(n int64) {
	p.c.t.Helper()
	from := p.count.Load()
	p.c.await("records acknowledged", func() bool { return p.count.Load() >= from+n })
}

// stop ends the client and gives the longest time that a record took.
func (p *pulse) stop() time.Duration {
	p.cancel()
	p.ended.Wait()
	return time.Duration(p.longest.Load())
}

// cutWays are the connections that agents make to others: what comes from those, or goes to them, can be lost.
type cutWays struct{ in, out atomic.Bool }

func (w *cutWays) configure(cfg *agent.Config) {
	cfg.Peers.Configure = func(p *peer.Config) {
		p.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &cutConn{Conn: conn, ways: w}, nil
		}
	}
}

func (w *cutWays) mend() {
	w.in.Store(false)
	w.out.Store(false)
}

type cutConn struct {
	net.Conn
	ways *cutWays
}

func (c *cutConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.ways.in.Load() {
			return n, err
		}
	}
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.ways.out.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// ownStores are the ways of single agents to the object store, which can be lost.
type ownStores struct{ lost []*atomic.Bool }

func (s *ownStores) configure(cfg *agent.Config) {
	lost := &atomic.Bool{}
	s.lost = append(s.lost, lost)
	cfg.Bucket = &ownStore{Bucket: cfg.Bucket, lost: lost}
}

// of gives what decides over an agent's.
func (s *ownStores) of(c *cluster, a *node) *atomic.Bool {
	for i, other := range c.agents {
		if other == a {
			return s.lost[i]
		}
	}
	return nil
}

type ownStore struct {
	objstore.Bucket
	lost *atomic.Bool
}

func (s *ownStore) Put(ctx context.Context, key string, body objstore.Body) error {
	if s.lost.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Bucket.Put(ctx, key, body)
}

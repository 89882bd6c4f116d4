package peer

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/id"
)

// Bundles from elsewhere that all agents of a zone want at the same time cost one GET, and each other agent one request.
func TestZone_OneGetForAll(t *testing.T) {
	c := newCluster(t, 4)
	const bundles, foreign = 20, 900
	var all sync.WaitGroup
	for n := range bundles {
		made, extents := c.bundle(written(foreign, uint32(n+1)), 8, 100_000)
		for _, a := range c.agents {
			for i := range extents {
				all.Go(func() { c.read(a, made, &extents[i]) })
			}
		}
	}
	all.Wait()
	require.Equal(t, int32(bundles), c.bucket.gets.Load())
	c.awaitRequests(bundles * 3)
	owners := 0
	for _, a := range c.agents {
		require.Zero(t, a.metric(t, "freshet_peer_fallbacks_total"))
		if a.metric(t, "freshet_cache_gets_total") > 0 {
			owners++
		}
	}
	require.Greater(t, owners, 1, "the work is shared")
}

// TestZone_TrimsSpace: agents share whatever white space surrounds the names of their zones.
func TestZone_TrimsSpace(t *testing.T) {
	for _, zone := range []string{"eu-1a\n", " eu-1a", "eu-1a "} {
		c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1}
		owner, reader := c.start(zone), c.start("eu-1a")
		made, extents := c.bundle(c.owned(owner, reader, written(900, 1)), 1, 100)
		c.read(reader, made, &extents[0])
		reader.await(t, 1, "freshet_peer_requests_total", askedOK)
	}
}

// own is a writer's memory of a bundle: some of its batches, patched.
type own struct {
	positions []uint32
	bytes     [][]byte
}

func (o *own) Slices(dst [][]byte, position, length uint32) ([][]byte, bool) {
	for i, p := range o.positions {
		if p == position && int(length) == len(o.bytes[i]) {
			return append(dst, o.bytes[i]), true
		}
	}
	return dst, false
}

func (o *own) Pieces(yield func(uint32, []byte)) {
	for i, p := range o.positions {
		yield(p, o.bytes[i])
	}
}
func (o *own) Held() int64 { return 1 }
func (o *own) Retain()     {}
func (o *own) Release()    {}

func (o *own) add(p cachetest.Placed, base int64) {
	o.positions, o.bytes = append(o.positions, p.Position), append(o.bytes, cachetest.Patched(p.Raw, base))
}

// What an agent wrote costs its zone no GET, whoever owns it.
func TestZone_WritersMemoryFirst(t *testing.T) {
	c := newCluster(t, 3)
	writer := c.agents[0]
	for n := range uint32(20) {
		b := written(writer.session, n+1)
		made, extents := c.bundle(b, 4, 5000)
		o := &own{}
		for i, p := range made.Batches {
			o.add(p, extents[i].Base)
		}
		writer.cache.Put(b, o)
		for _, a := range c.agents {
			for i := range extents {
				c.read(a, made, &extents[i])
			}
		}
	}
	require.Zero(t, c.bucket.gets.Load())
	c.awaitRequests(20 * 2)
}

// A batch that the writer's memory lacks, because it was committed later than its bundle, is read from the object; the
// duplicate between two accepted batches harms nobody.
func TestZone_WriterLacksABatch(t *testing.T) {
	c := newCluster(t, 2)
	writer, reader := c.agents[0], c.agents[1]
	made, extents := c.bundle(written(writer.session, 1), 4, 5000) // 0 and 2 accepted, 1 a duplicate, 3 accepted later
	o := &own{}
	o.add(made.Batches[0], extents[0].Base)
	o.add(made.Batches[2], extents[2].Base)
	writer.cache.Put(made.ID, o)
	c.read(reader, made, &extents[0])
	c.read(reader, made, &extents[2])
	require.Zero(t, c.bucket.gets.Load())
	c.read(reader, made, &extents[3])
	require.Equal(t, int32(1), c.bucket.gets.Load())
	require.Equal(t, 1, reader.metric(t, "freshet_peer_fallbacks_total", unfitIncomplete))
	c.read(reader, made, &extents[0])
	c.read(reader, made, &extents[2])
	require.Equal(t, int32(1), c.bucket.gets.Load(), "the object replaced the writer's part")
	c.awaitRequests(1)
}

// A writer that has a bundle no more sends its askers to the owner, and is not asked for older ones again.
func TestZone_WriterEvicted(t *testing.T) {
	c := newCluster(t, 3)
	writer, reader := c.agents[0], c.agents[1]
	var n uint32 = 50
	for owner := id.Session(0); owner == writer.session || owner == 0; n++ { // one that the writer does not own
		owner = reader.asks.owner(reader.asks.current(), written(writer.session, n+1), cache.Unit{})
	}
	made, extents := c.bundle(written(writer.session, n), 1, 5000)
	c.read(reader, made, &extents[0])
	require.Equal(t, int32(1), c.bucket.gets.Load())
	reader.await(t, 1, "freshet_peer_requests_total", askedAbsent)
	for older := range n - 1 {
		made, extents := c.bundle(written(writer.session, older+1), 1, 100)
		c.read(reader, made, &extents[0])
	}
	reader.await(t, 1, "freshet_peer_requests_total", askedAbsent)
	require.Equal(t, int32(n), c.bucket.gets.Load())
}

// pendingLender has a bundle that the agent's writer has not handed over yet.
type pendingLender struct {
	Lender
	bundle id.Bundle
}

func (l pendingLender) Lend(ctx context.Context, o *cache.Order, unit int) (*cache.Loan, error) {
	if o.Bundle == l.bundle {
		return nil, cache.ErrPending
	}
	return l.Lender.Lend(ctx, o, unit)
}

// A writer that has a bundle not yet in memory is still asked for those that it wrote before, which are.
func TestZone_WriterHasItNotYet(t *testing.T) {
	const n = 10
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1}
	c.server = func(cfg *ServerConfig) { cfg.Units = pendingLender{cfg.Units, written(1, n)} }
	writer, reader := c.start(testZone), c.start(testZone)
	require.Equal(t, id.Session(1), writer.session)
	made, extents := c.bundle(written(writer.session, n), 1, 100)
	c.read(reader, made, &extents[0])
	require.Equal(t, int32(1), c.bucket.gets.Load())
	for older := range uint32(n - 1) {
		made, extents := c.bundle(written(writer.session, older+1), 1, 100)
		o := &own{}
		o.add(made.Batches[0], extents[0].Base)
		writer.cache.Put(made.ID, o)
		c.read(reader, made, &extents[0])
	}
	require.Equal(t, int32(1), c.bucket.gets.Load())
	reader.await(t, n-1, "freshet_peer_requests_total", askedOK)
	reader.await(t, 1, "freshet_peer_requests_total", askedPending)
	require.Zero(t, reader.metric(t, "freshet_peer_left_out"))
}

// Agents of other zones are neither asked nor answered (I6).
func TestZone_NeverAcrossZones(t *testing.T) {
	c := newCluster(t, 2)
	far := c.start("zone-b")
	for n := range uint32(30) {
		made, extents := c.bundle(written(c.agents[int(n)%3].session, n+1), 1, 100)
		for _, a := range c.agents {
			c.read(a, made, &extents[0])
		}
	}
	require.Equal(t, int32(2*30), c.bucket.gets.Load(), "one for each zone")
	require.Zero(t, far.metric(t, "freshet_peer_served_total"))
	require.Zero(t, far.metric(t, "freshet_peer_requests_total"))

	// An address that another zone's agent has taken over: it says no, and the asker reads the object store.
	victim, asker := c.agents[0], c.agents[1]
	victim.address = far.address
	c.tell()
	made, extents := c.bundle(c.owned(victim, asker, written(900, 1)), 1, 100)
	c.read(asker, made, &extents[0])
	require.Equal(t, 1, far.metric(t, "freshet_peer_served_total", servedMisdirected))
	require.Zero(t, far.metric(t, "freshet_peer_sent_bytes_total"))
	require.Equal(t, 1, asker.metric(t, "freshet_peer_fallbacks_total", askedRefused))
}

// An agent that comes or goes moves only its share, and costs nobody an error.
func TestZone_MembershipChanges(t *testing.T) {
	c := newCluster(t, 3)
	const bundles = 600
	owners := func() map[id.Bundle]id.Session {
		m := make(map[id.Bundle]id.Session)
		for b := range id.Bundle(bundles) {
			m[b] = c.agents[0].asks.owner(c.agents[0].asks.current(), b, cache.Unit{})
			for _, a := range c.agents {
				require.Equal(t, m[b], a.asks.owner(a.asks.current(), b, cache.Unit{}), "all agree")
			}
		}
		return m
	}
	before := owners()
	came := c.start(testZone)
	with := owners()
	moved := 0
	for b := range before {
		if before[b] != with[b] {
			require.Equal(t, came.session, with[b])
			moved++
		}
	}
	require.InDelta(t, bundles/4, moved, bundles/10)
	made, extents := c.bundle(c.owned(came, came, written(900, 1)), 1, 100)
	c.leave(came)
	require.Equal(t, before, owners())

	// While they disagree, since this one has not heard that it left, each of two owners makes a GET, and no more.
	var all sync.WaitGroup
	for _, a := range append(c.agents, came) {
		all.Go(func() { c.read(a, made, &extents[0]) })
	}
	all.Wait()
	require.LessOrEqual(t, c.bucket.gets.Load(), int32(2))
}

// Reads go on while agents are killed and started: no errors, and a bounded number of GETs.
func TestZone_KilledAndStartedMidStream(t *testing.T) {
	c := newCluster(t, 3)
	reader, killed := c.agents[0], c.agents[1]
	var all sync.WaitGroup
	for n := range uint32(60) {
		made, extents := c.bundle(written(900, n+1), 3, 300_000)
		all.Go(func() {
			for i := range extents {
				c.read(reader, made, &extents[i])
			}
		})
		switch n {
		case 20:
			killed.kill()
		case 40:
			c.leave(killed)
			c.start(testZone)
		}
	}
	all.Wait()
	gets, fallbacks := int(c.bucket.gets.Load()), 0
	for _, a := range append(c.agents, killed) {
		fallbacks += a.metric(t, "freshet_peer_fallbacks_total")
	}
	require.GreaterOrEqual(t, gets, 60)
	require.LessOrEqual(t, gets, 60+fallbacks, "each bundle once, and once more where the killed agent may have begun")
	t.Logf("%d reads asked the killed agent", fallbacks) // on a busy machine all reads can end before the kill, or begin after it left
}

// A writer that owns its bundle too is asked once, whatever comes of it.
func TestZone_WriterThatOwnsIsAskedOnce(t *testing.T) {
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, asks: func(c *Config) { c.UnitTimeout = short }}
	writer, reader := c.start(testZone), c.start(testZone)
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer other.Close()
	defer other.CloseClientConnections()
	writer.address = strings.TrimPrefix(other.URL, "http://")
	c.tell()
	made, extents := c.bundle(c.owned(writer, reader, written(writer.session, 1)), 1, 100)
	c.read(reader, made, &extents[0])
	require.Equal(t, int32(1), asked.Load())
	require.Equal(t, int32(1), c.bucket.gets.Load())
	require.Equal(t, 1, reader.metric(t, "freshet_peer_fallbacks_total", askedSlow))
}

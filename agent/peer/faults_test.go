package peer

import (
	"context"
	"crypto/tls"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/internal/tlsfiles"
	"github.com/freshet-io/freshet/metadata/id"
)

// unforgiving leaves agents out for good.
func unforgiving(c *Config) { c.LeaveOut = time.Hour }

// short is a time-out that a test waits for, shortUnit one of all of a unit, whose head is to come before.
const (
	short     = 100 * time.Millisecond
	shortUnit = 3 * time.Second
)

// An agent that does not give what it is asked for costs a bounded time and one GET, never an error, and is left out
// where it would cost that again.
func TestZone_BadOwner(t *testing.T) {
	made := cachetest.NewBundle(1)
	made.Add(cachetest.Batch(make([]byte, 50_000), 0))
	object := made.Bytes()
	send := func(parts ...[]byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for _, p := range parts {
				_, _ = w.Write(p)
			}
		}
	}
	good := head{size: int64(len(object))}.encode()
	damaged := append([]byte{}, object...)
	damaged[len(damaged)-1] ^= 1
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		reason  string
		stays   bool          // goes on being asked
		hangs   func(*Config) // has the time-out that ends the wait for it
	}{
		"accepts and never answers": {
			handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			reason:  askedSilent, hangs: func(c *Config) { c.SilenceTimeout = short },
		},
		"answers and then hangs": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			},
			reason: askedSlow, stays: true, hangs: func(c *Config) { c.UnitTimeout = short },
		},
		"stalls in a unit": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				send(good, encodeStretch(0, uint32(len(object))), object[:1000])(w, nil)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			},
			reason: askedBroken, hangs: func(c *Config) { c.StallTimeout = short },
		},
		"stalls before the end of its answer": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				send(head{result: resultFailed}.encode())(w, nil)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			},
			reason: askedBroken, hangs: func(c *Config) { c.StallTimeout = short },
		},
		"sends a unit drop by drop": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				send(good, encodeStretch(0, uint32(len(object))))(w, nil)
				for i := 0; i < len(object) && r.Context().Err() == nil; i++ {
					_, _ = w.Write(object[i : i+1])
					_ = http.NewResponseController(w).Flush()
					time.Sleep(10 * time.Millisecond) // sleeps: drops take time
				}
			},
			reason: askedBroken, hangs: func(c *Config) { c.UnitTimeout = shortUnit },
		},
		"cut off in a unit": {
			handler: send(good, encodeStretch(0, uint32(len(object))), object[:1000]), reason: askedBroken,
		},
		"sends nothing": {handler: send(), reason: askedBroken},
		"sends more than it said": {
			handler: send(good, encodeStretch(0, uint32(len(object)+1)), object, object), reason: askedBroken,
		},
		"sends a unit that is too large": {
			handler: send(head{size: cache.WholeUnit + 1}.encode()), reason: askedBroken,
		},
		"sends stretches in disorder": {
			handler: send(good, encodeStretch(100, 100), object[100:200], encodeStretch(0, 100), object[:100]), reason: askedBroken,
		},
		"sends damaged bytes": {
			handler: send(good, encodeStretch(0, uint32(len(object))), damaged), reason: unfitCorrupt, stays: true,
		},
		"sends an object that ends early": {
			handler: send(head{size: 100}.encode(), encodeStretch(0, 100), object[:100]), reason: unfitIncomplete, stays: true,
		},
		"finds no object": {handler: send(head{result: resultGone}.encode()), reason: askedFailed, stays: true},
		"cannot read it":  {handler: send(head{result: resultFailed}.encode()), reason: askedFailed, stays: true},
		"answers with a result of a later build": {
			handler: send(head{result: math.MaxUint8}.encode()), reason: askedFailed, stays: true,
		},
		"has other ideas": {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, reason: askedRefused},
		"points elsewhere": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
			},
			reason: askedRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, asks: func(c *Config) {
				if unforgiving(c); tt.hangs != nil {
					tt.hangs(c)
				}
			}}
			bad, reader := c.start(testZone), c.start(testZone)
			other := httptest.NewServer(tt.handler)
			defer other.Close()
			defer other.CloseClientConnections()
			bad.address = strings.TrimPrefix(other.URL, "http://")
			c.tell()
			b := c.owned(bad, reader, written(900, 1))
			made.ID = b
			made.Store(t, c.bucket)
			e := made.Extent(100, made.Batches[0])
			began := time.Now()
			c.read(reader, made, &e)
			t.Logf("read in %v", time.Since(began))
			require.Equal(t, 1, reader.metric(t, "freshet_peer_fallbacks_total", tt.reason))
			require.Equal(t, int32(1), c.bucket.gets.Load())
			require.Equal(t, map[bool]int{true: 0, false: 1}[tt.stays], reader.metric(t, "freshet_peer_left_out"))
			if !tt.stays {
				require.Equal(t, reader.session, reader.asks.owner(reader.asks.current(), b, cache.Unit{}), "its share falls to others")
			}
		})
	}
}

func TestZone_Unreachable(t *testing.T) {
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, asks: unforgiving}
	dead, reader := c.start(testZone), c.start(testZone)
	made, extents := c.bundle(c.owned(dead, reader, written(900, 1)), 1, 100)
	dead.kill()
	c.read(reader, made, &extents[0])
	require.Equal(t, 1, reader.metric(t, "freshet_peer_fallbacks_total", askedUnreachable))
	require.Equal(t, 1, reader.metric(t, "freshet_peer_left_out"))
}

// An agent that was left out for long enough is asked again by one request, and by all when that was answered.
func TestZone_Forgives(t *testing.T) {
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, asks: unforgiving}
	dead, reader := c.start(testZone), c.start(testZone)
	first := c.owned(dead, reader, written(900, 1))
	second := c.owned(dead, reader, first+1)
	dead.kill()
	made, extents := c.bundle(first, 1, 100)
	c.read(reader, made, &extents[0])
	require.Equal(t, 1, reader.metric(t, "freshet_peer_left_out"))
	c.serve(dead)
	c.tell()
	forgive := func() {
		reader.asks.mu.Lock()
		defer reader.asks.mu.Unlock()
		reader.asks.mu.out[dead.session] = time.Now()
	}
	owner := func() id.Session { return reader.asks.toAsk(reader.asks.current(), second, cache.Unit{}) }
	require.Equal(t, reader.session, owner())
	forgive()
	c.owned(reader, reader, second+1)
	require.Equal(t, dead.session, owner(), "one request tries, not one for what is another's")
	require.Equal(t, reader.session, owner(), "the next one goes on without it")
	forgive()
	made, extents = c.bundle(second, 1, 100)
	c.read(reader, made, &extents[0])
	reader.await(t, 1, "freshet_peer_requests_total", askedOK)
	require.Zero(t, reader.metric(t, "freshet_peer_left_out"))
	require.Equal(t, dead.session, owner())
	require.Equal(t, dead.session, owner())
}

// While an agent does not answer, all others ask the same one in its place: one GET for the zone, as before.
func TestZone_OneReadsInPlaceOfAnother(t *testing.T) {
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, asks: unforgiving}
	dead := c.start(testZone)
	readers := []*agent{c.start(testZone), c.start(testZone), c.start(testZone), c.start(testZone)}
	made, extents := c.bundle(c.owned(dead, readers[0], written(900, 1)), 1, 100)
	dead.kill()
	for _, r := range readers {
		c.read(r, made, &extents[0])
	}
	require.Equal(t, int32(1), c.bucket.gets.Load())
}

func TestServer_Refusals(t *testing.T) {
	c := newCluster(t, 1)
	a := c.agents[0]
	made, _ := c.bundle(written(900, 1), 1, 100)
	path := bundlePath + made.ID.String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for name, tt := range map[string]struct {
		change func(*http.Request)
		query  string
		body   string
		status int
	}{
		"right":            {status: http.StatusOK},
		"no secret":        {change: func(r *http.Request) { r.Header.Del("Authorization") }, status: http.StatusUnauthorized},
		"wrong secret":     {change: func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") }, status: http.StatusUnauthorized},
		"other zone":       {change: func(r *http.Request) { r.Header.Set(zoneHeader, "zone-b") }, status: http.StatusMisdirectedRequest},
		"other cluster":    {change: func(r *http.Request) { r.Header.Set(clusterHeader, "x") }, status: http.StatusMisdirectedRequest},
		"no agent":         {change: func(r *http.Request) { r.Header.Del(agentHeader) }, status: http.StatusBadRequest},
		"a body":           {body: "x", status: http.StatusRequestEntityTooLarge},
		"too many units":   {query: strings.Repeat("&unit=0", maxUnits), status: http.StatusBadRequest},
		"unaligned unit":   {query: "&unit=5", status: http.StatusBadRequest},
		"oversized":        {query: strings.Repeat("x", 2*maxHeaderBytes), status: http.StatusRequestHeaderFieldsTooLarge},
		"other method":     {change: func(r *http.Request) { r.Method = http.MethodPut }, status: http.StatusMethodNotAllowed},
		"other path":       {change: func(r *http.Request) { r.URL.Path = "/" }, status: http.StatusNotFound},
		"bundle no number": {change: func(r *http.Request) { r.URL.Path = bundlePath + "1/x" }, status: http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://"+a.address+path+"?unit=whole&read=true&class=live"+tt.query, strings.NewReader(tt.body))
			require.NoError(t, err)
			for k, v := range map[string]string{
				"Authorization": "Bearer " + testSecret, clusterHeader: testCluster, zoneHeader: testZone, agentHeader: "5",
			} {
				r.Header.Set(k, v)
			}
			if tt.change != nil {
				tt.change(r)
			}
			response, err := client.Do(r)
			if tt.status == http.StatusRequestHeaderFieldsTooLarge && err != nil {
				return // the connection was closed with bytes unread
			}
			require.NoError(t, err)
			defer response.Body.Close()
			require.Equal(t, tt.status, response.StatusCode)
			body, err := io.ReadAll(io.LimitReader(response.Body, 100))
			if tt.status != http.StatusRequestHeaderFieldsTooLarge {
				require.NoError(t, err)
			}
			require.Equal(t, tt.status == http.StatusOK, len(body) == 100)
		})
	}
	require.Equal(t, 2, a.metric(t, "freshet_peer_served_total", servedUnauthorized))
	require.Equal(t, 2, a.metric(t, "freshet_peer_served_total", servedMisdirected))
	a.await(t, 1, "freshet_peer_served_total", servedOK)
}

// TestZone_WrongSecret: an asker with the secret of another cluster reads the object store.
func TestZone_WrongSecret(t *testing.T) {
	c := newCluster(t, 1)
	reader := c.start(testZone)
	reader.secret.Set("") // ends the cluster's
	reader.secret.Set("another cluster's secret")
	made, extents := c.bundle(c.owned(c.agents[0], reader, written(900, 1)), 1, 100)
	c.read(reader, made, &extents[0])
	require.Equal(t, 1, c.agents[0].metric(t, "freshet_peer_served_total", servedUnauthorized))
	require.Equal(t, 1, reader.metric(t, "freshet_peer_fallbacks_total", askedRefused))
	require.Zero(t, c.agents[0].metric(t, "freshet_cache_gets_total"))
}

// TestServer_ClosesUnauthorizedConnections: a caller without the secret does not keep one of the connections for agents.
func TestServer_ClosesUnauthorizedConnections(t *testing.T) {
	a := newCluster(t, 1).agents[0]
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, path := range []string{bundlePath + "1/1?unit=whole&read=true&class=live", streamPath} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.address+path, http.NoBody)
		require.NoError(t, err)
		response, err := client.Do(r)
		require.NoError(t, err)
		_ = response.Body.Close()
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
		require.True(t, response.Close, path)
	}
}

// TestServer_EndsAnAnswerTakenDropByDrop: an asker that takes each write in time, and yet nearly nothing, does not hold the
// unsent bytes for longer than a unit may take.
func TestServer_EndsAnAnswerTakenDropByDrop(t *testing.T) {
	const size = 8 << 20
	synctest.Test(t, func(t *testing.T) {
		bucket := newBucket()
		units, err := cache.New(cache.Config{Bucket: bucket, Key: cachetest.Key})
		require.NoError(t, err)
		defer units.Close()
		var secret Secret
		s, err := NewServer(ServerConfig{
			Secret: &secret, Zone: testZone, Cluster: func() string { return testCluster }, WriteTimeout: time.Second, Units: units,
		})
		require.NoError(t, err)
		made := cachetest.NewBundle(written(900, 1))
		made.Add(cachetest.Batch(make([]byte, size), 0))
		made.Store(t, bucket)
		o := &cache.Order{Ask: cache.Ask{Bundle: made.ID, Units: []cache.Unit{{}}}, Read: true}
		began := time.Now()
		w := &dripping{header: http.Header{}, each: 900 * time.Millisecond}
		require.ErrorIs(t, s.answer(t.Context(), w, o), os.ErrDeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), 2*time.Second+(size/leastRate+1)*time.Second)
		require.True(t, s.unsent.of(cache.Live).TryAcquire(s.cfg.UnsentBytes), "all unsent bytes are free")
	})
}

// dripping is the connection of an asker that takes its time for each write.
type dripping struct {
	header   http.Header
	each     time.Duration
	deadline time.Time
}

func (d *dripping) Header() http.Header { return d.header }

func (d *dripping) WriteHeader(int) {}

func (d *dripping) Flush() {}

func (d *dripping) SetWriteDeadline(t time.Time) error {
	d.deadline = t
	return nil
}

func (d *dripping) Write(p []byte) (int, error) {
	if left := time.Until(d.deadline); left < d.each {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(d.each)
	return len(p), nil
}

// TestServer_Busy: a request beyond the bound is refused, and its unit is read from the object store.
func TestServer_Busy(t *testing.T) {
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, server: func(cfg *ServerConfig) { cfg.Requests = 1 }}
	owner, reader, other := c.start(testZone), c.start(testZone), c.start(testZone)
	held, release := make(chan struct{}, 1), make(chan struct{})
	first := c.owned(owner, reader, written(900, 1))
	c.bucket.hold = func(context.Context) error {
		select {
		case held <- struct{}{}:
			<-release
		default: // only the first one
		}
		return nil
	}
	made, extents := c.bundle(first, 1, 100)
	var all sync.WaitGroup
	all.Go(func() { c.read(reader, made, &extents[0]) })
	<-held
	made2, extents2 := c.bundle(c.owned(owner, other, first+1), 1, 100)
	held <- struct{}{}
	c.read(other, made2, &extents2[0])
	require.Equal(t, 1, other.metric(t, "freshet_peer_fallbacks_total", askedBusy))
	require.Zero(t, other.metric(t, "freshet_peer_left_out"))
	close(release)
	all.Wait()
	require.Zero(t, reader.metric(t, "freshet_peer_fallbacks_total"))
}

// A server that is to stop finishes what it has begun, and refuses what comes then.
func TestServer_Drains(t *testing.T) {
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, server: func(cfg *ServerConfig) { cfg.StopTimeout = time.Minute }}
	owner, reader := c.start(testZone), c.start(testZone)
	held, release := make(chan struct{}), make(chan struct{})
	c.bucket.hold = func(context.Context) error { close(held); <-release; return nil }
	made, extents := c.bundle(c.owned(owner, reader, written(900, 1)), 1, 100_000)
	var all sync.WaitGroup
	all.Go(func() { c.read(reader, made, &extents[0]) })
	<-held
	c.bucket.hold = nil
	all.Go(owner.stop)
	require.Eventually(t, owner.server.draining.Load, time.Minute, time.Millisecond)
	made2, extents2 := c.bundle(c.owned(owner, reader, made.ID+1), 1, 100)
	c.read(reader, made2, &extents2[0]) // refused, or no connection any more
	fallbacks := reader.metric(t, "freshet_peer_fallbacks_total")
	require.Equal(t, 1, fallbacks)
	close(release)
	all.Wait()
	reader.await(t, 1, "freshet_peer_requests_total", askedOK)
	require.Equal(t, 1, reader.metric(t, "freshet_peer_fallbacks_total"))
}

// The object is gone: the asker hears so from the object store itself.
func TestZone_Gone(t *testing.T) {
	c := newCluster(t, 2)
	reader := c.agents[1]
	made, extents := c.bundle(c.owned(c.agents[0], reader, written(900, 1)), 1, 100)
	require.NoError(t, c.bucket.Delete(t.Context(), []string{cachetest.Key(made.ID)}))
	_, err := reader.cache.Read(t.Context(), &extents[0], cache.Live)
	require.ErrorIs(t, err, cache.ErrGone)
	require.Equal(t, int32(2), c.bucket.gets.Load())
}

// An owner that cannot keep the unit reads it again for the next one who asks.
func TestZone_OwnerEvicted(t *testing.T) {
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, cache: func(cfg *cache.Config) {
		cfg.Live.Bytes = 1 << 20
	}}
	owner, reader, late := c.start(testZone), c.start(testZone), c.start(testZone)
	made, extents := c.bundle(c.owned(owner, reader, written(900, 1)), 1, 100_000)
	c.read(reader, made, &extents[0])
	for b, n := made.ID+1, 0; n < 20; n++ {
		b = c.owned(owner, reader, b+1)
		m, e := c.bundle(b, 1, 200_000)
		c.read(owner, m, &e[0])
	}
	before := c.bucket.gets.Load()
	c.read(late, made, &extents[0])
	require.Equal(t, before+1, c.bucket.gets.Load())
	require.Zero(t, late.metric(t, "freshet_peer_fallbacks_total"))
}

// With TLS both sides show certificates; who shows none is not even heard.
func TestZone_TLS(t *testing.T) {
	made := testservers.NewTLSFiles(t)
	files := tlsfiles.Files{CA: made.CA, Cert: made.Cert, Key: made.Key}
	server, err := files.Server(zap.NewNop())
	require.NoError(t, err)
	client, err := files.Client(false, zap.NewNop())
	require.NoError(t, err)
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1}
	c.server = func(cfg *ServerConfig) { cfg.TLS = server }
	c.asks = func(cfg *Config) { cfg.TLS, cfg.SilenceTimeout = client, time.Minute } // handshakes take long on a busy machine
	owner, reader := c.start(testZone), c.start(testZone)
	c.asks = func(cfg *Config) { cfg.TLS, _ = tlsfiles.Files{CA: made.CA}.Client(false, zap.NewNop()) }
	stranger := c.start(testZone)

	b := c.owned(owner, reader, written(900, 1))
	bundle, extents := c.bundle(b, 3, 100_000)
	c.read(reader, bundle, &extents[1])
	reader.await(t, 1, "freshet_peer_requests_total", askedOK)
	owner.await(t, 1, "freshet_cache_gets_total")
	c.read(stranger, bundle, &extents[1])
	require.Zero(t, stranger.metric(t, "freshet_peer_requests_total", askedOK))
	stranger.await(t, 1, "freshet_cache_gets_total")
	owner.await(t, 1, "freshet_peer_served_total")
}

// TLS on one side alone is named with its setting.
func TestZone_StreamWithTLSOnOneSide(t *testing.T) {
	made := testservers.NewTLSFiles(t)
	server, err := tlsfiles.Files{Cert: made.Cert, Key: made.Key}.Server(zap.NewNop())
	require.NoError(t, err)
	client, err := tlsfiles.Files{CA: made.CA}.Client(false, zap.NewNop())
	require.NoError(t, err)
	for _, c := range []struct {
		server, client *tls.Config
		says           string
	}{
		{server, nil, "that agent's peer port speaks TLS: give all agents of the zone --peer-tls-cert, or none"},
		{nil, client, "that agent's peer port does not speak TLS: give all agents of the zone --peer-tls-cert, or none"},
	} {
		z := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1}
		z.server = func(cfg *ServerConfig) { cfg.TLS = c.server }
		z.asks = func(cfg *Config) { cfg.TLS = c.client }
		asker, other := z.start(testZone), z.start(testZone)
		_, _, err := asker.asks.Stream(t.Context(), other.session, "p")
		require.ErrorIs(t, err, ErrNoStream)
		require.ErrorContains(t, err, c.says)
	}
}

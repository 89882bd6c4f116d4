package fetch

import (
	"context"
	"hash/crc32"
	"io"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
)

// getTime is how long GETs take. Those that take none are over before another reader joins them.
const getTime = time.Millisecond

// losing is an environment that counts GETs by key, and collects error lines.
type losing struct {
	*env
	logs     *observer.ObservedLogs
	registry *prometheus.Registry

	mu   sync.Mutex
	gets map[string]int
}

func newLosing(t *testing.T, views view.Config) *losing {
	t.Helper()
	core, logs := observer.New(zap.ErrorLevel)
	l := &losing{logs: logs, registry: prometheus.NewRegistry(), gets: make(map[string]int)}
	l.env = newEnvOver(t, Config{Log: zap.New(core), Registerer: l.registry}, views, cache.Config{}, 2000)
	l.t = t
	l.bucket.asked = func(key string, _, _ int64) {
		pass(getTime)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.gets[key]++
	}
	return l
}

func losingBubble(t *testing.T, f func(l *losing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newLosing(t, view.Config{})) })
}

// asked returns the GETs of a bundle.
func (l *losing) asked(b id.Bundle) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gets[cachetest.Key(b)]
}

func (l *losing) lookups() (n int) {
	l.owner.Count(func(o *viewtest.Owner) { n = o.Lookups })
	return n
}

// lost returns the gauge.
func (l *losing) lost() float64 {
	families, err := l.registry.Gather()
	require.NoError(l.t, err)
	for _, f := range families {
		if f.GetName() == "freshet_fetch_lost_extents" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// remove deletes a bundle's object. It returns a function that brings it back.
func (l *losing) remove(b id.Bundle) (restore func()) {
	l.t.Helper()
	r, err := l.bucket.Bucket.Get(l.t.Context(), cachetest.Key(b), 0, -1)
	require.NoError(l.t, err)
	raw, err := io.ReadAll(r)
	require.NoError(l.t, err)
	require.NoError(l.t, l.bucket.Delete(l.t.Context(), []string{cachetest.Key(b)}))
	return func() {
		if err := l.bucket.Put(context.Background(), cachetest.Key(b), objstore.Body{
			Buffers: [][]byte{raw}, Size: int64(len(raw)), CRC32C: crc32.Checksum(raw, objstore.Castagnoli),
		}); err != nil {
			l.t.Error(err)
		}
	}
}

// forget empties the cache.
func (l *losing) forget() {
	l.t.Helper()
	empty, err := cache.New(cache.Config{Bucket: l.bucket, Key: cachetest.Key})
	require.NoError(l.t, err)
	l.t.Cleanup(empty.Close)
	l.fetcher.cfg.Bytes = empty
}

// minute yields the fetches of a minute, and fails if they are more than one a second.
func (l *losing) minute() iter.Seq[int] {
	return func(yield func(int) bool) {
		until := time.Now().Add(time.Minute)
		for n := 0; time.Now().Before(until) && yield(n); n++ {
			require.Less(l.t, n, 60)
		}
	}
}

// shared produces one bundle with a batch for each of the partitions.
func (l *losing) shared(parts int32) id.Bundle {
	l.t.Helper()
	l.bundles++
	b := cachetest.NewBundle(id.Bundle(l.bundles))
	exts := make([]extent.Extent, parts)
	for p := range parts {
		exts[p] = b.Extent(0, b.Add(batch(10, 1)))
		exts[p].Last = 1
	}
	b.Store(l.t, l.bucket)
	for p := range parts {
		l.owner.Commit(tp(p), exts[p])
	}
	return b.ID
}

// A lost extent beside partitions with data: their records come at once, the partition's error at most once per max
// wait, and neither GETs nor look-ups grow with the fetches.
func TestLost_BesideFlowingRecords(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		l.produce(t, tp(0), batch(10, 1))
		l.remove(1)
		offset, errs := int64(0), 0
		var last time.Time                                // of an error
		const fetches, each = 600, 100 * time.Millisecond // a minute
		for range fetches {
			want := l.produce(t, tp(1), batch(10, 1))
			began := time.Now()
			resp := l.fetch(t, request(part(0, 0), part(1, offset)))
			require.Equal(t, want, records(&resp.Results[1]))
			require.LessOrEqual(t, time.Since(began), 4*getTime, "no wait for the lost one")
			offset++
			switch err := errOf(resp, 0); {
			case err != nil:
				require.ErrorIs(t, err, kerr.KafkaStorageError)
				require.GreaterOrEqual(t, time.Since(last), 500*time.Millisecond, "at most one within max wait")
				last = time.Now()
				errs++
			default:
				require.Positive(t, resp.Results[0].Marks.HighWatermark, "no end is claimed")
			}
			resp.Release()
			pass(each)
		}
		require.Greater(t, errs, fetches/10, "and not much less often")
		require.LessOrEqual(t, l.asked(1), 8, "two, and one every 10 s")
		require.LessOrEqual(t, l.lookups(), 12)
		require.Equal(t, 1, l.logs.Len())
		line := l.logs.All()[0]
		require.Contains(t, line.Message, "freshet bundle cut")
		require.Equal(t, cachetest.Key(1), line.ContextMap()["key"])
		require.Equal(t, id.Bundle(1).String(), line.ContextMap()["bundle"])
		require.EqualValues(t, 0, line.ContextMap()["offset"])
		require.EqualValues(t, 1, l.lost())
	})
}

// A fetch of nothing but lost extents waits until max wait, and so does a session's: its client does not come back at
// once.
func TestLost_AloneWaitsUntilMaxWait(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		l.produce(t, tp(0), batch(10, 1))
		l.remove(1)
		for range l.minute() {
			req := request(part(0, 0))
			req.MaxWait = time.Second
			resp := l.fetch(t, req)
			require.ErrorIs(t, errOf(resp, 0), kerr.KafkaStorageError)
			require.True(t, (&Tracked{}).Told(&resp.Results[0]), "sessions answer it")
			l.produce(t, tp(0), batch(10, 1)) // what follows is no reason to answer
		}
		require.LessOrEqual(t, l.asked(1), 8)
		require.LessOrEqual(t, l.lookups(), 12)
		require.Equal(t, 1, l.logs.Len())
	})
}

// Records before the lost extent are read as ever, and no GET of it is begun ahead of them.
func TestLost_RecordsBefore(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		want := l.produce(t, tp(0), batch(10, 1))
		l.produce(t, tp(0), batch(10, 1))
		l.remove(2)
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 1))), 0), kerr.KafkaStorageError)
		asked := l.asked(2)
		for range 5 {
			resp := l.fetch(t, request(part(0, 0)))
			require.Equal(t, want, records(&resp.Results[0]))
			synctest.Wait()
		}
		require.Equal(t, asked, l.asked(2))
	})
}

// A lost extent of a plan that ends far below the high watermark: the fetch neither looks up behind it nor answers early.
func TestLost_InHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLosing(t, view.Config{LookupExtents: 2})
		for range 20 {
			l.produce(t, tp(0), batch(10, 1))
		}
		l.remove(1)
		for range l.minute() {
			req := request(part(0, 0))
			req.MaxWait = time.Second
			require.ErrorIs(t, errOf(l.fetch(t, req), 0), kerr.KafkaStorageError)
		}
		require.LessOrEqual(t, l.asked(1), 16, "reading ahead asks too")
		require.LessOrEqual(t, l.lookups(), 30)
	})
}

// A stale window names a bundle that compaction replaced and whose object is deleted: whoever reads with it, at whatever
// isolation level, gets the records, and nothing counts as lost.
func TestLost_StaleWindowsNeverFail(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		const parts = 20
		old := l.shared(parts)
		warm := make([]Partition, parts)
		for p := range warm {
			warm[p] = part(int32(p), 1) // planned, not read
		}
		req := request(warm...)
		req.MaxWait = 0
		l.fetch(t, req)
		plans := make([]view.Plan, 1)
		for p := range int32(parts) {
			require.NoError(t, l.views.Plan(t.Context(), []view.Want{{Partition: tp(p)}}, plans))
		}
		for p := range int32(parts) {
			moved := cachetest.NewBundle(id.Bundle(100 + p))
			x := moved.Extent(0, moved.Add(cachetest.Patched(batch(10, 1), 0)))
			moved.Store(t, l.bucket)
			x.Kind = extent.Absolute
			l.owner.Replace(tp(p), x)
		}
		require.NoError(t, l.bucket.Delete(t.Context(), []string{cachetest.Key(old)}))
		var readers sync.WaitGroup
		for reader := range 8 {
			readers.Go(func() {
				for p := range int32(parts) {
					req := request(part(p, 0), part((p+7)%parts, 0))
					req.ReadCommitted = reader%2 == 0
					resp := l.fetcher.Fetch(t.Context(), req)
					if resp.Bytes == 0 || errOf(resp, 0) != nil || errOf(resp, 1) != nil {
						t.Errorf("partition %d: %d bytes, %v, %v", p, resp.Bytes, errOf(resp, 0), errOf(resp, 1))
					}
					resp.Release()
				}
			})
		}
		readers.Wait()
		require.Zero(t, l.lost())
		require.Zero(t, l.logs.Len())
	})
}

// An object that is brought back is read again within the time for which its loss stands.
func TestLost_ObjectComesBack(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		want := l.produce(t, tp(0), batch(10, 1))
		restore := l.remove(1)
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 0))), 0), kerr.KafkaStorageError)
		require.EqualValues(t, 1, l.lost())
		restore()
		pass(lostFor)
		resp := l.fetch(t, request(part(0, 0)))
		require.Equal(t, want, records(&resp.Results[0]))
		require.Zero(t, l.lost())

		// Also by a fetch that waits for longer than that.
		restore = l.remove(1)
		l.forget()
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 0))), 0), kerr.KafkaStorageError)
		began := time.Now()
		go func() { pass(time.Second); restore() }()
		req := request(part(0, 0))
		req.MaxWait = time.Hour
		require.Equal(t, want, records(&l.fetch(t, req).Results[0]))
		require.Less(t, time.Since(began), lostFor+time.Second)
		require.Equal(t, 1, l.logs.Len(), "reported at most hourly")
	})
}

// The metadata has other extents there, as after compaction or a cut: the reader goes on, without a further error.
func TestLost_OtherExtents(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		l.produce(t, tp(0), batch(10, 1))
		want := l.produce(t, tp(0), batch(10, 1))
		l.remove(1)
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 0))), 0), kerr.KafkaStorageError)
		l.owner.Change(tp(0), func(p *viewtest.Partition) { p.Extents = p.Extents[1:] })
		l.owner.Change(tp(0), func(p *viewtest.Partition) { p.LogStart = 1 })
		pass(lostFor)
		resp := l.fetch(t, request(part(0, 1)))
		require.Equal(t, want, records(&resp.Results[0]))
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 0))), 0), kerr.OffsetOutOfRange)

		// In the middle: an empty extent of another bundle in its place.
		l.produce(t, tp(1), batch(10, 1))
		behind := l.produce(t, tp(1), batch(10, 1))
		l.remove(3)
		require.ErrorIs(t, errOf(l.fetch(t, request(part(1, 0))), 0), kerr.KafkaStorageError)
		moved := cachetest.NewBundle(50)
		x := moved.Extent(0, moved.Add(cachetest.Patched(batch(20, 2), 0)))
		moved.Store(t, l.bucket)
		x.Kind = extent.Absolute
		var exts []extent.Extent
		l.owner.Change(tp(1), func(p *viewtest.Partition) { exts = append([]extent.Extent{x}, p.Extents[1:]...) })
		l.owner.Replace(tp(1), exts...)
		pass(lostFor)
		resp = l.fetch(t, request(part(1, 0)))
		require.NoError(t, errOf(resp, 0))
		require.NotZero(t, resp.Bytes)
		require.Equal(t, behind, records(&l.fetch(t, request(part(1, 1))).Results[0]))
		pass(2 * lostKept)
		require.Zero(t, l.lost())
	})
}

// The table holds maxLost entries at most. With more lost bundles than that, each is answered by an error still.
func TestLost_Bound(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		l.produce(t, tp(0), batch(10, 1))
		restore := l.remove(1)
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 0))), 0), kerr.KafkaStorageError)
		pass(time.Second)
		table := l.fetcher.lost
		for n := range 3 * maxLost {
			key := lostKey{tp(int32(n)), id.Bundle(1000 + n)}
			table.noteMissing(key, 0, &cache.GoneError{Bundle: key.bundle}, 0)
			table.noteMissing(key, table.planning(), &cache.GoneError{Bundle: key.bundle}, 0)
			table.errorDue(uint64(n), tp(0), time.Second)
			require.LessOrEqual(t, len(table.mu.bundles), maxLost)
			require.LessOrEqual(t, len(table.mu.invalidations), maxLost)
			require.LessOrEqual(t, len(table.mu.answered), maxLost)
			pass(time.Millisecond)
		}
		require.LessOrEqual(t, l.lost(), float64(maxLost))
		require.LessOrEqual(t, l.logs.Len(), 100, "lines are limited too")
		before := l.asked(1)
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 0))), 0), kerr.KafkaStorageError)
		require.LessOrEqual(t, l.asked(1)-before, maxGone, "forgotten, and found again")
		restore()
		pass(lostFor)
		require.NotZero(t, l.fetch(t, request(part(0, 0))).Bytes)

		pass(2 * time.Hour)
		require.Zero(t, l.lost(), "entries without readers go")
		require.Empty(t, table.mu.bundles)
		require.Empty(t, table.mu.invalidations)
		require.False(t, table.some.Load())
	})
}

// Readers of committed records: what is decided below the lost extent is read, and the lost extent fails.
func TestLost_ReadCommitted(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		want := l.produce(t, tp(0), batch(10, 1))
		l.produce(t, tp(0), batch(10, 1))
		l.open(t, tp(0), 2, batch(10, 1))
		l.remove(2)
		for range l.minute() {
			req := committed(part(0, 1))
			req.MaxWait = time.Second
			require.ErrorIs(t, errOf(l.fetch(t, req), 0), kerr.KafkaStorageError)
		}
		require.LessOrEqual(t, l.asked(2), 8)
		require.LessOrEqual(t, l.lookups(), 12)
		require.Equal(t, want, records(&l.fetch(t, committed(part(0, 0))).Results[0]))
		req := committed(part(0, 2))
		resp := l.fetch(t, req)
		require.NoError(t, errOf(resp, 0), "at the last stable offset, which is behind the lost extent")
		require.Zero(t, resp.Bytes)
	})
}

// A marker's producer id is no bundle.
func TestLost_MarkersAreNoBundles(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		l.produce(t, tp(0), batch(10, 1))
		l.remove(1)
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 0))), 0), kerr.KafkaStorageError)
		l.end(tp(0), 2, extent.EndMarker{ProducerID: 1, Commit: true})
		require.NotZero(t, l.fetch(t, request(part(0, 1))).Bytes)
	})
}

// A lost bundle of a thousand partitions takes no more GETs than that of one, and look-ups for all together.
func TestLost_ManyPartitionsOfOneBundle(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		const parts = 1000
		b := l.shared(parts)
		l.remove(b)
		list := make([]Partition, parts)
		for p := range list {
			list[p] = part(int32(p), 0)
		}
		for range l.minute() {
			req := request(list...)
			req.MaxWait = time.Second
			resp := l.fetch(t, req)
			for i := range resp.Results {
				require.ErrorIs(t, errOf(resp, i), kerr.KafkaStorageError)
			}
		}
		require.LessOrEqual(t, l.asked(b), 8)
		require.LessOrEqual(t, l.lookups(), 20)
		require.Equal(t, 1, l.logs.Len(), "one line for the bundle")
		require.EqualValues(t, parts, l.lost())
	})
}

// A search by time that meets a lost extent takes one look-up and no GET while the loss is known, else one GET.
func TestLost_Offsets(t *testing.T) {
	for _, c := range []struct {
		name string
		ts   int64
	}{{"by time", 1}, {"largest", TimestampMax}} {
		t.Run(c.name, func(t *testing.T) {
			losingBubble(t, func(l *losing) {
				t := l.t
				l.produce(t, tp(0), batch(10, 1))
				restore := l.remove(1)
				o, err := NewOffsets(OffsetsConfig{Source: l.stream, Bytes: l.cache, Fetcher: l.fetcher})
				require.NoError(t, err)
				list := func() OffsetResult {
					return o.List(t.Context(), []OffsetWant{{tp(0), c.ts}}, false)[0]
				}
				require.Equal(t, kerr.KafkaStorageError, list().Err)
				gets, lookups := l.asked(1), l.lookups()
				const requests = 120
				for range requests {
					pass(500 * time.Millisecond)
					require.Equal(t, kerr.KafkaStorageError, list().Err)
				}
				require.LessOrEqual(t, l.asked(1)-gets, 7)
				require.Equal(t, requests, l.lookups()-lookups)
				require.Equal(t, 1, l.logs.Len())
				restore()
				pass(lostFor)
				require.Equal(t, OffsetResult{Timestamp: 1}, list())
			})
		})
	}
}

// While the owner is away, a bundle that another partition lost hides no records that this one has before it.
func TestLost_OwnerAway(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		want := l.produce(t, tp(0), batch(10, 1))
		b := l.shared(2)
		l.fetch(t, request(part(0, 0)))
		l.remove(b)
		l.forget()
		require.ErrorIs(t, errOf(l.fetch(t, request(part(1, 0))), 0), kerr.KafkaStorageError)
		l.stream.Cut()
		synctest.Wait()
		resp := l.fetch(t, request(part(0, 0)))
		require.Equal(t, want, records(&resp.Results[0]))
	})
}

// When no probe comes back, a look-up settles ends. It leaves lost extents alone.
func TestLost_NoStampsButLookups(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		l.produce(t, tp(0), batch(10, 1))
		l.remove(1)
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 0), part(1, 0))), 0), kerr.KafkaStorageError)
		l.fetcher.cfg.Views = deaf{l.views, l.owner}
		l.hold()
		resp := l.fetch(t, request(part(0, 0), part(1, 0)))
		require.ErrorIs(t, errOf(resp, 0), kerr.KafkaStorageError)
		require.True(t, resp.Results[1].Confirmed)
		l.stream.Resume()
	})
}

// A fetch waits for as long as it may, however often it asks for a lost object meanwhile.
func TestLost_LongWait(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		l.produce(t, tp(0), batch(10, 1))
		l.remove(1)
		began := time.Now()
		req := request(part(0, 0))
		req.MaxWait = time.Minute
		require.ErrorIs(t, errOf(l.fetch(t, req), 0), kerr.KafkaStorageError)
		require.GreaterOrEqual(t, time.Since(began), time.Minute)
		require.LessOrEqual(t, l.asked(1), 8)
	})
}

// A partition whose extents were replaced is looked up again, though readers of another one keep finding the bundle gone.
func TestLost_OtherExtentsOfOnePartition(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		b := l.shared(2)
		l.remove(b)
		fetch := func(p int32) *Response {
			req := request(part(p, 0))
			req.MaxWait = 0
			return l.fetch(t, req)
		}
		require.ErrorIs(t, errOf(fetch(0), 0), kerr.KafkaStorageError)
		require.ErrorIs(t, errOf(fetch(1), 0), kerr.KafkaStorageError)
		moved := cachetest.NewBundle(50)
		x := moved.Extent(0, moved.Add(cachetest.Patched(batch(20, 2), 0)))
		moved.Store(t, l.bucket)
		x.Kind = extent.Absolute
		l.owner.Replace(tp(1), x)
		for n := 0; ; n++ {
			require.ErrorIs(t, errOf(fetch(0), 0), kerr.KafkaStorageError) // it is the one that asks for the object
			if fetch(1).Bytes > 0 {
				break
			}
			require.Less(t, time.Duration(n)*time.Second, lostFor)
			pass(time.Second)
		}
	})
}

// Look-ups behind the end of short plans: none goes on behind a lost extent, and none brings one that is then asked for.
func TestLost_BehindShortPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLosing(t, view.Config{LookupExtents: 2, Subscriptions: 1})
		for range 12 {
			l.produce(t, tp(0), batch(10, 1))
		}
		for range 40 {
			l.produce(t, tp(1), batch(10, 1))
		}
		l.remove(3)  // of partition 0, behind its first look-up
		l.remove(13) // the first of partition 1
		for range 5 {
			require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 2))), 0), kerr.KafkaStorageError)
			require.ErrorIs(t, errOf(l.fetch(t, request(part(1, 0))), 0), kerr.KafkaStorageError)
		}
		asked, lookups := l.asked(3)+l.asked(13), l.lookups()
		for range 5 {
			req := request(part(0, 0), part(1, 0))
			req.MinBytes, req.Partitions[0].MaxBytes = 32<<20, 32<<20 // so much is worth reading ahead
			resp := l.fetch(t, req)
			require.NotZero(t, resp.Results[0].Size)
			synctest.Wait()
		}
		require.Equal(t, asked, l.asked(3)+l.asked(13))
		require.LessOrEqual(t, l.lookups()-lookups, 5*2+1, "plans of the partition without a window, and one to go on")
	})
}

func TestLost_Draining(t *testing.T) {
	losingBubble(t, func(l *losing) {
		t := l.t
		l.produce(t, tp(0), batch(10, 1))
		l.remove(1)
		require.ErrorIs(t, errOf(l.fetch(t, request(part(0, 0))), 0), kerr.KafkaStorageError)
		done := make(chan *Response)
		go func() {
			req := request(part(0, 0))
			req.MaxWait = time.Hour
			done <- l.fetcher.Fetch(context.Background(), req)
		}()
		synctest.Wait()
		l.fetcher.Drain()
		(<-done).Release()
	})
}

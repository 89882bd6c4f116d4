package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

var topicA = id.Topic{0xa}

func tp(n int32) id.TopicPartition { return id.TopicPartition{Topic: topicA, Partition: n} }

// faulty is a bucket whose GETs a test may change.
type faulty struct {
	objstore.Bucket
	gets  atomic.Int32
	asked func(key string, offset, length int64)
	get   func(key string, r io.ReadCloser) (io.ReadCloser, error)
}

func (b *faulty) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	b.gets.Add(1)
	if b.asked != nil {
		b.asked(key, offset, length)
	}
	r, err := b.Bucket.Get(ctx, key, offset, length)
	if b.get != nil && err == nil {
		return b.get(key, r)
	}
	return r, err
}

type env struct {
	t       *testing.T
	owner   *viewtest.Owner
	stream  *viewtest.Session
	views   *view.Partitions
	bucket  *faulty
	cache   *cache.Cache
	fetcher *Fetcher
	bundles uint64
}

type handler struct {
	*view.Catalogue
	*view.Partitions
}

type source struct{ *viewtest.Session }

func newEnv(tb testing.TB, cfg Config) *env {
	tb.Helper()
	return newEnvWith(tb, cfg, view.Config{})
}

func newEnvWith(tb testing.TB, cfg Config, views view.Config) *env {
	tb.Helper()
	return newEnvOver(tb, cfg, views, cache.Config{}, 8)
}

func newEnvOver(tb testing.TB, cfg Config, views view.Config, store cache.Config, partitions int32) *env {
	tb.Helper()
	e := &env{owner: viewtest.NewOwner(), bucket: &faulty{Bucket: mem.New()}}
	e.owner.CreateTopic(topicA, "a", partitions)
	src := &source{}
	var err error
	views.Source = src
	e.views, err = view.NewPartitions(views)
	require.NoError(tb, err)
	e.stream = e.owner.Open(handler{view.NewCatalogue(), e.views})
	src.Session = e.stream
	store.Bucket, store.Key = e.bucket, cachetest.Key
	e.cache, err = cache.New(store)
	require.NoError(tb, err)
	cfg.Views, cfg.Bytes = e.views, e.cache
	e.fetcher, err = New(cfg)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.stream.Run(ctx) })
	running.Go(func() { _ = e.views.Run(ctx) })
	tb.Cleanup(func() { cancel(); running.Wait(); e.cache.Close() })
	return e
}

// hold keeps the stream back from now on: requests arrive later than what was confirmed so far, also by the clock.
func (e *env) hold() {
	e.stream.Hold()
	pass(time.Millisecond)
}

// produce stores batches as one bundle and commits them, and gives them as readers must see them.
func (e *env) produce(tb testing.TB, p id.TopicPartition, raws ...[]byte) []byte {
	tb.Helper()
	e.bundles++
	b := cachetest.NewBundle(id.Bundle(e.bundles))
	var placed []cachetest.Placed
	for _, raw := range raws {
		placed = append(placed, b.Add(raw))
	}
	b.Store(tb, e.bucket)
	x := b.Extent(0, placed...)
	x.Last++ // number of records
	x = e.owner.Commit(p, x)[0]
	var out []byte
	for _, p := range placed {
		n := kafkaproto.RecordBatch(p.Raw).LastOffsetDelta()
		out = append(out, cachetest.Patched(p.Raw, x.Base)...)
		x.Base += int64(n) + 1
	}
	return out
}

func batch(size int, timestamps ...int64) []byte {
	return cachetest.Batch(bytes.Repeat([]byte("v"), size), timestamps...)
}

func request(parts ...Partition) *Request {
	return &Request{
		Arrived: time.Now(), MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 50 << 20, Partitions: parts,
	}
}

func part(n int32, offset int64) Partition {
	return Partition{ID: tp(n), Offset: offset, MaxBytes: 1 << 20}
}

func records(r *Result) []byte {
	if len(r.Records) == 1 {
		return r.Records[0]
	}
	return bytes.Join(r.Records, nil)
}

func (e *env) fetch(tb testing.TB, req *Request) *Response {
	tb.Helper()
	resp := e.fetcher.Fetch(tb.Context(), req)
	tb.Cleanup(resp.Release)
	return resp
}

// pass lets time go by in the bubble.
func pass(d time.Duration) { <-time.After(d) }

// bubble runs f over an environment in which time is not real; e.t is the bubble's.
func bubble(t *testing.T, cfg Config, f func(e *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, cfg)
		e.t = t
		f(e)
	})
}

func TestFetcher_ReadsFromTheBatchThatHoldsTheOffset(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		first := e.produce(t, tp(0), batch(10, 1, 2, 3), batch(10, 4, 5))
		second := e.produce(t, tp(0), batch(10, 6))
		resp := e.fetch(t, request(part(0, 0)))
		require.NoError(t, errOf(resp, 0))
		got := append(records(&resp.Results[0]), nil...)
		require.Equal(t, first, got[:len(first)])

		synctest.Wait() // the second bundle's read was begun, but not waited for
		resp = e.fetch(t, request(part(0, 4)))
		one := kafkaproto.RecordBatch(first).Length()
		require.Equal(t, append(bytes.Clone(first[one:]), second...), records(&resp.Results[0]))
		require.Equal(t, view.Watermarks{HighWatermark: 6, LastStable: 6}, resp.Results[0].Marks)
	})
}

func errOf(r *Response, i int) error {
	if r.Results[i].Err == nil {
		return nil
	}
	return r.Results[i].Err
}

func TestFetcher_Limits(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		giant := e.produce(t, tp(0), batch(5000, 1), batch(5000, 2))
		small := e.produce(t, tp(1), batch(100, 1), batch(100, 2), batch(100, 3))
		one := len(giant) / 2

		// The first batch is given however large it is, and the next partition has no room then.
		req := request(Partition{tp(0), 0, 1000, nil}, part(1, 0))
		req.MaxBytes = 2000
		resp := e.fetch(t, req)
		require.Equal(t, giant[:one], records(&resp.Results[0]))
		require.Zero(t, resp.Results[1].Size)

		// A later partition gets whole batches only, within its own bound.
		req = request(part(1, 0), Partition{tp(0), 0, 1000, nil})
		req.Partitions[0].MaxBytes = len(small) - 1
		resp = e.fetch(t, req)
		require.Equal(t, small[:len(small)/3*2], records(&resp.Results[0]))
		require.Zero(t, resp.Results[1].Size)
		require.Equal(t, int64(2), resp.Results[1].Marks.HighWatermark)
	})
}

func TestFetcher_UnderPressureOnlyTheFirstBatch(t *testing.T) {
	bubble(t, Config{Pressed: func() bool { return true }}, func(e *env) {
		t := e.t
		all := e.produce(t, tp(0), batch(100, 1), batch(100, 2))
		e.produce(t, tp(1), batch(100, 1))
		resp := e.fetch(t, request(part(0, 0), part(1, 0)))
		require.Equal(t, all[:len(all)/2], records(&resp.Results[0]))
		require.Zero(t, resp.Results[1].Size)
	})
}

func TestFetcher_LongPoll(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		began := time.Now()
		resp := e.fetch(t, request(part(0, 0)))
		require.NoError(t, errOf(resp, 0))
		require.Zero(t, resp.Bytes)
		require.Equal(t, 500*time.Millisecond, time.Since(began))

		done := make(chan *Response)
		go func() {
			req := request(part(0, 0), part(1, 0))
			req.MaxWait, req.MinBytes = time.Minute, 300
			done <- e.fetcher.Fetch(t.Context(), req)
		}()
		synctest.Wait()
		began = time.Now()
		e.produce(t, tp(0), batch(100, 1))
		pass(time.Second)
		select {
		case <-done:
			t.Fatal("answered below min bytes")
		default:
		}
		e.produce(t, tp(1), batch(100, 1))
		resp = <-done
		defer resp.Release()
		require.Equal(t, time.Second, time.Since(began))
		require.NotZero(t, resp.Results[0].Size)
		require.NotZero(t, resp.Results[1].Size)

		req := request(part(2, 0))
		req.MinBytes, req.MaxWait = 0, time.Hour
		e.fetch(t, req) // answers at once
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestFetcher_OffsetOutOfRange(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), batch(10, 1, 2, 3, 4))
		e.owner.Change(tp(0), func(p *viewtest.Partition) { p.LogStart = 2 })
		for offset, want := range map[int64]error{1: kerr.OffsetOutOfRange, 5: kerr.OffsetOutOfRange, 4: nil, 2: nil} {
			resp := e.fetch(t, request(part(0, offset)))
			require.Equal(t, want, errOf(resp, 0), "offset %d", offset)
			if want != nil {
				require.Equal(t, noMarks, resp.Results[0].Marks)
			}
		}
		require.Equal(t, kerr.UnknownTopicOrPartition, errOf(e.fetch(t, request(part(99, 0))), 0))
	})
}

// A commit made elsewhere, whose notice is held up on its way, must be seen by who asks after its ack (I4).
func TestFetcher_BlackHole(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.fetch(t, request(part(0, 0)))
		e.hold()
		e.produce(t, tp(0), batch(10, 1))
		req := request(part(0, 0))
		req.MaxWait = 0
		resp := e.fetch(t, req)
		require.Equal(t, kerr.NotLeaderForPartition, errOf(resp, 0), "never short")
		req = request(part(0, 1)) // beyond what this agent knows
		resp = e.fetch(t, req)
		require.Equal(t, kerr.NotLeaderForPartition, errOf(resp, 0), "never out of range")

		go func() {
			pass(300 * time.Millisecond)
			e.stream.Resume()
		}()
		resp = e.fetch(t, request(part(0, 0)))
		require.NotZero(t, resp.Results[0].Size)
	})
}

// Notices that never come, on a stream whose stamps do not either: a look-up by another way settles the answer.
func TestFetcher_NoStampsButLookups(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.fetch(t, request(part(0, 0), part(1, 0)))
		e.fetcher.cfg.Views = deaf{e.views, e.owner}
		e.hold()
		e.produce(t, tp(0), batch(10, 1))
		resp := e.fetch(t, request(part(0, 0), part(1, 0)))
		require.NoError(t, errOf(resp, 0))
		require.Equal(t, int64(1), resp.Results[0].Marks.HighWatermark, "not told as an end")
		require.True(t, resp.Results[1].Confirmed)
		e.stream.Resume()
		synctest.Wait()
		require.NotZero(t, e.fetch(t, request(part(0, 0))).Bytes)
	})
}

// deaf views get no stamps; look-ups go by a stream of their own.
type deaf struct {
	*view.Partitions
	owner *viewtest.Owner
}

func (deaf) Confirm(context.Context) error { return errors.New("no stamp") }

func (d deaf) PlanAnew(ctx context.Context, wants []view.Want, plans []view.Plan) error {
	for i, w := range wants {
		p, err := view.NewPartitions(view.Config{Source: d.owner.Direct()})
		if err != nil {
			return err
		}
		if err := p.PlanAnew(ctx, []view.Want{w}, plans[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

func TestFetcher_DisconnectInLongPoll(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		done := make(chan *Response)
		go func() {
			req := request(part(0, 0))
			req.MaxWait = time.Minute
			done <- e.fetcher.Fetch(t.Context(), req)
		}()
		synctest.Wait()
		e.stream.Break()
		synctest.Wait()
		want := e.produce(t, tp(0), batch(10, 1))
		resp := <-done
		defer resp.Release()
		require.Equal(t, want, records(&resp.Results[0]))
	})
}

func TestFetcher_EmptyBesideDataIsConfirmed(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.fetch(t, request(part(0, 0), part(1, 0)))
		e.produce(t, tp(0), batch(10, 1))
		synctest.Wait()
		pass(time.Minute / 2)
		resp := e.fetch(t, request(part(0, 0), part(1, 0)))
		require.NotZero(t, resp.Results[0].Size)
		require.True(t, resp.Results[1].Confirmed)

		e.hold()
		e.produce(t, tp(1), batch(10, 1))
		pass(time.Second)
		resp = e.fetch(t, request(part(0, 0), part(1, 0)))
		require.NotZero(t, resp.Results[0].Size, "what is known is served")
		require.Equal(t, kerr.NotLeaderForPartition, errOf(resp, 1))
		e.stream.Resume()
	})
}

func TestFetcher_GoneObject(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), batch(10, 1, 2))
		e.fetch(t, request(part(0, 2)))
		plain := make([]view.Plan, 1)
		require.NoError(t, e.views.Plan(t.Context(), []view.Want{{Partition: tp(0)}}, plain))
		// The batch moves to another object, of which nobody is told; the old one is deleted.
		moved := cachetest.NewBundle(77)
		p := moved.Add(cachetest.Patched(batch(10, 1, 2), 0))
		moved.Store(t, e.bucket)
		x := moved.Extent(0, p)
		x.Kind = extent.Absolute
		e.owner.Replace(tp(0), x)
		require.NoError(t, e.bucket.Delete(t.Context(), []string{cachetest.Key(1)}))
		resp := e.fetch(t, request(part(0, 0)))
		require.NoError(t, errOf(resp, 0))
		require.Equal(t, p.Raw, records(&resp.Results[0]))

		// Lost for good: an error after a bounded number of look-ups, not an endless wait.
		require.NoError(t, e.bucket.Delete(t.Context(), []string{cachetest.Key(77)}))
		e.produce(t, tp(1), batch(10, 1))
		require.NoError(t, e.bucket.Delete(t.Context(), []string{cachetest.Key(2)}))
		resp = e.fetch(t, request(part(1, 0)))
		require.Equal(t, kerr.KafkaStorageError, errOf(resp, 0))
	})
}

func TestFetcher_Corrupt(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), batch(100, 1))
		good := e.produce(t, tp(1), batch(100, 1))
		e.bucket.get = func(key string, r io.ReadCloser) (io.ReadCloser, error) {
			raw, err := io.ReadAll(r)
			if key == cachetest.Key(1) {
				raw = bytes.Clone(raw)
				raw[len(raw)-1] ^= 1
			}
			return io.NopCloser(bytes.NewReader(raw)), err
		}
		for range 2 {
			resp := e.fetch(t, request(part(0, 0), part(1, 0)))
			require.Equal(t, kerr.CorruptMessage, errOf(resp, 0))
			require.Equal(t, good, records(&resp.Results[1]))
		}
		e.bucket.get = nil
		require.NoError(t, errOf(e.fetch(t, request(part(0, 0))), 0))
	})
}

func TestFetcher_StoreAway(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), batch(100, 1))
		e.bucket.get = func(string, io.ReadCloser) (io.ReadCloser, error) { return nil, objstore.ErrThrottled }
		require.Equal(t, kerr.KafkaStorageError, errOf(e.fetch(t, request(part(0, 0))), 0))
	})
}

// A partition whose bytes are slow to come holds up nobody, and is waited for when it comes first.
func TestFetcher_ColdDoesNotHoldUpHot(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), batch(100, 1))
		e.fetch(t, request(part(0, 0)))
		cold := e.produce(t, tp(1), batch(100, 1))
		e.bucket.get = func(_ string, r io.ReadCloser) (io.ReadCloser, error) {
			pass(400 * time.Millisecond)
			return r, nil
		}
		began := time.Now()
		resp := e.fetch(t, request(part(0, 0), part(1, 0)))
		require.NotZero(t, resp.Results[0].Size)
		require.Zero(t, resp.Results[1].Size)
		require.NoError(t, errOf(resp, 1))
		require.Zero(t, time.Since(began))
		resp = e.fetch(t, request(part(1, 0), part(0, 0)))
		require.Equal(t, cold, records(&resp.Results[0]))
		require.Equal(t, int32(2), e.bucket.gets.Load(), "the read that was begun is used")
	})
}

// hanging makes GETs of the second bundle last for so long.
func (e *env) hanging(long time.Duration) {
	e.bucket.get = func(key string, r io.ReadCloser) (io.ReadCloser, error) {
		if key == cachetest.Key(2) {
			pass(long)
		}
		return r, nil
	}
}

// A GET that hangs holds records in memory up until max wait, whether its partition comes first or min bytes need it.
func TestFetcher_HangingGetKeepsMaxWait(t *testing.T) {
	for _, c := range []struct {
		name     string
		minBytes int
		parts    []Partition
	}{
		{"min bytes above what is in memory", 1500, []Partition{part(0, 0), part(1, 0)}},
		{"the hanging partition first", 1, []Partition{part(1, 0), part(0, 0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Config{}, func(e *env) {
				hot := e.produce(e.t, tp(0), batch(1000, 1))
				e.fetch(e.t, request(part(0, 0)))
				e.produce(e.t, tp(1), batch(1000, 1))
				e.hanging(10 * time.Second)
				for _, maxWait := range []time.Duration{500 * time.Millisecond, 0} {
					req := request(c.parts...)
					req.MinBytes, req.MaxWait = c.minBytes, maxWait
					began := time.Now()
					resp := e.fetch(e.t, req)
					require.Equal(e.t, len(hot), resp.Bytes)
					require.NoError(e.t, errOf(resp, 0))
					require.NoError(e.t, errOf(resp, 1))
					require.Equal(e.t, max(maxWait, fairWait), time.Since(began))
				}
				pass(10 * time.Second)
				resp := e.fetch(e.t, request(c.parts...))
				require.Equal(e.t, 2*len(hot), resp.Bytes)
				require.Equal(e.t, int32(2), e.bucket.gets.Load(), "the GET went on")
			})
		})
	}
}

// Where nothing is in memory, the first bytes to come are the answer, whichever partition they are of.
func TestFetcher_FirstOfSeveralHangingGets(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		hot := e.produce(e.t, tp(0), batch(1000, 1))
		e.produce(e.t, tp(1), batch(1000, 1))
		e.bucket.get = func(key string, r io.ReadCloser) (io.ReadCloser, error) {
			long := 2 * time.Second
			if key == cachetest.Key(2) {
				long = 15 * time.Second
			}
			pass(long)
			return r, nil
		}
		began := time.Now()
		resp := e.fetch(e.t, request(part(1, 0), part(0, 0)))
		require.Equal(e.t, len(hot), resp.Bytes)
		require.NoError(e.t, errOf(resp, 0))
		require.Less(e.t, time.Since(began), 2*time.Second+3*readTurn)
	})
}

// With nothing at all in memory the read time-out ends the wait, with an error for each partition.
func TestFetcher_HangingGetsEndWithReadTimeout(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		e.produce(e.t, tp(0), batch(1000, 1))
		e.produce(e.t, tp(1), batch(1000, 1))
		e.bucket.get = func(_ string, r io.ReadCloser) (io.ReadCloser, error) {
			pass(time.Minute)
			return r, nil
		}
		began := time.Now()
		resp := e.fetch(e.t, request(part(1, 0), part(0, 0)))
		require.Equal(e.t, kerr.KafkaStorageError, errOf(resp, 0))
		require.Equal(e.t, kerr.KafkaStorageError, errOf(resp, 1))
		require.Equal(e.t, e.fetcher.cfg.ReadTimeout, time.Since(began))
	})
}

func TestFetcher_CatchUpReadsAhead(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		var want []byte
		for range 200 {
			want = append(want, e.produce(t, tp(0), batch(1000, 1))...)
		}
		var got []byte
		for offset := int64(0); offset < 200; {
			req := request(part(0, offset))
			req.Partitions[0].MaxBytes = 5000
			resp := e.fetcher.Fetch(t.Context(), req)
			got = append(got, records(&resp.Results[0])...)
			for b, err := range kafkaproto.Batches(records(&resp.Results[0])) {
				require.NoError(t, err)
				offset = b.LastOffset() + 1
			}
			resp.Release()
		}
		require.Equal(t, want, got)
		require.Equal(t, int32(200), e.bucket.gets.Load(), "every bundle is read once")
	})
}

func TestFetcher_EmptyRanges(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		data := e.produce(t, tp(0), batch(10, 1))
		// Compaction took the last three records' batches.
		e.owner.Replace(tp(0), extent.Extent{Kind: extent.Absolute, Base: 0, Last: 3, Bundle: 1, Position: 24, Length: uint32(len(data)), Batches: 1})
		e.owner.Change(tp(0), func(p *viewtest.Partition) { p.HighWatermark, p.LastStable = 4, 4 })
		resp := e.fetch(t, request(part(0, 1)))
		require.Equal(t, kafkaproto.AppendEmptyBatches(nil, 1, 3), records(&resp.Results[0]))
		e.owner.Change(tp(0), func(p *viewtest.Partition) { p.LastStable = 3 })
		synctest.Wait()
		resp = e.fetch(t, committed(part(0, 1)))
		require.Equal(t, kafkaproto.AppendEmptyBatches(nil, 1, 2), records(&resp.Results[0]), "up to the last stable offset")
	})
}

// Compaction took the batches right below the last stable offset, and an open transaction goes on for longer than one part
// of the extent: committed readers still reach that offset.
func TestFetcher_EmptyRangeBelowAnOpenTransaction(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		b := cachetest.NewBundle(1)
		var placed []cachetest.Placed
		for i, base := range []int64{0, 4, 5} {
			placed = append(placed, b.Add(cachetest.Patched(batch(1000, int64(i)), base)))
		}
		b.Store(t, e.bucket)
		x := b.Extent(0, placed...)
		x.Kind, x.Last = extent.Absolute, 5
		e.owner.Write(tp(0), 4, nil, x)
		req := committed(part(0, 1))
		req.Partitions[0].MaxBytes = 1500
		resp := e.fetch(t, req)
		require.Equal(t, kafkaproto.AppendEmptyBatches(nil, 1, 3), records(&resp.Results[0]))
	})
}

func TestFetcher_ThousandParked(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				for range 4 {
					resp := e.fetcher.Fetch(t.Context(), request(part(int32(i%8), 0)))
					if resp.Bytes != 0 || errOf(resp, 0) != nil || !resp.Results[0].Confirmed {
						t.Errorf("unexpected answer %+v", resp.Results[0])
					}
				}
			})
		}
		wg.Wait()
		e.owner.Count(func(o *viewtest.Owner) {
			require.LessOrEqual(t, o.Lookups, 8)
			require.LessOrEqual(t, o.Probes, 30, "idle fetches share probes: ten a second")
		})
	})
}

func TestFetcher_Drain(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		done := make(chan *Response)
		go func() {
			req := request(part(0, 0))
			req.MaxWait = time.Minute
			done <- e.fetcher.Fetch(t.Context(), req)
		}()
		synctest.Wait()
		began := time.Now()
		e.fetcher.Drain()
		require.NoError(t, errOf(<-done, 0))
		require.Zero(t, time.Since(began))

		req := request(part(0, 0))
		req.MaxWait = time.Minute
		require.NoError(t, errOf(e.fetcher.Fetch(t.Context(), req), 0))
		require.Equal(t, drainWait, time.Since(began), "a fetch that comes while draining neither waits long nor spins")
	})
}

func TestFetcher_ConnectionGone(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan *Response)
		go func() {
			req := request(part(0, 0))
			req.MaxWait = time.Hour
			done <- e.fetcher.Fetch(ctx, req)
		}()
		synctest.Wait()
		cancel()
		began := time.Now()
		(<-done).Release()
		require.Less(t, time.Since(began), time.Second)
	})
}

func BenchmarkFetcher_Hit(b *testing.B) {
	e := newEnv(b, Config{})
	req := request()
	for i := range int32(8) {
		e.produce(b, tp(i), batch(100_000, 1))
		req.Partitions = append(req.Partitions, part(i, 0))
	}
	e.fetcher.Fetch(b.Context(), req).Release()
	b.ReportAllocs()
	for b.Loop() {
		resp := e.fetcher.Fetch(b.Context(), req)
		if resp.Bytes == 0 {
			b.Fatal("empty")
		}
		resp.Release()
	}
}

// A partition that is refused does not keep the others from waiting, so that its client does not ask without pause.
func TestFetcher_WaitsBesideRefused(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		began := time.Now()
		refused := Partition{Refused: kerr.UnknownTopicID}
		resp := e.fetch(t, request(refused, part(0, 0)))
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		require.ErrorIs(t, errOf(resp, 0), kerr.UnknownTopicID)
		require.NoError(t, errOf(resp, 1))
		e.fetch(t, request(refused))
		require.Equal(t, 500*time.Millisecond, time.Since(began), "nothing to wait for")
	})
}

// Clients that do not take their answers: those shrink to copied first batches, which pin no bundle, and then
// fetches wait, and are refused in the end.
func TestFetcher_UnsentAnswersAreBounded(t *testing.T) {
	bubble(t, Config{UnsentBytes: 10_000}, func(e *env) {
		t := e.t
		all := e.produce(t, tp(0), batch(4000, 1), batch(4000, 2), batch(4000, 3))
		one := len(all) / 3
		e.fetch(t, request(part(0, 0))).Release()
		var held []*Response
		fetch := func() *Response {
			held = append(held, e.fetcher.Fetch(t.Context(), request(part(0, 0))))
			return held[len(held)-1]
		}
		require.Equal(t, len(all), fetch().Bytes)
		require.EqualValues(t, len(all), e.fetcher.unsent.held.Load())
		for range 2 {
			small := fetch()
			require.Equal(t, all[:one], records(&small.Results[0]), "the first batch")
			require.Empty(t, small.held, "copied")
		}
		began := time.Now()
		require.ErrorIs(t, errOf(fetch(), 0), kerr.NotLeaderForPartition)
		require.Equal(t, e.fetcher.cfg.ReadTimeout, time.Since(began))

		first := held[0]
		go func() { pass(1010 * time.Millisecond); first.Release() }()
		began = time.Now()
		require.Positive(t, fetch().Bytes, "once there is room")
		require.Equal(t, 1010*time.Millisecond, time.Since(began), "the release wakes the fetch")
		for _, r := range held[1:] {
			r.Release()
		}
		require.Zero(t, e.fetcher.unsent.held.Load())
	})
}

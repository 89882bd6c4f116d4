package fetch

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// committed is a request at isolation level read_committed.
func committed(parts ...Partition) *Request {
	r := request(parts...)
	r.ReadCommitted = true
	return r
}

// open produces batches into a transaction that stays open: they are below the high watermark, not below the last
// stable offset.
func (e *env) open(tb testing.TB, p id.TopicPartition, stable int64, raws ...[]byte) []byte {
	tb.Helper()
	e.bundles++
	b := cachetest.NewBundle(id.Bundle(e.bundles))
	var placed []cachetest.Placed
	for _, raw := range raws {
		placed = append(placed, b.Add(raw))
	}
	b.Store(tb, e.bucket)
	var high int64
	e.owner.Change(p, func(p *viewtest.Partition) { high = p.HighWatermark })
	e.owner.Write(p, stable, nil, b.Extent(high, placed...))
	var out []byte
	for _, raw := range raws {
		out = append(out, cachetest.Patched(raw, high)...)
		high += int64(kafkaproto.RecordBatch(raw).LastOffsetDelta()) + 1
	}
	return out
}

// end writes a marker at the high watermark, and gives it as readers must see it.
func (e *env) end(p id.TopicPartition, stable int64, m extent.EndMarker, aborted ...extent.Aborted) []byte {
	var high int64
	e.owner.Change(p, func(p *viewtest.Partition) { high = p.HighWatermark })
	e.owner.Write(p, stable, aborted, extent.NewMarker(high, 1000+high, m))
	end := kafkaproto.Abort
	if m.Commit {
		end = kafkaproto.Commit
	}
	return kafkaproto.AppendControlBatch(nil, high, 1000+high, m.ProducerID, m.Epoch, end, m.CoordinatorEpoch)
}

// ended is a partition with an aborted transaction of producer 7, a committed one of 8, and an open one of 9:
//
//	0    7
//	1    8
//	2    abort of 7
//	3    commit of 8
//	4    9
//	5    plain
func ended(t *testing.T, e *env) (batches [][]byte, aborted extent.Aborted) {
	t.Helper()
	aborted = extent.Aborted{ProducerID: 7, First: 0, Last: 2}
	return [][]byte{
		e.open(t, tp(0), 0, batch(10, 1)), e.open(t, tp(0), 0, batch(11, 2)),
		e.end(tp(0), 1, extent.EndMarker{ProducerID: 7, Epoch: 3, CoordinatorEpoch: 5}, aborted),
		e.end(tp(0), 4, extent.EndMarker{ProducerID: 8, Commit: true}),
		e.open(t, tp(0), 4, batch(12, 3)), e.open(t, tp(0), 4, batch(13, 4)),
	}, aborted
}

func TestFetcher_ReadCommitted(t *testing.T) {
	for name, warm := range map[string]bool{"from the window": true, "from look-ups": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(e *env) {
				t := e.t
				if warm {
					e.fetch(t, request(part(0, 0)))
				}
				batches, aborted := ended(t, e)
				synctest.Wait()
				for offset, want := range [][]extent.Aborted{{aborted}, {aborted}, {aborted}, nil} {
					req := committed(part(0, int64(offset)))
					req.MinBytes = 1 << 20 // waits for all bytes
					req.MaxWait = 0
					resp := e.fetch(t, req)
					require.NoError(t, errOf(resp, 0))
					r := &resp.Results[0]
					require.Equal(t, bytes.Join(batches[offset:4], nil), records(r), "below the last stable offset, from %d", offset)
					require.Equal(t, want, r.Aborted, "from %d", offset)
					require.Equal(t, view.Watermarks{HighWatermark: 6, LastStable: 4}, r.Marks)
				}
				req := request(part(0, 0))
				req.MinBytes, req.MaxWait = 1<<20, 0
				resp := e.fetch(t, req)
				require.Equal(t, bytes.Join(batches, nil), records(&resp.Results[0]), "read_uncommitted reads all, markers too")
				require.Nil(t, resp.Results[0].Aborted)

				resp = e.fetch(t, committed(part(0, 4)))
				require.Zero(t, resp.Bytes)
				require.NoError(t, errOf(resp, 0))
				require.True(t, resp.Results[0].Confirmed, "an emptiness at the last stable offset is an end too")
				require.Equal(t, kerr.OffsetOutOfRange, errOf(e.fetch(t, committed(part(0, 7))), 0))
			})
		})
	}
}

// An answer that ends before an aborted transaction begins does not name it.
func TestFetcher_AbortedWithinTheAnswer(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.open(t, tp(0), 0, batch(1000, 1))
		e.open(t, tp(0), 0, batch(1000, 2))
		one := extent.Aborted{ProducerID: 7, First: 0, Last: 2}
		two := extent.Aborted{ProducerID: 8, First: 1, Last: 3}
		e.end(tp(0), 1, extent.EndMarker{ProducerID: 7}, one)
		e.end(tp(0), 4, extent.EndMarker{ProducerID: 8}, two)
		for _, tt := range []struct {
			offset int64
			bytes  int
			want   []extent.Aborted
		}{
			{0, 1, []extent.Aborted{one}},
			{1, 1, []extent.Aborted{one, two}},
			{0, 1 << 20, []extent.Aborted{one, two}},
			{3, 1, []extent.Aborted{two}},
		} {
			p := part(0, tt.offset)
			p.MaxBytes = tt.bytes
			req := committed(p)
			req.MinBytes, req.MaxWait = 1<<20, 0
			require.Equal(t, tt.want, e.fetch(t, req).Results[0].Aborted, "%+v", tt)
		}
		var seen []extent.Aborted
		e.owner.Change(tp(0), func(p *viewtest.Partition) { seen = slices.Clone(p.Aborted) })
		require.Equal(t, []extent.Aborted{one, two}, seen)
	})
}

// A long poll of committed records ends when a transaction does, not when its records come, and needs no look-up.
func TestFetcher_LongPollOfCommitted(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.fetch(t, request(part(0, 0)))
		poll := func(req *Request) <-chan *Response {
			done := make(chan *Response, 1)
			go func() { done <- e.fetcher.Fetch(t.Context(), req) }()
			synctest.Wait()
			return done
		}
		long := func(n int, req *Request) *Request {
			req.MaxWait, req.MinBytes = time.Minute, n
			return req
		}
		sleeps := func(done <-chan *Response, why string) {
			t.Helper()
			pass(time.Second)
			select {
			case <-done:
				t.Fatal(why)
			default:
			}
		}
		few, many := poll(long(1, committed(part(0, 0)))), poll(long(200, committed(part(0, 0))))
		data := e.open(t, tp(0), 0, batch(10, 1))
		sleeps(few, "answered with what is not committed")
		sleeps(many, "answered with what is not committed")
		mark := e.end(tp(0), 2, extent.EndMarker{ProducerID: 7, Commit: true})
		resp := <-few
		defer resp.Release()
		require.NotZero(t, resp.Bytes)
		require.Less(t, len(data)+len(mark), 200)
		sleeps(many, "answered below min bytes")
		e.produce(t, tp(0), batch(100, 1))
		more := <-many
		defer more.Release()

		plain := poll(long(1, request(part(0, 3))))
		e.owner.Count(func(o *viewtest.Owner) { o.Lookups = 0 })
		e.end(tp(0), 4, extent.EndMarker{ProducerID: 9})
		resp = <-plain
		defer resp.Release()
		require.Equal(t, kafkaproto.ControlBatchSize, resp.Bytes, "a marker counts with its bytes")
		e.owner.Count(func(o *viewtest.Owner) { require.Zero(t, o.Lookups) })
	})
}

// A transaction that ends elsewhere, whose notice is held up, must be seen by who asks after its end (I4).
func TestFetcher_BlackHoleOfMarkers(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.fetch(t, request(part(0, 0)))
		e.open(t, tp(0), 0, batch(10, 1))
		synctest.Wait()
		e.hold()
		e.end(tp(0), 2, extent.EndMarker{ProducerID: 7, Commit: true})
		req := committed(part(0, 0))
		req.MaxWait = 0
		require.Equal(t, kerr.NotLeaderForPartition, errOf(e.fetch(t, req), 0), "never short of the last stable offset")
		require.NotZero(t, e.fetch(t, request(part(0, 0))).Bytes, "what is known is read")
		e.stream.Resume()
		require.NotZero(t, e.fetch(t, committed(part(0, 0))).Bytes)
	})
}

func TestOffsets_ReadCommitted(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.open(t, tp(0), 0, batch(10, 500))
		e.end(tp(0), 2, extent.EndMarker{ProducerID: 7}, extent.Aborted{ProducerID: 7, Last: 1}) // at time 1001
		e.open(t, tp(0), 2, batch(10, 2000))
		o := e.offsets(t)
		for _, tt := range []struct {
			timestamp int64
			committed OffsetResult
			all       OffsetResult
		}{
			{TimestampLatest, OffsetResult{nil, 2, -1}, OffsetResult{nil, 3, -1}},
			{TimestampEarliest, OffsetResult{nil, 0, -1}, OffsetResult{nil, 0, -1}},
			{500, OffsetResult{nil, 0, 500}, OffsetResult{nil, 0, 500}},   // aborted records count
			{501, OffsetResult{nil, 1, 1001}, OffsetResult{nil, 1, 1001}}, // markers too
			{1002, noOffset, OffsetResult{nil, 2, 2000}},                  // above the last stable offset
			{TimestampMax, noOffset, OffsetResult{nil, 2, 2000}},
		} {
			got := o.List(t.Context(), []OffsetWant{{tp(0), tt.timestamp}}, true)
			require.Equal(t, tt.committed, got[0], "committed, %d", tt.timestamp)
			got = o.List(t.Context(), []OffsetWant{{tp(0), tt.timestamp}}, false)
			require.Equal(t, tt.all, got[0], "uncommitted, %d", tt.timestamp)
		}
		e.end(tp(0), 4, extent.EndMarker{ProducerID: 9, Commit: true}) // at time 1003
		e.owner.Change(tp(0), func(p *viewtest.Partition) { p.LogStart = 3 })
		require.Equal(t, []OffsetResult{{nil, 3, 1003}}, o.List(t.Context(), []OffsetWant{{tp(0), TimestampMax}}, true),
			"a marker of the largest timestamp")
	})
}

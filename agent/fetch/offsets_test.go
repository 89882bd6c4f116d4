package fetch

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/kafkaproto"
)

func (e *env) offsets(tb testing.TB) *Offsets {
	tb.Helper()
	o, err := NewOffsets(OffsetsConfig{Source: e.stream, Bytes: e.cache})
	require.NoError(tb, err)
	return o
}

func TestOffsets_List(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), batch(10, 100, 300, 200), batch(10, 150))
		e.produce(t, tp(0), cachetest.BatchWith(cachetest.Options{Gzip: true}, []byte("v"), 400, 500, 500))
		e.produce(t, tp(0), cachetest.BatchWith(cachetest.Options{LogAppendTime: true}, []byte("v"), 450, 460))
		o := e.offsets(t)
		for name, tt := range map[string]struct {
			timestamp, offset, at int64
		}{
			"latest":                  {TimestampLatest, 9, -1},
			"earliest":                {TimestampEarliest, 0, -1},
			"earliest local":          {TimestampEarliestLocal, 0, -1},
			"latest tiered":           {TimestampLatestTiered, -1, -1},
			"earliest pending upload": {TimestampEarliestPendingUpload, -1, -1},
			"largest timestamp":       {TimestampMax, 5, 500},
			"before all":              {0, 0, 100},
			"exact":                   {300, 1, 300},
			"between":                 {201, 1, 300},
			"compressed":              {301, 4, 400},
			"equal ones, the first":   {500, 5, 500},
			"after all":               {501, -1, -1},
		} {
			got := o.List(t.Context(), []OffsetWant{{tp(0), tt.timestamp}}, false)
			require.Equal(t, OffsetResult{Offset: tt.offset, Timestamp: tt.at}, got[0], name)
		}
		got := o.List(t.Context(), []OffsetWant{{tp(1), TimestampMax}, {tp(1), 5}, {tp(99), TimestampLatest}}, false)
		require.Equal(t, []OffsetResult{noOffset, noOffset, {Err: kerr.UnknownTopicOrPartition, Offset: -1, Timestamp: -1}}, got)

		e.owner.Change(tp(0), func(p *viewtest.Partition) { p.LogStart, p.LastStable = 2, 5 })
		got = o.List(t.Context(), []OffsetWant{
			{tp(0), TimestampLatest}, {tp(0), TimestampEarliest}, {tp(0), 500}, {tp(0), 250}, {tp(0), 0},
		}, true)
		require.Equal(t, []OffsetResult{{nil, 5, -1}, {nil, 2, -1}, noOffset, {nil, 4, 400}, {nil, 2, 200}}, got,
			"above the last stable offset and below the log start there is nothing")
	})
}

func TestOffsets_LogAppendTime(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), cachetest.BatchWith(cachetest.Options{LogAppendTime: true}, []byte("v"), 450, 460))
		got := e.offsets(t).List(t.Context(), []OffsetWant{{tp(0), 455}, {tp(0), TimestampMax}}, false)
		require.Equal(t, []OffsetResult{{nil, 0, 460}, {nil, 0, 460}}, got, "all records have the time of append")
	})
}

// A batch header that promises a timestamp which no record has leads on, not astray.
func TestOffsets_MisleadingHeader(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		liar := kafkaproto.RecordBatch(batch(10, 100))
		liar.StampLogAppendTime(900)
		honest := cachetest.Batch([]byte("v"), 100, 200)
		e.produce(t, tp(0), honest, liar)
		e.produce(t, tp(0), cachetest.Batch([]byte("v"), 950))
		require.Equal(t, []OffsetResult{{nil, 3, 950}},
			e.offsets(t).List(t.Context(), []OffsetWant{{tp(0), 901}}, false))
	})
}

// liar is a batch with these records whose header claims a larger timestamp.
func liar(claim int64, timestamps ...int64) []byte {
	b := kafkaproto.RecordBatch(batch(10, timestamps...))
	binary.BigEndian.PutUint64(b[35:], uint64(claim))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// The record with the largest timestamp is found however many headers claim more than their records have.
func TestOffsets_LargestTimestampBelowClaims(t *testing.T) {
	for _, c := range []struct {
		name    string
		bundles [][][]byte
		want    OffsetResult
	}{
		{"one batch", [][][]byte{{liar(900, 100, 300, 200)}}, OffsetResult{nil, 1, 300}},
		{"beside an honest one", [][][]byte{{batch(10, 100, 400), liar(900, 100)}}, OffsetResult{nil, 1, 400}},
		{"before", [][][]byte{{liar(900, 100)}, {batch(10, 500)}, {batch(10, 200)}}, OffsetResult{nil, 1, 500}},
		{"behind", [][][]byte{{batch(10, 200)}, {batch(10, 500)}, {liar(900, 100)}}, OffsetResult{nil, 1, 500}},
		{"on both sides", [][][]byte{{liar(900, 1)}, {batch(10, 500)}, {liar(901, 2)}}, OffsetResult{nil, 1, 500}},
		{"the first of equal ones", [][][]byte{{liar(900, 1)}, {batch(10, 500, 500)}, {batch(10, 500)}}, OffsetResult{nil, 1, 500}},
		{"all", [][][]byte{{liar(900, 1)}, {liar(800, 3)}, {liar(700, 2)}}, OffsetResult{nil, 1, 3}},
		{"no timestamps", [][][]byte{{batch(10, -1)}}, noOffset},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Config{}, func(e *env) {
				for _, b := range c.bundles {
					e.produce(e.t, tp(0), b...)
				}
				got := e.offsets(e.t).List(e.t.Context(), []OffsetWant{{tp(0), TimestampMax}}, false)
				require.Equal(e.t, []OffsetResult{c.want}, got)
			})
		})
	}
}

// A log start inside an extent leaves its largest timestamp to a record that is gone. The search goes on with the next
// extent that claims one.
func TestOffsets_TimestampBelowTheLogStart(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		e.produce(e.t, tp(0), batch(10, 1_000_000), batch(10, 1))
		for range 9000 {
			e.produce(e.t, tp(0), batch(10, 1))
		}
		e.owner.Change(tp(0), func(p *viewtest.Partition) { p.LogStart = 1 })
		list := func(ts int64) []OffsetResult {
			return e.offsets(e.t).List(e.t.Context(), []OffsetWant{{tp(0), ts}}, false)
		}
		require.Equal(e.t, []OffsetResult{noOffset}, list(500_000))
		e.produce(e.t, tp(0), batch(10, 600_000))
		require.Equal(e.t, []OffsetResult{{nil, 9002, 600_000}}, list(500_000))
		e.owner.Count(func(o *viewtest.Owner) { require.Equal(e.t, 4, o.Lookups) })
	})
}

// A search of one step for each extent that claims too much ends with an error.
func TestOffsets_BoundOfSteps(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		for i := range maxSteps {
			e.produce(e.t, tp(0), liar(int64(1_000_000+i), 1))
		}
		e.produce(e.t, tp(0), batch(10, 900_000))
		list := func(ts int64) OffsetResult {
			return e.offsets(e.t).List(e.t.Context(), []OffsetWant{{tp(0), ts}}, false)[0]
		}
		require.Equal(e.t, kerr.KafkaStorageError, list(800_000).Err)
		require.Equal(e.t, kerr.KafkaStorageError, list(TimestampMax).Err)
		e.owner.Change(tp(0), func(p *viewtest.Partition) { p.LogStart = 1 })
		require.Equal(e.t, OffsetResult{nil, maxSteps, 900_000}, list(800_000))
		require.Equal(e.t, OffsetResult{nil, maxSteps, 900_000}, list(TimestampMax))
	})
}

// Records are looked through as they are decompressed, and not held: a few kilobytes can stand for gigabytes of them.
func TestOffsets_OpensBatchesPieceByPiece(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		value := make([]byte, 4<<20)
		e.produce(t, tp(0), cachetest.BatchWith(cachetest.Options{Gzip: true}, value, 100, 200))
		o := e.offsets(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := o.List(t.Context(), []OffsetWant{{tp(0), 150}}, false)
		runtime.ReadMemStats(&after)
		require.Equal(t, []OffsetResult{{nil, 1, 200}}, got)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(value)/2))
	})
}

// Ends are always asked of the owner: what the agent's views know plays no part (I4).
func TestOffsets_NeverStale(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.fetch(t, request(part(0, 0)))
		e.hold()
		e.produce(t, tp(0), batch(10, 1))
		got := e.offsets(t).List(t.Context(), []OffsetWant{{tp(0), TimestampLatest}}, false)
		require.Equal(t, kerr.NotLeaderForPartition, got[0].Err)
		e.stream.Resume()
		got = e.offsets(t).List(t.Context(), []OffsetWant{{tp(0), TimestampLatest}}, false)
		require.Equal(t, int64(1), got[0].Offset)
	})
}

func TestOffsets_Faults(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		e.produce(t, tp(0), batch(10, 1))
		require.NoError(t, e.bucket.Delete(context.Background(), []string{cachetest.Key(1)}))
		got := e.offsets(t).List(t.Context(), []OffsetWant{{tp(0), 0}}, false)
		require.Equal(t, kerr.KafkaStorageError, got[0].Err, "lost for good, after a bounded search")
	})
}

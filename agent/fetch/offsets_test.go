package fetch

import (
	"context"
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

package clean_test

import (
	"bytes"
	"context"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/clean"
	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// largeWindow is that of zstd's level 22, bytes.
const largeWindow = 128 << 20

// large makes a batch of records that takes largeWindow to decompress, however few they are.
func large(t *testing.T, records []cleantest.Record) kafkaproto.RecordBatch {
	t.Helper()
	b := (&cleantest.Batch{Records: records}).Make(t)
	payload := bytes.Clone(b[kafkaproto.BatchOverhead:])
	p, err := (&zstd.Header{WindowSize: largeWindow}).AppendTo(b[:kafkaproto.BatchOverhead])
	require.NoError(t, err)
	block := len(payload)<<3 | 1 // raw, the last one
	p = append(append(p, byte(block), byte(block>>8), byte(block>>16)), payload...)
	const codecAt = 22
	p[codecAt] |= byte(kafkaproto.Zstd)
	return kafkaproto.SealThinned(p, kafkaproto.Thinned{
		BaseTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(), Records: int32(len(records)),
	})
}

// TestRun_LargeBatches: what takes much memory to open is given back with the batch, so that whatever follows, also in
// other parts of the process, has it: that of the second batch here, in both passes, and of the next run.
func TestRun_LargeBatches(t *testing.T) {
	l := cleantest.New()
	l.Append(t, large(t, pairs("a", "1", "b", "2")), large(t, pairs("a", "3", "c", "4")))
	l.Append(t, (&cleantest.Batch{Codec: kafkaproto.Zstd, Records: pairs("d", "5")}).Make(t))
	held := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	var most int64
	for _, want := range [][]string{{"1:b=2", "2:a=3", "3:c=4", "4:d=5"}, {"2:a=3", "3:c=4", "4:d=5", "5:b=6"}} {
		o, err := clean.Run(t.Context(), l.Plan(l.High, spec), func(int64) { most = max(most, held()) }, l.Env())
		require.NoError(t, err)
		l.Apply(t, &o)
		require.Equal(t, want, shown(t, l))
		l.Append(t, large(t, pairs("b", "6")))
	}
	require.Less(t, most-before, int64(largeWindow/2), "bytes held between batches")
}

// TestRun_LargeBatchBroken: one that cannot be opened gives back what it took.
func TestRun_LargeBatchBroken(t *testing.T) {
	broken := cleantest.New()
	b := large(t, pairs("a", "1", "b", "2"))
	broken.Append(t, kafkaproto.SealThinned(b, kafkaproto.Thinned{Records: 3}))
	requireUncleanable(t, broken, job.Unreadable{Bundles: []id.Bundle{broken.Extents[0].Bundle}, Intact: true})
	l := cleantest.New()
	l.Append(t, large(t, pairs("a", "1", "a", "2")))
	cleanAll(t, l, spec)
	require.Equal(t, []string{"1:a=2"}, shown(t, l))
}

// TestRun_EndsBeforeLargeBatch: a run that ends before a large batch has its turn says nothing of what is stored.
func TestRun_EndsBeforeLargeBatch(t *testing.T) {
	l := cleantest.New()
	l.Append(t, large(t, pairs("a", "1", "a", "2")))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := clean.Run(ctx, l.Plan(l.High, spec), func(int64) { cancel() }, l.Env())
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, clean.ErrUncleanable)
}

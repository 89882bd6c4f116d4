package recode_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/kafkaproto"
)

// frame is a zstd frame of one raw block.
func frame(t *testing.T, h zstd.Header, payload []byte) []byte {
	t.Helper()
	p, err := h.AppendTo(nil)
	require.NoError(t, err)
	head := uint32(len(payload))<<3 | 1 // raw, the last one
	return append(append(p, byte(head), byte(head>>8), byte(head>>16)), payload...)
}

// xerial is snappy-java's stream of blocks.
func xerial(blocks ...[]byte) []byte {
	p := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}
	for _, b := range blocks {
		p = append(binary.BigEndian.AppendUint32(p, uint32(len(b))), b...)
	}
	return p
}

// TestRecoder_LargeBatchesOneAtATime: what takes more than 8 MiB to decompress waits for the large turn, wherever in the
// batch that shows, and nothing else does.
func TestRecoder_LargeBatchesOneAtATime(t *testing.T) {
	all := records(10)
	half := len(all) / 2
	window := func(bytes uint64) zstd.Header { return zstd.Header{WindowSize: bytes} }
	single := func(bytes uint64) zstd.Header {
		return zstd.Header{SingleSegment: true, HasFCS: true, FrameContentSize: bytes}
	}
	small := frame(t, window(1<<20), all)
	skip, err := (&zstd.Header{Skippable: true, SkippableSize: 5}).AppendTo(nil)
	require.NoError(t, err)
	skip = append(skip, "plain"...)
	zeros := snappy.Encode(nil, make([]byte, 8<<20+1))
	for name, tt := range map[string]struct {
		codec   kafkaproto.Codec
		payload []byte
		waits   bool
	}{
		"window of 128 MiB":             {kafkaproto.Zstd, frame(t, window(128<<20), all), true},
		"window of 16 MiB":              {kafkaproto.Zstd, frame(t, window(16<<20), all), true},
		"window of 8 MiB":               {kafkaproto.Zstd, frame(t, window(8<<20), all), false},
		"single segment of 9 MiB":       {kafkaproto.Zstd, frame(t, single(9<<20), all), true},
		"small single segment":          {kafkaproto.Zstd, frame(t, single(uint64(len(all))), all), false},
		"second frame":                  {kafkaproto.Zstd, slices.Concat(frame(t, window(1<<20), all[:half]), frame(t, window(16<<20), all[half:])), true},
		"small second frame":            {kafkaproto.Zstd, slices.Concat(frame(t, window(1<<20), all[:half]), frame(t, window(8<<20), all[half:])), false},
		"after a skippable frame":       {kafkaproto.Zstd, slices.Concat(skip, frame(t, window(16<<20), all)), true},
		"small after a skippable frame": {kafkaproto.Zstd, slices.Concat(skip, small), false},
		"plain snappy block":            {kafkaproto.Snappy, zeros, true},
		"small plain snappy block":      {kafkaproto.Snappy, snappy.Encode(nil, all), false},
		"snappy-java block":             {kafkaproto.Snappy, xerial(snappy.Encode(nil, all[:half]), zeros), true},
		"small snappy-java blocks":      {kafkaproto.Snappy, xerial(snappy.Encode(nil, all[:half]), snappy.Encode(nil, all[half:])), false},
		"gzip":                          {kafkaproto.Gzip, batch(t, kafkaproto.Gzip, 10, all)[kafkaproto.BatchOverhead:], false},
		"lz4":                           {kafkaproto.LZ4, batch(t, kafkaproto.LZ4, 10, all)[kafkaproto.BatchOverhead:], false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.NoError(t, recode.LargeTurn.Acquire(t.Context(), 1))
				defer recode.LargeTurn.Release(1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				b := header(tt.codec, 10, tt.payload)
				_, err := apply(ctx, recode.New(recode.Config{}), b, &recode.Rules{Keys: true})
				_, found, errFind := recode.New(recode.Config{}).FindLargest(ctx, b)
				if tt.waits {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorIs(t, errFind, context.DeadlineExceeded)
					return
				}
				require.NoError(t, err)
				require.NoError(t, errFind)
				require.True(t, found)
			})
		})
	}
}

// TestRecoder_BeginsAgainInTheLargeTurn: a batch whose second frame is large has the results that it has with small frames.
func TestRecoder_BeginsAgainInTheLargeTurn(t *testing.T) {
	all := records(10, 1, 9)
	half := len(all) / 2
	b := header(kafkaproto.Zstd, 10, slices.Concat(
		frame(t, zstd.Header{WindowSize: 1 << 20}, all[:half]), frame(t, zstd.Header{WindowSize: 16 << 20}, all[half:])))
	c := recode.New(recode.Config{})
	at, found, err := c.FindLargest(t.Context(), b)
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 9, at.Timestamp)
	_, err = apply(t.Context(), c, b, &recode.Rules{Keys: true})
	var refused *recode.RecordsError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Records, 2)
	out, err := apply(t.Context(), c, b, &recode.Rules{Compress: true, MaxBytes: 1 << 20})
	require.NoError(t, err)
	require.Equal(t, all, []byte(out[kafkaproto.BatchOverhead:]))
}

// TestRecoder_LargeBatchesHoldNobodyUp: batches that wait for the large turn, more than there are turns, let others pass
// and are opened in the end.
func TestRecoder_LargeBatchesHoldNobodyUp(t *testing.T) {
	all := records(10)
	large := header(kafkaproto.Zstd, 10, frame(t, zstd.Header{WindowSize: 16 << 20}, all))
	small := batch(t, kafkaproto.Zstd, 10, all)
	synctest.Test(t, func(t *testing.T) {
		c := recode.New(recode.Config{})
		require.NoError(t, recode.LargeTurn.Acquire(t.Context(), 1))
		var waiting errgroup.Group
		for range runtime.GOMAXPROCS(0) + 1 {
			waiting.Go(func() error {
				_, err := apply(t.Context(), c, large, &recode.Rules{Keys: true})
				return err
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := apply(ctx, c, small, &recode.Rules{Keys: true})
		recode.LargeTurn.Release(1)
		require.NoError(t, waiting.Wait())
		require.NoError(t, err)
	})
}

// Batches that decompress to 256 MiB leave a processor to other requests, unless there is one alone.
func TestRecoder_LeavesAProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for processors, turns := range map[int]int{1: 1, 2: 1, 8: 7} {
		runtime.GOMAXPROCS(processors)
		c := recode.New(recode.Config{})
		require.True(t, c.HasTurns(turns), processors)
		require.False(t, c.HasTurns(turns+1), processors)
	}
}

// TestRecoder_LargeTurnIsGivenBack: a batch that is refused in the large turn gives it back.
func TestRecoder_LargeTurnIsGivenBack(t *testing.T) {
	large := header(kafkaproto.Zstd, 10, frame(t, zstd.Header{WindowSize: 16 << 20}, records(9)))
	_, err := apply(t.Context(), recode.New(recode.Config{}), large, &recode.Rules{Keys: true})
	require.ErrorIs(t, err, kerr.InvalidRecord)
	free := recode.LargeTurn.TryAcquire(1)
	recode.LargeTurn.Release(1) // if it was not free too, for the tests that follow
	require.True(t, free)
}

// TestRecoder_PlainSnappyBlock: the bound of a plain block is the Recoder's, beyond that of a block of snappy-java's stream
// (64 MiB).
func TestRecoder_PlainSnappyBlock(t *testing.T) {
	const copies = 65 << 20 / 64
	const value = 64 * copies // bytes, all zero, as is the count of headers after them
	head := kbin.AppendVarint([]byte{0, 0, 0, 1}, value)
	head = append(kbin.AppendVarint(nil, int32(len(head)+value+1)), head...)
	block := binary.AppendUvarint(nil, uint64(len(head)+value+1))
	block = append(block, byte(len(head))<<2) // a literal of one byte more
	block = append(append(block, head...), 0)
	block = append(block, bytes.Repeat([]byte{63<<2 | 2, 1, 0}, copies)...) // 64 times the byte before
	size, err := snappy.DecodedLen(block)
	require.NoError(t, err)

	at, found, err := recode.New(recode.Config{MaxRecordBytes: int64(size)}).Find(t.Context(), header(kafkaproto.Snappy, 1, block), 0, 0)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, recode.Position{}, at)
	_, _, err = recode.New(recode.Config{MaxRecordBytes: int64(size) - 1}).Find(t.Context(), header(kafkaproto.Snappy, 1, block), 0, 0)
	require.ErrorIs(t, err, kafkaproto.ErrCorrupt)
	_, _, err = recode.New(recode.Config{MaxRecordBytes: int64(size)}).Find(t.Context(), header(kafkaproto.Snappy, 1, xerial(block)), 0, 0)
	require.ErrorIs(t, err, kafkaproto.ErrCorrupt, "64 MiB")
}

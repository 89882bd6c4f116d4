package recode_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/kafkaproto"
)

// TestCodecs_LargeBatchesOneAtATime: the large turn is the process's, and lasts until the reader is closed.
func TestCodecs_LargeBatchesOneAtATime(t *testing.T) {
	all := records(10)
	large := header(kafkaproto.Zstd, 10, frame(t, zstd.Header{WindowSize: 16 << 20}, all))
	small := batch(t, kafkaproto.Zstd, 10, all)
	late := header(kafkaproto.Zstd, 10, slices.Concat(
		frame(t, zstd.Header{WindowSize: 1 << 20}, all[:100]), frame(t, zstd.Header{WindowSize: 16 << 20}, all[100:])))
	read := func(t *testing.T, c *recode.Codecs, b kafkaproto.RecordBatch) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := c.Reader(ctx, b, 1<<20)
		if err != nil {
			return err
		}
		defer r.Close()
		got, err := io.ReadAll(r)
		if err == nil {
			require.Equal(t, all, got)
		}
		return err
	}
	synctest.Test(t, func(t *testing.T) {
		var one, other recode.Codecs
		defer one.Close()
		defer other.Close()
		r, err := one.Reader(t.Context(), large, 1<<20)
		require.NoError(t, err)
		_, err = io.ReadFull(r, make([]byte, 1))
		require.NoError(t, err)
		require.ErrorIs(t, read(t, &other, large), context.DeadlineExceeded)
		require.NoError(t, read(t, &other, small))
		require.NoError(t, r.Close())
		for range 2 {
			require.NoError(t, read(t, &other, large))
			require.NoError(t, read(t, &one, large))
			require.NoError(t, read(t, &one, small))
			require.NoError(t, read(t, &one, late))
		}
	})
}

// TestCodecs_LargeTurnIsGivenBack: a batch that cannot be opened keeps no turn.
func TestCodecs_LargeTurnIsGivenBack(t *testing.T) {
	block := snappy.Encode(nil, make([]byte, 16<<20))
	block = block[:len(block)-1]
	var c recode.Codecs
	defer c.Close()
	_, err := c.Reader(t.Context(), header(kafkaproto.Snappy, 10, block), 32<<20)
	require.Error(t, err)
	free := recode.LargeTurn.TryAcquire(1)
	recode.LargeTurn.Release(1) // if it was not free too, for the tests that follow
	require.True(t, free)
}

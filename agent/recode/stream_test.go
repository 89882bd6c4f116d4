package recode_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

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
		require.Equal(t, all, got)
		return err
	}
	synctest.Test(t, func(t *testing.T) {
		var one, other recode.Codecs
		defer one.Close()
		defer other.Close()
		r, err := one.Reader(t.Context(), large, 1<<20)
		require.NoError(t, err)
		require.ErrorIs(t, read(t, &other, large), context.DeadlineExceeded)
		require.NoError(t, read(t, &other, small))
		require.NoError(t, r.Close())
		for range 2 {
			require.NoError(t, read(t, &other, large))
			require.NoError(t, read(t, &one, large))
			require.NoError(t, read(t, &one, small))
		}
	})
}

// TestCodecs_LargeTurnIsGivenBack: a batch that cannot be opened keeps no turn.
func TestCodecs_LargeTurnIsGivenBack(t *testing.T) {
	claim := header(kafkaproto.Snappy, 10, []byte{0x80, 0x80, 0x80, 0x08, 0}) // 16 MiB
	var c recode.Codecs
	defer c.Close()
	_, err := c.Reader(t.Context(), claim, 1<<20)
	require.Error(t, err)
	free := recode.LargeTurn.TryAcquire(1)
	recode.LargeTurn.Release(1) // if it was not free too, for the tests that follow
	require.True(t, free)
}

package recode_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/kafkaproto"
)

// zeros encodes one record with a value of so many bytes.
func zeros(size int) []byte {
	record := kbin.AppendVarintBytes([]byte{0, 0, 0}, []byte("key"))
	record = kbin.AppendVarint(kbin.AppendVarintBytes(record, make([]byte, size)), 0)
	return append(kbin.AppendVarint(nil, int32(len(record))), record...)
}

// grown makes a batch of one record that is uncompressed larger by far: size bytes and a few.
func grown(t *testing.T, size int) (b kafkaproto.RecordBatch, r *recode.Rules) {
	t.Helper()
	p := zeros(size)
	return batch(t, kafkaproto.Zstd, 1, p), &recode.Rules{Compress: true, MaxBytes: int32(kafkaproto.BatchOverhead + len(p))}
}

// takers are requests that hand batches over until open is closed.
type takers struct {
	errgroup.Group
	open    chan struct{}
	holding atomic.Int32
}

func (g *takers) apply(ctx context.Context, c *recode.Recoder, b kafkaproto.RecordBatch, r *recode.Rules) {
	g.Go(func() error {
		return c.Apply(ctx, b, r, 0, func(kafkaproto.RecordBatch) {
			g.holding.Add(1)
			<-g.open
			g.holding.Add(-1)
		})
	})
}

// TestRecoder_BoundsWhatIsHeld: requests hold as many batches as there is memory for at a time, and nothing at their end.
func TestRecoder_BoundsWhatIsHeld(t *testing.T) {
	b, rules := grown(t, 100_000)
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		c := recode.New(recode.Config{HoldBytes: 3 * int64(rules.MaxBytes), Registerer: registry})
		g := takers{open: make(chan struct{})}
		for range 10 {
			g.apply(t.Context(), c, b, rules)
		}
		synctest.Wait()
		require.EqualValues(t, 3, g.holding.Load())
		shown, err := registry.Gather()
		require.NoError(t, err)
		require.EqualValues(t, 7, shown[0].GetMetric()[0].GetCounter().GetValue())
		close(g.open)
		require.NoError(t, g.Wait())
		require.False(t, c.Held())
	})
}

// TestRecoder_CountsWhatIsHeld: what a batch could have taken and did not is free for others.
func TestRecoder_CountsWhatIsHeld(t *testing.T) {
	b, _ := grown(t, 10_000)
	synctest.Test(t, func(t *testing.T) {
		c := recode.New(recode.Config{HoldBytes: 1 << 20})
		g := takers{open: make(chan struct{})}
		for range 40 {
			g.apply(t.Context(), c, b, &recode.Rules{Compress: true, MaxBytes: 1 << 19})
		}
		synctest.Wait()
		require.EqualValues(t, 40, g.holding.Load())
		close(g.open)
		require.NoError(t, g.Wait())
	})
}

// TestRecoder_LargerThanAll: a batch above the memory is alone there.
func TestRecoder_LargerThanAll(t *testing.T) {
	b, rules := grown(t, 100_000)
	synctest.Test(t, func(t *testing.T) {
		c := recode.New(recode.Config{HoldBytes: 50_000})
		g := takers{open: make(chan struct{})}
		g.apply(t.Context(), c, b, rules)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := apply(ctx, c, b, rules)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(g.open)
		require.NoError(t, g.Wait())
		_, err = apply(t.Context(), c, b, rules)
		require.NoError(t, err)
		require.False(t, c.Held())
	})
}

// TestRecoder_RefusedBatchesHoldNothing: of what is not stored nothing is kept.
func TestRecoder_RefusedBatchesHoldNothing(t *testing.T) {
	b, rules := grown(t, 100_000)
	c := recode.New(recode.Config{})
	small := *rules
	small.MaxBytes /= 2
	_, err := apply(t.Context(), c, b, &small)
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	small.MaxBytes = 1
	_, err = apply(t.Context(), c, b, &small)
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	_, err = apply(t.Context(), c, b[:len(b)-1], rules)
	require.ErrorIs(t, err, kerr.InvalidRecord)
	_, err = apply(t.Context(), c, b, &recode.Rules{Compress: true, Codec: 9, MaxBytes: 1 << 20})
	require.Error(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = apply(ctx, c, header(kafkaproto.Zstd, 1, frame(t, zstd.Header{WindowSize: 16 << 20}, zeros(10))), rules)
	require.True(t, err == nil || errors.Is(err, context.Canceled))
	require.False(t, c.Held())
}

// TestRecoder_LargeBatchesHoldNoMemory: those that wait for the large turn have none of the memory meanwhile, and all come to
// their end in it.
func TestRecoder_LargeBatchesHoldNoMemory(t *testing.T) {
	small, rules := grown(t, 50_000)
	large := header(kafkaproto.Zstd, 1, frame(t, zstd.Header{WindowSize: 16 << 20}, zeros(50_000)))
	synctest.Test(t, func(t *testing.T) {
		c := recode.New(recode.Config{HoldBytes: int64(rules.MaxBytes)})
		require.NoError(t, recode.LargeTurn.Acquire(t.Context(), 1))
		g := takers{open: make(chan struct{})}
		close(g.open)
		for range 4 {
			g.apply(t.Context(), c, large, rules)
		}
		synctest.Wait()
		held := c.Held()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := apply(ctx, c, small, rules)
		recode.LargeTurn.Release(1)
		require.NoError(t, g.Wait())
		require.NoError(t, err)
		require.False(t, held)
		require.False(t, c.Held())
	})
}

// bomb is a context that panics where a turn is waited for, as a decompressor may.
type bomb struct{ context.Context }

func (bomb) Done() <-chan struct{} { panic("bomb") }

// TestRecoder_PanicHoldsNothing: the connection is closed for it, and the process goes on.
func TestRecoder_PanicHoldsNothing(t *testing.T) {
	b, rules := grown(t, 1000)
	c := recode.New(recode.Config{})
	require.Panics(t, func() { _, _ = apply(bomb{t.Context()}, c, b, rules) })
	require.Panics(t, func() { _ = c.Apply(t.Context(), b, rules, 0, func(kafkaproto.RecordBatch) { panic("taker") }) })
	require.False(t, c.Held())
}

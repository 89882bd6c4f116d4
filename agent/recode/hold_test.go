package recode_test

import (
	"context"
	"errors"
	"fmt"
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

// none is the handing over of who holds nothing, or has it for itself.
func none() {}

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

// TestHold_HandsOverWhatItWouldWaitFor: a request of many batches holds as many as there is memory for at a time, and nothing
// at its end.
func TestHold_HandsOverWhatItWouldWaitFor(t *testing.T) {
	b, rules := grown(t, 100_000)
	one := int64(rules.MaxBytes)
	registry := prometheus.NewRegistry()
	c := recode.New(recode.Config{HoldBytes: 3*one + one/2, Registerer: registry})
	var held, most, given int
	h := c.Hold(func() { given, held = given+held, 0 })
	for range 10 {
		out, err := h.Apply(t.Context(), b, rules)
		require.NoError(t, err)
		require.LessOrEqual(t, cap(out), int(one))
		held++
		most = max(most, held)
	}
	require.Equal(t, 3, most)
	require.Equal(t, 9, given)
	shown, err := registry.Gather()
	require.NoError(t, err)
	require.EqualValues(t, 3, shown[0].GetMetric()[0].GetCounter().GetValue())
	require.True(t, c.Held())
	h.Free()
	require.False(t, c.Held())
}

// TestHold_CountsWhatIsHeld: what a batch could have taken and did not is free for others.
func TestHold_CountsWhatIsHeld(t *testing.T) {
	b, _ := grown(t, 10_000)
	c := recode.New(recode.Config{HoldBytes: 1 << 20})
	h := c.Hold(func() { require.Fail(t, "there is memory") })
	defer h.Free()
	for range 40 {
		_, err := h.Apply(t.Context(), b, &recode.Rules{Compress: true, MaxBytes: 1 << 19})
		require.NoError(t, err)
	}
}

// TestHold_NobodyWaitsForAnother: requests that each come to more than there is, all at once, come to their end, and never
// hold more than there is together.
func TestHold_NobodyWaitsForAnother(t *testing.T) {
	b, rules := grown(t, 50_000)
	large := header(kafkaproto.Zstd, 1, frame(t, zstd.Header{WindowSize: 16 << 20}, zeros(50_000)))
	one := int64(rules.MaxBytes)
	c := recode.New(recode.Config{HoldBytes: 4 * one})
	held := make(chan struct{}, 4) // as many as may be held
	var requests errgroup.Group
	for n := range 8 {
		requests.Go(func() error {
			mine := 0
			h := c.Hold(func() {
				for ; mine > 0; mine-- {
					<-held
				}
			})
			for i := range 20 {
				in := b
				if (n+i)%5 == 0 {
					in = large
				}
				if _, err := h.Apply(t.Context(), in, rules); err != nil {
					return err
				}
				select {
				case held <- struct{}{}:
					mine++
				default:
					return fmt.Errorf("request %d holds too much at its batch %d", n, i)
				}
			}
			for ; mine > 0; mine-- {
				<-held
			}
			h.Free()
			return nil
		})
	}
	require.NoError(t, requests.Wait())
	require.False(t, c.Held())
}

// TestHold_LargerThanAll: a batch above the memory is alone there.
func TestHold_LargerThanAll(t *testing.T) {
	b, rules := grown(t, 100_000)
	synctest.Test(t, func(t *testing.T) {
		c := recode.New(recode.Config{HoldBytes: 50_000})
		h := c.Hold(none)
		_, err := h.Apply(t.Context(), b, rules)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		other := c.Hold(none)
		_, err = other.Apply(ctx, b, rules)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		h.Free()
		_, err = other.Apply(t.Context(), b, rules)
		require.NoError(t, err)
		other.Free()
		require.False(t, c.Held())
	})
}

// TestHold_RefusedBatchesHoldNothing: of what is not stored nothing is kept.
func TestHold_RefusedBatchesHoldNothing(t *testing.T) {
	b, rules := grown(t, 100_000)
	c := recode.New(recode.Config{})
	h := c.Hold(none)
	small := *rules
	small.MaxBytes /= 2
	_, err := h.Apply(t.Context(), b, &small)
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	small.MaxBytes = 1
	_, err = h.Apply(t.Context(), b, &small)
	require.ErrorIs(t, err, kerr.MessageTooLarge)
	_, err = h.Apply(t.Context(), b[:len(b)-1], rules)
	require.ErrorIs(t, err, kerr.InvalidRecord)
	_, err = h.Apply(t.Context(), b, &recode.Rules{Compress: true, Codec: 9, MaxBytes: 1 << 20})
	require.Error(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.Apply(ctx, header(kafkaproto.Zstd, 1, frame(t, zstd.Header{WindowSize: 16 << 20}, zeros(10))), rules)
	require.True(t, err == nil || errors.Is(err, context.Canceled))
	h.Free()
	require.False(t, c.Held())
}

// TestHold_LargeBatchesHoldNobodyUp: those that wait for the large turn have none of the memory meanwhile.
func TestHold_LargeBatchesHoldNobodyUp(t *testing.T) {
	small, rules := grown(t, 50_000)
	large := header(kafkaproto.Zstd, 1, frame(t, zstd.Header{WindowSize: 16 << 20}, zeros(50_000)))
	synctest.Test(t, func(t *testing.T) {
		const requests = 4
		c := recode.New(recode.Config{HoldBytes: requests * int64(rules.MaxBytes)})
		require.NoError(t, recode.LargeTurn.Acquire(t.Context(), 1))
		var waiting errgroup.Group
		for range requests {
			waiting.Go(func() error {
				h := c.Hold(none)
				defer h.Free()
				if _, err := h.Apply(t.Context(), small, rules); err != nil {
					return err
				}
				_, err := h.Apply(t.Context(), large, rules)
				return err
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h := c.Hold(none)
		_, err := h.Apply(ctx, small, rules)
		h.Free()
		held := c.Held()
		recode.LargeTurn.Release(1)
		require.NoError(t, waiting.Wait())
		require.NoError(t, err)
		require.False(t, held)
		require.False(t, c.Held())
	})
}

// bomb is a context that panics where a turn is waited for, as a decompressor may.
type bomb struct{ context.Context }

func (bomb) Done() <-chan struct{} { panic("bomb") }

// TestHold_PanicHoldsNothing: the connection is closed for it, and the process goes on.
func TestHold_PanicHoldsNothing(t *testing.T) {
	b, rules := grown(t, 1000)
	c := recode.New(recode.Config{})
	h := c.Hold(none)
	require.Panics(t, func() { _, _ = h.Apply(bomb{t.Context()}, b, rules) })
	h.Free()
	require.False(t, c.Held())
}

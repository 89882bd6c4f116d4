package latency_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/latency"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func preset(t *testing.T, name string) latency.Model {
	t.Helper()
	m, err := latency.Preset(name)
	require.NoError(t, err)
	return m
}

func TestBucket_Contract(t *testing.T) {
	model := latency.Model{Put: []latency.Point{{Size: 1, P50: 100 * time.Microsecond, P99: time.Millisecond}}}
	objstoretest.Run(t, func(*testing.T) objstore.Bucket { return latency.New(mem.New(), model, 1) })
}

func TestBucket_DeleteRefused(t *testing.T) {
	objstoretest.Refusal(t, latency.New(objstoretest.Refusing("refused"), latency.Model{}, 1), "refused")
}

// discard is a bucket that takes no time and keeps nothing.
type discard struct{ objstore.Bucket }

func (discard) Put(context.Context, string, objstore.Body) error { return nil }

func (discard) Get(context.Context, string, int64, int64) (io.ReadCloser, error) { return empty{}, nil }

func (d discard) Create(context.Context, string) (objstore.Upload, error) { return d, nil }

func (discard) Part(context.Context, int, int64, objstore.Body) error { return nil }
func (discard) Complete(context.Context) error                        { return nil }
func (discard) Abort(context.Context) error                           { return nil }

type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }

func TestPreset_Percentiles(t *testing.T) {
	const samples = 6_000
	const part, express = 130 + 56_000./90, 8 + 56_000./250 // ms of 64 MiB
	cases := []struct {
		preset   string
		op       objstore.Op
		size     int64
		p50, p99 float64 // ms
	}{
		{"s3-standard", objstore.OpPut, 8 << 20, 130, 350},
		{"s3-standard", objstore.OpPut, 64 << 10, 60, 200},
		{"s3-standard", objstore.OpPut, 100, 60, 200},
		{"s3-standard", objstore.OpPut, 724077, 88.3, 264.6}, // half way between the logarithms of the sizes
		{"s3-standard", objstore.OpPut, 64 << 20, 130, 350},
		{"s3-standard", objstore.OpPutPart, 8 << 20, 130, 350},
		{"s3-standard", objstore.OpPutPart, 64 << 20, part, part + 220},
		{"s3-express", objstore.OpPutPart, 64 << 20, express, express + 12},
		{"s3-standard", objstore.OpGet, 1 << 20, 30, 150},
		{"s3-express", objstore.OpPut, 8 << 20, 8, 20},
		{"s3-express", objstore.OpGet, 1, 5, 15},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			b := latency.New(discard{}, preset(t, c.preset), 7)
			took := make([]float64, samples)
			for i := range took {
				start := time.Now()
				switch c.op {
				case objstore.OpPut:
					require.NoError(t, b.Put(t.Context(), "k", objstore.Body{Size: c.size}))
				case objstore.OpPutPart:
					u, err := b.Create(t.Context(), "k")
					require.NoError(t, err)
					start = time.Now()
					require.NoError(t, u.Part(t.Context(), 1, 0, objstore.Body{Size: c.size}))
				default:
					r, err := b.Get(t.Context(), "k", 0, c.size)
					require.NoError(t, err)
					r.Close()
				}
				took[i] = float64(time.Since(start)) / 1e6
			}
			slices.Sort(took)
			require.InEpsilon(t, c.p50, took[samples/2], 0.04, "p50 of %+v", c)
			require.InEpsilon(t, c.p99, took[samples*99/100], 0.08, "p99 of %+v", c)
		})
	}
	_, err := latency.Preset("s3-slow")
	require.ErrorContains(t, err, "s3-slow")
}

func TestBucket_SameSeedSameDurations(t *testing.T) {
	run := func(seed uint64) (took []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			b := latency.New(discard{}, preset(t, "s3-standard"), seed)
			for range 10 {
				start := time.Now()
				require.NoError(t, b.Put(t.Context(), "k", objstore.Body{Size: 1000}))
				took = append(took, time.Since(start))
			}
		})
		return took
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1), run(2))
}

func TestBucket_CancelledPutIsUnknownAndThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New()
		b := latency.New(inner, preset(t, "s3-standard"), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := b.Put(ctx, "k", objstore.NewBody([]byte("x")))
		require.ErrorIs(t, err, objstore.ErrOutcomeUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = inner.Head(t.Context(), "k")
		require.NoError(t, err)
	})
}

func TestBucket_PacesBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New()
		require.NoError(t, inner.Put(t.Context(), "k", objstore.NewBody(make([]byte, 9<<20))))
		b := latency.New(inner, preset(t, "s3-standard"), 1)
		r, err := b.Get(t.Context(), "k", 0, -1)
		require.NoError(t, err)
		start := time.Now()
		n, err := io.Copy(io.Discard, r)
		require.NoError(t, err)
		require.EqualValues(t, 9<<20, n)
		require.InDelta(t, 0.1, time.Since(start).Seconds(), 0.002)
	})
}

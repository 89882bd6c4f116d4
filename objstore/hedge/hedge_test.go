package hedge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/hedge"
	"github.com/freshet-io/freshet/objstore/latency"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	usual  = 100 * time.Millisecond // what every request takes
	within = 110 * time.Millisecond // at which one of them is hedged, by the histogram's precision
)

// stack is a hedged bucket over a metered, faulty, slow one that has been used enough to be hedged.
type stack struct {
	*hedge.Bucket
	meter    *meter.Bucket
	fault    *fault.Bucket
	registry *prometheus.Registry // of meter
}

func newStack(t *testing.T, config hedge.Config) stack {
	t.Helper()
	s := newColdStack(t, config)
	for i := range 40 {
		key := fmt.Sprintf("warm/%d", i)
		require.NoError(t, s.Put(t.Context(), key, objstore.NewBody([]byte("x"))))
		_, err := objstoretest.Get(t.Context(), s, key, 0, 1)
		require.NoError(t, err)
	}
	require.EqualValues(t, 40, s.meter.Counts()[objstore.OpPut].Requests, "nothing was hedged while nothing was slow")
	return s
}

func newColdStack(t *testing.T, config hedge.Config) stack {
	t.Helper()
	always := []latency.Point{{Size: 1, P50: usual, P99: usual}}
	s := stack{fault: fault.New(latency.New(mem.New(), latency.Model{Put: always, Get: always}, 1), 1)}
	s.registry = prometheus.NewRegistry()
	s.meter = meter.New(s.fault, s.registry)
	var err error
	s.Bucket, err = hedge.New(s.meter, config, nil)
	require.NoError(t, err)
	return s
}

func TestBucket_Contract(t *testing.T) {
	objstoretest.RunRepeating(t, func(t *testing.T) objstore.Bucket {
		t.Helper()
		b, err := hedge.New(mem.New(), hedge.Config{MinSamples: 1, MinDelay: time.Nanosecond, MaxShare: 1}, nil)
		require.NoError(t, err)
		return b
	})
}

func TestBucket_DeleteRefused(t *testing.T) {
	b, err := hedge.New(objstoretest.Refusing("refused"), hedge.Config{}, nil)
	require.NoError(t, err)
	objstoretest.Refusal(t, b, "refused")
}

func TestPut_SecondAttemptWins(t *testing.T) {
	for _, rule := range []string{"stall", "stall-after", "delay=50ms outcome-unknown-after", "delay=150ms outcome-unknown-before"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStack(t, hedge.Config{})
			// The second attempt takes its usual time; where the object exists already, so does the look at it.
			s.fault.MustAdd("put key=slow nth=1 " + rule)
			start := time.Now()
			body := objstore.NewBody([]byte("content"))
			require.NoError(t, s.Put(t.Context(), "slow", body))
			took := time.Since(start)
			require.Greater(t, took, usual+usual)
			require.Less(t, took, within+2*usual+usual/2, rule)
			require.NoError(t, durable.Verify(t.Context(), s, "slow", body))
		})
	}
}

// A process that just started knows no durations yet; a put that hangs must not hold up everything behind it.
func TestPut_FirstOneEverIsHedgedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newColdStack(t, hedge.Config{ColdDelay: time.Second})
		s.fault.MustAdd("put nth=1 stall")
		start := time.Now()
		require.NoError(t, s.Put(t.Context(), "first", objstore.NewBody([]byte("content"))))
		require.Equal(t, time.Second+usual, time.Since(start).Round(10*time.Millisecond))
	})
}

func TestPut_FailureBeforeHedgeIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, hedge.Config{})
		s.fault.MustAdd("put key=k nth=1 outcome-unknown-before")
		require.ErrorIs(t, s.Put(t.Context(), "k", objstore.NewBody()), objstore.ErrOutcomeUnknown)
		require.EqualValues(t, 41, s.meter.Counts()[objstore.OpPut].Requests)
	})
}

func TestPut_ForeignObjectIsNotTakenForOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, hedge.Config{})
		s.fault.MustAdd("put key=warm/1 delay=1s")
		err := s.Put(t.Context(), "warm/1", objstore.NewBody([]byte("y")))
		require.ErrorIs(t, err, objstore.ErrAlreadyExists)
		require.NoError(t, s.Put(t.Context(), "warm/new", objstore.NewBody()))
		require.ErrorIs(t, s.Put(t.Context(), "warm/new", objstore.NewBody()), objstore.ErrAlreadyExists)
	})
}

func TestPut_LeastCertainErrorIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, hedge.Config{})
		s.fault.MustAdd("put key=k nth=1 delay=150ms outcome-unknown-before")
		s.fault.MustAdd("put key=k nth=2 throttle")
		err := s.Put(t.Context(), "k", objstore.NewBody())
		require.ErrorIs(t, err, objstore.ErrOutcomeUnknown)
	})
}

func TestPut_HedgesAreAShareOfPuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, hedge.Config{})
		s.fault.MustAdd("put delay=200ms every=3")
		before := s.meter.Counts()
		const puts = 400
		for i := range puts {
			require.NoError(t, s.Put(t.Context(), fmt.Sprint(i), objstore.NewBody()))
		}
		hedges := s.meter.Counts()[objstore.OpPut].Requests - before[objstore.OpPut].Requests - puts
		require.Positive(t, hedges)
		require.LessOrEqual(t, hedges, int64((puts+40)*5/100))
	})
}

func TestPut_NoHedgeWhileThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, hedge.Config{})
		rule := s.fault.MustAdd("put throttle")
		require.ErrorIs(t, s.Put(t.Context(), "k", objstore.NewBody()), objstore.ErrThrottled)
		s.fault.Remove(rule)
		s.fault.MustAdd("put delay=300ms")
		before := s.meter.Counts()
		require.NoError(t, s.Put(t.Context(), "a", objstore.NewBody()))
		require.EqualValues(t, 1, s.meter.Counts()[objstore.OpPut].Requests-before[objstore.OpPut].Requests)
		time.Sleep(10 * time.Second) // simulated time: the pause is over
		require.NoError(t, s.Put(t.Context(), "b", objstore.NewBody()))
		require.EqualValues(t, 3, s.meter.Counts()[objstore.OpPut].Requests-before[objstore.OpPut].Requests)
	})
}

func TestPut_ForgetsOldDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, hedge.Config{})
		time.Sleep(6 * time.Minute) // simulated time
		s.fault.MustAdd("put delay=1s")
		before := s.meter.Counts()
		require.NoError(t, s.Put(t.Context(), "k", objstore.NewBody()))
		require.EqualValues(t, 1, s.meter.Counts()[objstore.OpPut].Requests-before[objstore.OpPut].Requests)
	})
}

// lingering is a bucket some of whose puts read on for a second after their context ended, as a transport may.
type lingering struct {
	objstore.Bucket
	slow func(key string) bool
}

func (l *lingering) Put(ctx context.Context, key string, body objstore.Body) error {
	if !l.slow(key) {
		time.Sleep(10 * time.Millisecond) // simulated time
		return l.Bucket.Put(ctx, key, body)
	}
	<-ctx.Done()
	for range 10 {
		time.Sleep(100 * time.Millisecond) // simulated time
		if objstore.NewBody(body.Buffers...).CRC32C != body.CRC32C {
			panic("buffers changed while a put reads them")
		}
	}
	return fmt.Errorf("%w: %w", objstore.ErrOutcomeUnknown, ctx.Err())
}

// TestPut_PoisonedBuffers overwrites buffers the moment they are released: no attempt may read them then (the race
// detector and the bucket look), and every object must have the bytes that were put.
func TestPut_PoisonedBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen sync.Map
		inner := &lingering{Bucket: mem.New(), slow: func(key string) bool {
			_, again := seen.LoadOrStore(key, true)
			return !again && key[len(key)-1] == '7'
		}}
		b, err := hedge.New(inner, hedge.Config{MaxShare: 1, MinSamples: 1, Burst: 1000}, nil)
		require.NoError(t, err)
		require.NoError(t, b.Put(t.Context(), "warm", objstore.NewBody([]byte("x"))))

		const puts = 200
		var early, releases atomic.Int32
		var wg sync.WaitGroup
		for i := range puts {
			wg.Go(func() {
				data := objstoretest.Bytes(uint64(i), 10_000)
				body := objstore.NewBody(data[:5000], data[5000:])
				free := make(chan struct{})
				policy := durable.Policy{}
				err := policy.Put(t.Context(), b, fmt.Sprint(i), body, func() {
					releases.Add(1)
					for j := range data {
						data[j] = 0xdb
					}
					close(free)
				})
				if err != nil {
					t.Error(err)
				}
				select {
				case <-free:
				default:
					early.Add(1)
				}
				<-free
			})
		}
		wg.Wait()
		require.EqualValues(t, puts, releases.Load(), "each put releases once")
		require.EqualValues(t, puts/10, early.Load(), "hedged puts return before their loser stops reading")
		for i := range puts {
			got, err := objstoretest.Get(t.Context(), b, fmt.Sprint(i), 0, -1)
			require.NoError(t, err)
			require.True(t, bytes.Equal(objstoretest.Bytes(uint64(i), 10_000), got), "object %d", i)
		}
	})
}

func TestPut_ContextEndsAllAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, hedge.Config{})
		s.fault.MustAdd("put stall")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := s.Put(ctx, "k", objstore.NewBody())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		families, err := s.registry.Gather()
		require.NoError(t, err)
		at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool {
			return f.GetName() == "freshet_objstore_requests_in_flight"
		})
		for _, m := range families[at].GetMetric() {
			require.Zero(t, m.GetGauge().GetValue(), m.GetLabel())
		}
	})
}

// opened counts readers that are open.
type opened struct {
	objstore.Bucket
	open atomic.Int32
}

type openReader struct {
	io.ReadCloser
	ctx  context.Context
	open *atomic.Int32
}

func (o *opened) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r, err := o.Bucket.Get(context.WithoutCancel(ctx), key, offset, length) // answers, however late
	if err != nil {
		return nil, err
	}
	o.open.Add(1)
	return &openReader{r, ctx, &o.open}, nil
}

func (r *openReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, r.ctx.Err()
	}
	return r.ReadCloser.Read(p)
}

func (r *openReader) Close() error {
	r.open.Add(-1)
	return r.ReadCloser.Close()
}

func TestGet_SecondAttemptWinsAndTheOtherIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := fault.New(latency.New(mem.New(), latency.Model{Get: []latency.Point{{Size: 1, P50: usual, P99: usual}}}, 1), 1)
		inner := &opened{Bucket: faulty}
		b, err := hedge.New(inner, hedge.Config{}, nil)
		require.NoError(t, err)
		require.NoError(t, b.Put(t.Context(), "k", objstore.NewBody([]byte("content"))))
		for range 40 {
			_, err := objstoretest.Get(t.Context(), b, "k", 0, 7)
			require.NoError(t, err)
		}
		faulty.MustAdd("get nth=1 delay=5s")
		start := time.Now()
		r, err := b.Get(t.Context(), "k", 0, 7)
		require.NoError(t, err)
		require.Less(t, time.Since(start), within+usual)
		data, err := io.ReadAll(r)
		require.NoError(t, err, "the winner lives until it is closed")
		require.Equal(t, "content", string(data))
		require.NoError(t, r.Close())
		time.Sleep(6 * time.Second) // simulated time: the slow attempt has answered
		require.Zero(t, inner.open.Load())

		_, err = b.Get(t.Context(), "missing", 0, 1)
		require.ErrorIs(t, err, objstore.ErrNotFound)
	})
}

func TestConfig_Validate(t *testing.T) {
	_, err := hedge.New(mem.New(), hedge.Config{Quantile: 95, MaxShare: -1, Burst: -1}, nil)
	require.Error(t, err)
	require.Len(t, errors.Unwrap(fmt.Errorf("%w", err)).(interface{ Unwrap() []error }).Unwrap(), 3)
}

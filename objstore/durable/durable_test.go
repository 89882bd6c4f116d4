package durable_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/meter"
)

type stack struct {
	*meter.Bucket
	mem   *mem.Bucket
	fault *fault.Bucket
}

func newStack(rules ...string) stack {
	s := stack{mem: mem.New()}
	s.fault = fault.New(s.mem, 1)
	for _, r := range rules {
		s.fault.MustAdd(r)
	}
	s.Bucket = meter.New(s.fault, nil)
	return s
}

var body = objstore.NewBody([]byte("content"))

func TestPutResolved_EndsWithTheObjectThere(t *testing.T) {
	cases := []struct {
		rules       []string
		puts, heads int64
	}{
		{nil, 1, 0},
		{[]string{"put nth=1 outcome-unknown-after"}, 2, 1},
		{[]string{"put nth=1 outcome-unknown-before"}, 2, 0},
		{[]string{"put times=3 conflict"}, 4, 0},
		{[]string{"put times=5 throttle"}, 6, 0},
		{[]string{"put nth=1 outcome-unknown-after", "head times=2 throttle"}, 4, 3},
		{[]string{"put nth=1 stall-after"}, 2, 1},
		{[]string{"put nth=1 stall"}, 2, 0},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			s := newStack(c.rules...)
			require.NoError(t, durable.PutResolved(t.Context(), s, "k", body), c.rules)
			require.NoError(t, durable.Verify(t.Context(), s.mem, "k", body))
			require.Equal(t, c.puts, s.Counts()[objstore.OpPut].Requests, c.rules)
			require.Equal(t, c.heads, s.Counts()[objstore.OpHead].Requests, c.rules)
		})
	}
}

func TestPutResolved_FinalErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack()
		for _, other := range []string{"contents", "Content"} {
			require.NoError(t, s.mem.Put(t.Context(), other, objstore.NewBody([]byte(other))))
			require.ErrorIs(t, durable.PutResolved(t.Context(), s, other, body), durable.ErrForeign)
		}
		s.fault.MustAdd("put fail")
		start := time.Now()
		require.ErrorIs(t, durable.PutResolved(t.Context(), s, "k", body), fault.ErrInjected)
		require.Equal(t, start, time.Now(), "what retries do not heal is not retried")

		wrong := body
		wrong.CRC32C++
		s = newStack()
		require.ErrorIs(t, durable.PutResolved(t.Context(), s, "k", wrong), objstore.ErrChecksum)
		require.EqualValues(t, 2, s.Counts()[objstore.OpPut].Requests, "bits may flip on the way, once")
	})
}

func TestPutResolved_ContextBoundsIt(t *testing.T) {
	for _, rule := range []string{"put stall", "put throttle", "put outcome-unknown-after\nhead throttle"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStack()
			_, err := s.fault.Add(rule)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
			defer cancel()
			start := time.Now()
			err = durable.PutResolved(ctx, s, "k", body)
			require.Equal(t, 45*time.Second, time.Since(start))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, objstore.ErrOutcomeUnknown)
			require.Less(t, s.Counts()[objstore.OpPut].Requests, int64(100), "pauses grow")
		})
	}
}

func TestPolicy_BoundsAttemptsAndTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack("put throttle")
		var pauses []time.Duration
		p := durable.Policy{MaxAttempts: 4, OnRetry: func(err error, pause time.Duration) {
			require.ErrorIs(t, err, objstore.ErrThrottled)
			pauses = append(pauses, pause)
		}}
		released := 0
		err := p.Put(t.Context(), s, "k", body, func() { released++ })
		require.ErrorIs(t, err, objstore.ErrThrottled)
		require.Equal(t, 1, released)
		require.Len(t, pauses, 3)
		for _, pause := range pauses {
			require.GreaterOrEqual(t, pause, 500*time.Millisecond)
		}
	})
}

// noChecksums is a store that keeps none.
type noChecksums struct{ objstore.Bucket }

func (b noChecksums) Head(ctx context.Context, key string) (objstore.Info, error) {
	info, err := b.Bucket.Head(ctx, key)
	info.CRC32C, info.HasCRC = 0, false
	return info, err
}

func TestVerify_ReadsWhereThereIsNoChecksum(t *testing.T) {
	b := noChecksums{mem.New()}
	require.NoError(t, b.Put(t.Context(), "k", body))
	require.NoError(t, durable.Verify(t.Context(), b, "k", body))
	require.ErrorIs(t, durable.Verify(t.Context(), b, "k", objstore.NewBody([]byte("c0ntent"))), durable.ErrForeign)
	err := durable.Verify(t.Context(), b, "missing", body)
	require.ErrorIs(t, err, objstore.ErrOutcomeUnknown)
	require.ErrorIs(t, err, objstore.ErrNotFound)
}

// early releases the buffers some time after its put returned.
type early struct{ objstore.Bucket }

func (b early) PutReleasing(ctx context.Context, key string, body objstore.Body, released func()) error {
	time.AfterFunc(time.Minute, released)
	return b.Put(ctx, key, body)
}

func TestPolicy_ReleasesAfterTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack("put nth=1 outcome-unknown-after")
		start := time.Now()
		released := make(chan time.Duration, 1)
		require.NoError(t, durable.Policy{}.Put(t.Context(), early{s}, "k", body, func() { released <- time.Since(start) }))
		require.Less(t, time.Since(start), time.Second)
		require.Greater(t, <-released, time.Minute)
		start = time.Now()
		require.NoError(t, durable.PutResolved(t.Context(), early{s}, "k", body))
		require.Equal(t, time.Minute, time.Since(start), "PutResolved waits for the buffers")
	})
}

func Example() {
	bucket := mem.New()
	err := durable.PutResolved(context.Background(), bucket, "a/key", objstore.NewBody([]byte("content")))
	again := durable.PutResolved(context.Background(), bucket, "a/key", objstore.NewBody([]byte("content")))
	other := durable.PutResolved(context.Background(), bucket, "a/key", objstore.NewBody([]byte("other")))
	fmt.Println(err, again, errors.Is(other, durable.ErrForeign))
	// Output: <nil> <nil> true
}

package mail

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// queueing calls test in a bubble with a Queue that runs and calls send.
func queueing(t *testing.T, send func(context.Context, Message) error, test func(q *Queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := New(Config{Server: &Server{}, Log: zap.NewNop()})
		q.send = send
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- q.Run(ctx) }()
		test(q)
		cancel()
		require.NoError(t, <-ended)
	})
}

func to(address string) Compose {
	return func(context.Context) (*Message, error) { return &Message{To: address}, nil }
}

// TestQueue_Isolates: a mail that always fails is repeated with growing pauses until patience ends, and does not hold the others.
func TestQueue_Isolates(t *testing.T) {
	began := time.Time{}
	var mu sync.Mutex
	var attempts []time.Duration
	fine := 0
	queueing(t, func(_ context.Context, m Message) error {
		mu.Lock()
		defer mu.Unlock()
		if m.To == "fine" {
			fine++
			return nil
		}
		attempts = append(attempts, time.Since(began))
		return errors.New("away")
	}, func(q *Queue) {
		began = time.Now()
		require.NoError(t, q.Add(to("faulty")))
		for range 3 {
			require.NoError(t, q.Add(to("fine")))
		}
		synctest.Wait()
		require.Equal(t, 3, fine)
		time.Sleep(patience + maxPause) // sleeps: the bubble's clock
		synctest.Wait()
		require.Equal(t, []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second}, attempts[:4])
		last := attempts[len(attempts)-1]
		require.GreaterOrEqual(t, last, patience)
		require.Equal(t, maxPause, last-attempts[len(attempts)-2])
		require.Zero(t, q.size.Load())
		require.InDelta(t, 1, testutil.ToFloat64(q.metrics.attempts.WithLabelValues(string(dropped))), 0)
		require.InDelta(t, 0, testutil.ToFloat64(q.metrics.queued), 0)
	})
}

// TestQueue_Refused: a mail that the server refuses for good is dropped at once. A mail that cannot be composed is composed again, and one that is nil is not sent.
func TestQueue_Refused(t *testing.T) {
	var sends, composed atomic.Int64
	queueing(t, func(_ context.Context, m Message) error {
		if sends.Add(1); m.To == "unknown" {
			return errRefused
		}
		return nil
	}, func(q *Queue) {
		require.NoError(t, q.Add(to("unknown")))
		require.NoError(t, q.Add(func(context.Context) (*Message, error) { return nil, nil }))
		synctest.Wait()
		require.EqualValues(t, 1, sends.Load())
		require.NoError(t, q.Add(func(context.Context) (*Message, error) {
			if composed.Add(1) < 3 {
				return nil, errors.New("etcd is away")
			}
			return &Message{To: "fine"}, nil
		}))
		time.Sleep(time.Minute) // sleeps: the bubble's clock
		require.Equal(t, []int64{2, 3}, []int64{sends.Load(), composed.Load()})
		require.Zero(t, q.size.Load())
	})
}

// TestQueue_Full: the bound counts the mails that wait for a repetition. At most maxSends are sent at once, each for sendTimeout.
func TestQueue_Full(t *testing.T) {
	var at atomic.Int64
	queueing(t, func(ctx context.Context, _ Message) error {
		at.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}, func(q *Queue) {
		for i := range MaxQueued {
			require.NoError(t, q.Add(to(fmt.Sprint(i))))
		}
		require.ErrorIs(t, q.Add(to("further")), ErrFull)
		synctest.Wait()
		require.EqualValues(t, maxSends, at.Load())
		time.Sleep(sendTimeout) // sleeps: the bubble's clock
		synctest.Wait()
		require.EqualValues(t, 2*maxSends, at.Load())
		require.ErrorIs(t, q.Add(to("further")), ErrFull)
	})
}

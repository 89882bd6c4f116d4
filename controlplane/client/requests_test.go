package client

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// notRun is a session without a stream.
func notRun(t *testing.T, maxPendingBytes int64) *Session {
	t.Helper()
	s, err := New(Config{
		Handler:         struct{ Handler }{},
		VirtualCluster:  "c",
		Replicas:        []string{"127.0.0.1:1"},
		Endpoints:       []*api.Endpoint{{Listener: "l", Host: "h", Port: 1}},
		MaxPendingBytes: maxPendingBytes,
	})
	require.NoError(t, err)
	return s
}

// A request larger than a message would end every stream that it is sent on, for all clients of the agent.
func TestForward_RefusesWhatFitsNoMessage(t *testing.T) {
	s := notRun(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // there is no stream
	_, err := s.Forward(ctx, Forward{Body: make([]byte, maxForwardBytes+1)})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = s.Forward(ctx, Forward{Body: make([]byte, maxForwardBytes)})
	require.ErrorIs(t, err, ErrUnavailable)
}

// TestForward_NamesTheBound: the error of a request that the owner refused at a bound has the owner's text.
func TestForward_NamesTheBound(t *testing.T) {
	err := callError(&api.Error{Code: api.Error_THROTTLED, Message: "metadata is at its bound of memory: raise --memory-limit"})
	require.ErrorIs(t, err, ErrThrottled)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "metadata is at its bound of memory: raise --memory-limit")
	require.NotContains(t, err.Error(), "log budget")
}

// Members that wait for a rebalance leave room for everything that is not forwarded.
func TestForward_LeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := notRun(t, 2*callOverhead)
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(fn func()) {
			go fn()
			synctest.Wait()
		}
		for range 3 {
			ask(func() { _, _ = s.Forward(ctx, Forward{}) })
		}
		require.Len(t, s.mu.calls.pending, 2, "the third waits")
		ask(func() { _, _ = s.Abandon(ctx, id.Submission{Session: 1, N: 1}) })
		require.Len(t, s.mu.calls.pending, 3)
		cancel()
		synctest.Wait()
		require.Empty(t, s.mu.calls.pending)
		require.True(t, s.budget.TryAcquire(2*callOverhead))
		require.True(t, s.forwards.TryAcquire(2*callOverhead))
	})
}

// Requests that wait for other clients are refused at a bound of their own, and leave room for the requests that end their wait.
func TestForward_WaitingOnesHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := notRun(t, 2*callOverhead)
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			go func() { _, _ = s.Forward(ctx, Forward{Waits: true}) }()
		}
		synctest.Wait()
		_, err := s.Forward(ctx, Forward{Waits: true})
		require.ErrorIs(t, err, ErrThrottled)
		go func() { _, _ = s.Forward(ctx, Forward{}) }()
		synctest.Wait()
		require.Len(t, s.mu.calls.pending, 3)
		cancel()
		synctest.Wait()
		require.True(t, s.waits.TryAcquire(2*callOverhead))
	})
}

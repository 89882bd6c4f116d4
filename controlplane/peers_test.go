package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/operator"
)

// watched is a watch of replicas whose registrations and answers a test sets.
type watched struct {
	*peers
	down   sync.Map     // errors by address
	uptime atomic.Value // of all replicas, in ms
}

// watch runs fn beside a watch of the other replicas, with fake time.
func watch(t *testing.T, fn func(w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{peers: newPeers(&members{replica: "own", address: "own:7050"}, 5*time.Second, nil)}
		w.uptime.Store(uint64(60_000))
		w.ask = func(ctx context.Context, address string) (*api.ClockResponse, error) {
			if err, ok := w.down.Load(address); ok {
				return nil, err.(error)
			}
			return &api.ClockResponse{Version: "v1", HttpAddress: "h:8090", UptimeMs: ptr(w.uptime.Load().(uint64))}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.run(ctx) }()
		fn(w)
		cancel()
		require.NoError(t, <-ended)
	})
}

func (w *watched) register(all ...member) { w.members.replicas.Store(&all) }

// after returns the known replicas after some time, by id.
func (w *watched) after(d time.Duration) map[string]operator.Replica {
	time.Sleep(d) // sleeps: the clock is fake
	synctest.Wait()
	all := map[string]operator.Replica{}
	for _, r := range w.list(time.Now()) {
		all[r.Replica] = r
	}
	return all
}

var (
	errSilent  = status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	errRefused = status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp r2:7050: connect: connection refused"`)
)

func TestPeers_RemembersALostReplica(t *testing.T) {
	watch(t, func(w *watched) {
		r1, r2 := member{id: "r1", address: "r1:7050"}, member{id: "r2", address: "r2:7050"}
		w.register(r1, r2)
		all := w.after(5 * time.Second)
		require.Equal(t, "v1", all["r2"].Version)
		require.InDelta(t, 61, *all["r2"].Uptime, 1)
		require.Less(t, all["r2"].Silence, 2.1)

		w.down.Store("r2:7050", errRefused)
		all = w.after(5 * time.Second)
		require.InDelta(t, 6, all["r2"].Silence, 1.1)
		require.Equal(t, "connection refused", all["r2"].Fault)
		require.Equal(t, "h:8090", all["r2"].HTTP)
		require.Nil(t, all["r2"].Uptime)
		w.register(r1) // the lease has ended
		all = w.after(time.Minute)
		require.InDelta(t, 66, all["r2"].Silence, 1.1)
		require.Less(t, all["r1"].Silence, 2.1)

		w.register(r1, member{id: "r2", address: "elsewhere:7050"})
		all = w.after(3 * time.Second)
		require.Len(t, all, 2, "a restarted replica replaces it")
		require.Equal(t, "elsewhere:7050", all["r2"].Address)
		w.down.Store("elsewhere:7050", errSilent)
		w.after(9 * time.Second)
		w.register(r1)
		require.Len(t, w.after(9*time.Minute), 2)
		require.Len(t, w.after(2*time.Minute), 1, "ten minutes")
	})
}

// TestStatuses_Silent: a registered replica that does not answer is a warning until it answers or its lease ends.
func TestStatuses_Silent(t *testing.T) {
	watch(t, func(w *watched) {
		s := &statuses{peers: w.peers}
		w.register(member{id: "r1", address: "r1:7050"}, member{id: "r2", address: "r2:7050"})
		w.after(5 * time.Second)
		require.Empty(t, s.silent())
		w.down.Store("r2:7050", errSilent)
		w.after(6 * time.Second)
		require.Len(t, s.silent(), 1)
		require.Contains(t, s.silent()[0], "replica r2 at r2:7050 and h:8090 has not been heard of for ")
		w.down.Delete("r2:7050")
		w.after(3 * time.Second)
		require.Empty(t, s.silent())
		w.down.Store("r2:7050", errRefused)
		w.after(6 * time.Second)
		require.Len(t, s.silent(), 1)
		w.register(member{id: "r1", address: "r1:7050"})
		require.Contains(t, w.after(3*time.Second), "r2", "still known to a status")
		require.Empty(t, s.silent())
	})
}

// A killed replica that runs again is not a peer of itself until the lease of its earlier process ends.
func TestPeers_LeaveOutAnEarlierProcess(t *testing.T) {
	watch(t, func(w *watched) {
		w.down.Store("earlier:7050", errRefused)
		w.register(member{id: "own", address: "earlier:7050"}, member{id: "r1", address: "r1:7050"})
		require.Len(t, w.after(5*time.Second), 1)
	})
}

// The entry of an earlier process goes with its lease: the replica that answers the status runs.
func TestPeers_ForgetTheOwnPredecessor(t *testing.T) {
	watch(t, func(w *watched) {
		w.down.Store("earlier:7050", errRefused)
		w.register(member{id: "own", address: "earlier:7050"}, member{id: "r2", address: "r2:7050"})
		w.after(8 * time.Second)
		w.register(member{id: "r2", address: "r2:7050"})
		require.NotContains(t, w.after(5*time.Second), "own")
	})
}

// A replica that was killed and runs again at another address is no lost replica, although its earlier registration lasts for seconds.
func TestPeers_LeaveOutAnEarlierProcessOfAnother(t *testing.T) {
	watch(t, func(w *watched) {
		earlier, later := member{id: "r1", address: "r1:7050"}, member{id: "r1", address: "elsewhere:7050"}
		w.register(earlier)
		w.after(2 * time.Minute)
		w.down.Store("r1:7050", errRefused)
		w.after(9 * time.Second)
		w.uptime.Store(uint64(1000))
		w.register(earlier, later)
		w.after(3 * time.Second)
		list := w.list(time.Now())
		require.Len(t, list, 1)
		require.Equal(t, "elsewhere:7050", list[0].Address)
		require.Empty(t, list[0].Fault)

		w.down.Store("elsewhere:7050", errSilent)
		w.after(9 * time.Second)
		list = w.list(time.Now())
		require.Len(t, list, 1)
		require.InDelta(t, 9, list[0].Silence, 2.1, "the later process is lost")
	})
}

// A killed replica is remembered, though its key ends 4.5 s after its last answer at the earliest.
func TestPeers_RemembersAReplicaWhoseLeaseEndsEarly(t *testing.T) {
	watch(t, func(w *watched) {
		w.register(member{id: "r1", address: "r1:7050"})
		w.after(4*time.Second + time.Millisecond) // it has just answered
		w.down.Store("r1:7050", errRefused)
		w.after(4500 * time.Millisecond)
		w.register()
		require.Contains(t, w.after(time.Minute), "r1")
	})
}

// A replica that stops in good order removes its key at once, and is forgotten.
func TestPeers_ForgetsALeavingReplica(t *testing.T) {
	watch(t, func(w *watched) {
		w.register(member{id: "r1", address: "r1:7050"})
		require.Len(t, w.after(5*time.Second), 1)
		w.down.Store("r1:7050", errRefused)
		w.register()
		require.Empty(t, w.after(3*time.Second))
	})
}

// Errors that only a running replica can return are signs of life.
func TestPeers_HearsAnErrorOfARunningReplica(t *testing.T) {
	watch(t, func(w *watched) {
		w.down.Store("r1:7050", status.Error(codes.Unauthenticated, "unknown or missing agent key"))
		w.down.Store("r2:7050", errors.New("no gRPC status"))
		w.register(member{id: "r1", address: "r1:7050"}, member{id: "r2", address: "r2:7050"})
		all := w.after(20 * time.Second)
		require.Less(t, all["r1"].Silence, 2.1)
		require.Equal(t, "unknown or missing agent key", all["r1"].Fault)
		require.True(t, all["r1"].Refuses)
		require.False(t, all["r2"].Refuses)
	})
}

func TestPeers_IsBounded(t *testing.T) {
	watch(t, func(w *watched) {
		for round := range 3 {
			var all []member
			for n := range 100 {
				name := fmt.Sprintf("r%d-%d", round, n)
				all = append(all, member{id: name, address: name + ":7050"})
				w.down.Store(name+":7050", errSilent)
			}
			w.register(all...)
			require.LessOrEqual(t, len(w.after(20*time.Second)), maxPeers)
		}
	})
}

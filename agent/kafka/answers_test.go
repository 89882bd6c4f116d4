package kafka

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/client"
)

// answeringOwner answers with so many bytes where the request has room for them. It notes the room of each request.
type answeringOwner struct {
	mu    sync.Mutex
	size  int
	asked []int // Room of each request
}

func (o *answeringOwner) Forward(_ context.Context, f client.Forward) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, f.Room)
	if f.Room > 0 && o.size > f.Room {
		return nil, client.ErrLarge
	}
	return make([]byte, o.size), nil
}

// Answers that clients do not take hold a bounded memory: the next ones are not asked for. Waiting requests have connections reclaimed.
func TestAnswers_AreTakenBeforeOthersAreAskedFor(t *testing.T) {
	for name, c := range map[string]struct{ size, atOnce int }{
		"large": {20 << 20, 1},
		"small": {askedAnswer, 512 << 20 / sharedPart / askedAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reclaims := 0
				owner := &answeringOwner{size: c.size}
				cfg := Config{Forwarder: owner, Answers: NewAnswers(512<<20, func() { reclaims++ }, nil)}
				cfg.ApplyDefaults()
				api := newForwarded(int16(kmsg.DescribeGroups), cfg)
				answered := make(chan edge.Reply, 1000)
				ask := func() { answered <- start(t, api, 4, kmsg.NewPtrDescribeGroupsRequest(), "")() }
				for range c.atOnce + 2 {
					go ask()
				}
				synctest.Wait()
				require.Len(t, answered, c.atOnce)
				time.Sleep(time.Second) // sleeps: in the bubble
				require.NotZero(t, reclaims)
				for range c.atOnce + 2 {
					reply := <-answered
					require.Len(t, reply.Head, c.size)
					reply.Release()
					synctest.Wait()
				}
				before := reclaims
				time.Sleep(time.Second) // sleeps: in the bubble
				require.Equal(t, before, reclaims)
			})
		})
	}
}

// A large answer is asked for twice. An API whose answers are no larger than its requests is asked once, without a bound.
func TestAnswers_RoomOfARequest(t *testing.T) {
	owner := &answeringOwner{size: 20 << 20}
	cfg := Config{Forwarder: owner, Answers: NewAnswers(0, func() {}, nil)}
	cfg.ApplyDefaults()
	reply := start(t, newForwarded(int16(kmsg.DescribeGroups), cfg), 4, kmsg.NewPtrDescribeGroupsRequest(), "")()
	require.Equal(t, []int{askedAnswer, 0}, owner.asked)
	reply.Release()
	reply = start(t, newForwarded(int16(kmsg.DescribeCluster), cfg), 1, kmsg.NewPtrDescribeClusterRequest(), "")()
	require.Equal(t, []int{askedAnswer, 0, 0}, owner.asked)
	require.Nil(t, reply.Release)
}

// A client that goes while its request waits takes no memory.
func TestAnswers_WaitEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAnswers(0, func() {}, nil)
		first, err := a.place(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = a.reserve(ctx, 20<<20)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		first()
		last, err := a.reserve(t.Context(), 20<<20)
		require.NoError(t, err)
		last()
	})
}

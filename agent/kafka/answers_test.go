package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
				var reclaims atomic.Int32
				owner := &answeringOwner{size: c.size}
				cfg := Config{Forwarder: owner, Answers: NewAnswers(512<<20, func() { reclaims.Add(1) }, nil)}
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
				require.NotZero(t, reclaims.Load())
				for range c.atOnce + 2 {
					reply := <-answered
					require.Len(t, reply.Head, c.size)
					reply.Release()
					synctest.Wait()
				}
				before := reclaims.Load()
				time.Sleep(time.Second) // sleeps: in the bubble
				require.Equal(t, before, reclaims.Load())
			})
		})
	}
}

// A large answer is asked for again. An API whose answers are no larger than its requests is asked once, without a bound.
func TestAnswers_RoomOfARequest(t *testing.T) {
	owner := &answeringOwner{size: 20 << 20}
	cfg := Config{Forwarder: owner, Answers: NewAnswers(0, func() {}, nil)}
	cfg.ApplyDefaults()
	reply := start(t, newForwarded(int16(kmsg.DescribeGroups), cfg), 4, kmsg.NewPtrDescribeGroupsRequest(), "")()
	require.Equal(t, []int{askedAnswer, 256 << 10, 0}, owner.asked)
	reply.Release()
	reply = start(t, newForwarded(int16(kmsg.DescribeCluster), cfg), 1, kmsg.NewPtrDescribeClusterRequest(), "")()
	require.Equal(t, []int{askedAnswer, 256 << 10, 0, 0}, owner.asked)
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

// The answer about unknown topics has their names, which are up to 32 KiB each.
func TestMetadata_CountsNamesOfUnknownTopics(t *testing.T) {
	answers := NewAnswers(512<<20, func() {}, nil)
	m := NewMetadata(MetadataConfig{Catalogue: catalogueOf(t), Views: NewViews(&Zones{own: "a"}), Prober: never(t), Answers: answers})
	in := metadataRequest()
	for i := range 300 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(fmt.Sprintf("%06d", i) + strings.Repeat("n", 32_000))
		in.Topics = append(in.Topics, topic)
	}
	reply := start(t, m, 8, in, "")()
	require.Greater(t, len(reply.Head), 300*32_000)
	require.False(t, answers.places.TryAcquire(1))
	reply.Release()
	require.True(t, answers.places.TryAcquire(1))
}

// A large request of an API that the agent answers waits for the memory of its answer, and a small one does not.
func TestHandler_CountsAnswersOfLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := NewAnswers(512<<20, func() {}, nil)
		find := NewFindCoordinator(catalogueOf(t), NewViews(&Zones{own: "a"}))
		ask := func(keys int) func() edge.Reply {
			in := kmsg.NewPtrFindCoordinatorRequest()
			in.SetVersion(4)
			in.CoordinatorKeys = slices.Repeat([]string{"g"}, keys)
			return answers.within(t.Context(), &edge.Request{Key: in.Key(), Version: 4, Body: in.AppendTo(nil), Client: &edge.Client{}}, find.Start)
		}
		first := ask(250_000)()
		require.Greater(t, len(first.Head), 2<<20)
		second := make(chan edge.Reply)
		go func() { second <- ask(250_000)() }()
		synctest.Wait()
		require.NotEmpty(t, ask(100)().Head)
		require.Empty(t, second)
		first.Release()
		(<-second).Release()
		require.True(t, answers.places.TryAcquire(1))
	})
}

// A Metadata request of many names waits for the memory of the one before it, and a small one does not.
func TestHandler_CountsNamesOfMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := NewAnswers(512<<20, func() {}, nil)
		m := NewMetadata(MetadataConfig{Catalogue: catalogueOf(t), Views: NewViews(&Zones{own: "a"}), Prober: never(t), Answers: answers})
		ask := func(names int) func() edge.Reply {
			in := metadataRequest(slices.Repeat([]string{"alpha"}, names)...)
			in.SetVersion(8)
			return answers.within(t.Context(), &edge.Request{
				Key: in.Key(), Version: 8, Body: in.AppendTo(nil), Client: &edge.Client{Listener: "main", PortIndex: 1},
			}, m.Start)
		}
		first := ask(200_000)()
		second := make(chan edge.Reply, 1)
		go func() { second <- ask(200_000)() }()
		synctest.Wait()
		require.NotEmpty(t, ask(1)().Head)
		require.Empty(t, second)
		first.Release()
		(<-second).Release()
		require.True(t, answers.names.TryAcquire(answers.bytes))
	})
}

// A panic in a handler closes its connection (edge.conn.resolve). The memory of its answer is given back.
func TestAnswers_AreReleasedByAPanic(t *testing.T) {
	calls := 0
	owner := forwarderFunc(func(context.Context, client.Forward) ([]byte, error) {
		if calls++; calls <= 2 {
			return nil, client.ErrLarge
		}
		panic("a fault")
	})
	cfg := Config{Forwarder: owner, Answers: NewAnswers(512<<20, func() {}, nil)}
	cfg.ApplyDefaults()
	reply := start(t, newForwarded(int16(kmsg.DescribeGroups), cfg), 4, kmsg.NewPtrDescribeGroupsRequest(), "")
	require.Panics(t, func() { reply() })
	require.True(t, cfg.Answers.places.TryAcquire(1))
	cfg.Answers.places.Release(1)
	large := &edge.Request{Key: int16(kmsg.FindCoordinator), Body: make([]byte, 1<<20)}
	for _, start := range []func(context.Context, *edge.Request) func() edge.Reply{
		func(context.Context, *edge.Request) func() edge.Reply { panic("a fault in Start") },
		func(context.Context, *edge.Request) func() edge.Reply { return func() edge.Reply { panic("a fault") } },
	} {
		require.Panics(t, func() { cfg.Answers.within(t.Context(), large, start)() })
		require.True(t, cfg.Answers.places.TryAcquire(1))
		cfg.Answers.places.Release(1)
	}
}

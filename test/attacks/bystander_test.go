package attacks

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kinds of a bystander's requests.
const (
	produces   = "produce"
	fetches    = "fetch"
	heartbeats = "heartbeat"
	metadata   = "Metadata"
)

var kinds = []string{produces, fetches, heartbeats, metadata}

const bystanders = "bystander" // the topic of bystanders

// bystander is the client that must be served during an attack. Each kind of its requests has its own connection and goroutine.
type bystander struct {
	t    *testing.T
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	longest map[string]time.Duration
	begun   map[string]time.Time // start of the request in progress
	done    map[string]int       // requests answered
}

// createTopic creates the topic of bystanders, with one partition.
func createTopic(t *testing.T, options []kgo.Opt) {
	t.Helper()
	client, err := kgo.NewClient(options...)
	require.NoError(t, err)
	defer client.Close()
	in := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = bystanders, 1, 1
	in.Topics = append(in.Topics, topic)
	out, err := in.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Zero(t, out.Topics[0].ErrorCode)
}

// watch starts a bystander with options of its clients.
func watch(t *testing.T, options []kgo.Opt) *bystander {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := &bystander{
		t: t, stop: cancel,
		longest: map[string]time.Duration{}, begun: map[string]time.Time{}, done: map[string]int{},
	}
	var position int64
	for kind, ask := range map[string]func(context.Context, *kgo.Client) error{
		produces: func(ctx context.Context, c *kgo.Client) error {
			return c.ProduceSync(ctx, &kgo.Record{Topic: bystanders, Value: []byte("bystander")}).FirstErr()
		},
		fetches: func(ctx context.Context, c *kgo.Client) error { return fetchOne(ctx, c, &position) },
		heartbeats: func(ctx context.Context, c *kgo.Client) error {
			in := kmsg.NewPtrHeartbeatRequest()
			in.Group, in.MemberID = "bystander", "bystander"
			out, err := in.RequestWith(ctx, c)
			if err == nil && out.ErrorCode != kerr.UnknownMemberID.Code {
				err = kerr.ErrorForCode(out.ErrorCode)
			}
			return err
		},
		metadata: func(ctx context.Context, c *kgo.Client) error {
			in := kmsg.NewPtrMetadataRequest()
			in.Topics = append(in.Topics, kmsg.NewMetadataRequestTopic())
			in.Topics[0].Topic = kmsg.StringPtr(bystanders)
			out, err := in.RequestWith(ctx, c)
			if err == nil {
				err = kerr.ErrorForCode(out.Topics[0].ErrorCode)
			}
			return err
		},
	} {
		client, err := kgo.NewClient(append(options[:len(options):len(options)], kgo.ProducerLinger(0), kgo.ClientID("bystander-"+kind))...)
		require.NoError(t, err)
		b.work.Go(func() {
			defer client.Close()
			b.repeat(ctx, kind, func(ctx context.Context) error { return ask(ctx, client) })
		})
	}
	b.await(20) // connected, and the code is warm
	b.mu.Lock()
	clear(b.longest)
	b.mu.Unlock()
	return b
}

// fetchOne waits for the record at a position, and advances the position.
func fetchOne(ctx context.Context, c *kgo.Client, position *int64) error {
	c.AddConsumePartitions(map[string]map[int32]kgo.Offset{bystanders: {0: kgo.NewOffset().At(*position)}})
	fetched := c.PollRecords(ctx, 1)
	if err := fetched.Err(); err != nil {
		return err
	}
	*position += int64(fetched.NumRecords())
	return nil
}

// repeat sends requests until ctx ends. A request that fails is repeated, and its time counts from the first attempt.
func (b *bystander) repeat(ctx context.Context, kind string, ask func(context.Context) error) {
	for ctx.Err() == nil {
		began := time.Now()
		b.mu.Lock()
		b.begun[kind] = began
		b.mu.Unlock()
		for ctx.Err() == nil {
			attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
			err := ask(attempt)
			cancel()
			if err == nil {
				break
			}
		}
		b.mu.Lock()
		if ctx.Err() == nil {
			b.longest[kind] = max(b.longest[kind], time.Since(began))
			b.done[kind]++
		}
		delete(b.begun, kind)
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// await waits until a number of further requests of each kind are answered, and returns the time that this took.
func (b *bystander) await(requests int) time.Duration {
	b.t.Helper()
	began := time.Now()
	b.mu.Lock()
	want := map[string]int{}
	for _, kind := range kinds {
		want[kind] = b.done[kind] + requests
	}
	b.mu.Unlock()
	require.Eventually(b.t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for kind, n := range want {
			if b.done[kind] < n {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
	return time.Since(began)
}

// awaitWhole waits until service is whole, and returns the time that this took. Service is whole if 10 requests of each kind take wholeTime in all.
// The wait ends after wholeAfter at the latest, once 10 requests of each kind are answered.
func (b *bystander) awaitWhole() time.Duration {
	b.t.Helper()
	for began := time.Now(); ; {
		if b.await(10) < wholeTime || time.Since(began) > wholeAfter {
			return time.Since(began)
		}
	}
}

// end stops the bystander and returns the longest time of each kind. Unanswered requests count.
func (b *bystander) end() map[string]time.Duration {
	b.mu.Lock()
	for kind, began := range b.begun {
		b.longest[kind] = max(b.longest[kind], time.Since(began))
	}
	b.mu.Unlock()
	b.stop()
	b.work.Wait()
	return b.longest
}

// describe formats the times of the kinds for the output.
func describe(longest map[string]time.Duration) string {
	var parts []string
	for _, kind := range kinds {
		parts = append(parts, fmt.Sprintf("%s %.2f s", kind, longest[kind].Seconds()))
	}
	return strings.Join(parts, ", ")
}

package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"
)

// Subscription is one consumer: a member of a group that reads a topic.
type Subscription struct {
	Topic string `json:"topic"`
	Group string `json:"group"`
}

// ConsumerSpec says what the consumers of a worker read.
type ConsumerSpec struct {
	Subscriptions  []Subscription // one consumer, with a client of its own, for each
	Options        []kgo.Opt      // of each client: bootstrap addresses, fetch sizes, offset reset
	CommitPolled   bool           // commit what was polled after each poll, without waiting; needs kgo.DisableAutoCommit; see poll
	MaxPollRecords int            // of one poll; default: all there are
	Limit          *rate.Limiter  // of messages that all these consumers take, together; default: none
	SendTimeHeader string         // as ProducerSpec's: latency is counted from it rather than from the timestamp
}

// Consumers read until they are closed.
type Consumers struct {
	spec    ConsumerSpec
	stats   *Stats
	clients []*kgo.Client
	ctx     context.Context
	cancel  context.CancelFunc
	polls   sync.WaitGroup

	mu   sync.Mutex
	gate chan struct{} // closed unless paused
}

// StartConsumers makes a client for each subscription and begins to poll, until Close.
func StartConsumers(spec ConsumerSpec, stats *Stats) (*Consumers, error) {
	if spec.MaxPollRecords <= 0 {
		spec.MaxPollRecords = -1
	}
	c := &Consumers{spec: spec, stats: stats, gate: make(chan struct{})}
	close(c.gate)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, sub := range spec.Subscriptions {
		client, err := kgo.NewClient(c.options(sub)...)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("make consumer of topic %s in group %s: %w", sub.Topic, sub.Group, err)
		}
		c.clients = append(c.clients, client)
		c.polls.Go(func() { c.poll(client) })
	}
	return c, nil
}

// options are those of one consumer's client.
func (c *Consumers) options(sub Subscription) []kgo.Opt {
	var joined sync.Once // a group tells its members at each rebalance what they have, though it be nothing
	return append([]kgo.Opt{
		kgo.ConsumeTopics(sub.Topic), kgo.ConsumerGroup(sub.Group), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { joined.Do(c.stats.Joined) }),
	}, c.spec.Options...)
}

// poll takes what one client fetched, as long as the consumers live.
func (c *Consumers) poll(client *kgo.Client) {
	for c.open() {
		n, err := c.take(client)
		if err != nil {
			return
		}
		if err := c.limit(n); err != nil {
			return
		}
	}
}

// take polls once, counts what came and commits it. Its group must not rebalance between: who gets a partition would
// begin before what was counted here, and count it again. A commit under way is not overtaken, the client waits for it
// before it joins.
func (c *Consumers) take(client *kgo.Client) (n int, err error) {
	defer client.AllowRebalance()
	fetches := client.PollRecords(c.ctx, c.spec.MaxPollRecords)
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	fetches.EachError(func(topic string, partition int32, err error) {
		c.stats.FetchFailed(fmt.Errorf("fetch %s/%d: %w", topic, partition, err))
	})
	if n = c.record(fetches); n > 0 && c.spec.CommitPolled {
		client.CommitOffsets(c.ctx, client.UncommittedOffsets(), nil)
	}
	return n, nil
}

// open waits while the consumers are paused, and is false when they are closed.
func (c *Consumers) open() bool {
	c.mu.Lock()
	gate := c.gate
	c.mu.Unlock()
	select {
	case <-gate:
		return c.ctx.Err() == nil
	case <-c.ctx.Done():
		return false
	}
}

func (c *Consumers) record(fetches kgo.Fetches) int {
	now, n := time.Now(), 0
	receiver := c.stats.Receive()
	defer receiver.Done()
	for it := fetches.RecordIter(); !it.Done(); n++ {
		r := it.Next()
		receiver.Message(len(r.Value), c.latency(now, r))
	}
	return n
}

// latency is in whole milliseconds when it is counted from the timestamp, which has no more.
func (c *Consumers) latency(now time.Time, r *kgo.Record) time.Duration {
	if c.spec.SendTimeHeader != "" {
		return now.Sub(sendTime(r, c.spec.SendTimeHeader))
	}
	return time.Duration(now.UnixMilli()-r.Timestamp.UnixMilli()) * time.Millisecond
}

// limit waits until the limit allows for n messages more.
func (c *Consumers) limit(n int) error {
	if c.spec.Limit == nil {
		return nil
	}
	for burst := max(1, c.spec.Limit.Burst()); n > 0; n -= burst {
		if err := c.spec.Limit.WaitN(c.ctx, min(n, burst)); err != nil {
			return err
		}
	}
	return nil
}

// Pause stops polling; the consumers stay in their groups, and each keeps what it has fetched already.
func (c *Consumers) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.gate:
		c.gate = make(chan struct{})
	default:
	}
}

// Resume ends a pause.
func (c *Consumers) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.gate:
	default:
		close(c.gate)
	}
}

// leaveTimeout bounds how long a consumer waits for the answer to its leaving the group.
const leaveTimeout = 5 * time.Second

// Close stops polling, leaves the groups and closes the clients.
func (c *Consumers) Close() error {
	c.cancel()
	c.polls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	errs := make([]error, len(c.clients))
	var wait sync.WaitGroup
	for i, client := range c.clients {
		wait.Go(func() {
			errs[i] = client.LeaveGroupContext(ctx)
			client.Close()
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("leave groups: %w", err)
	}
	return nil
}

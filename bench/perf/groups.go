package perf

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/bench/load"
)

// sendTimeHeader is the tool's record header with the time of sending.
const sendTimeHeader = "st"

// group is the consumers of one index of group, over all topics.
type group struct {
	index     int
	consumers *load.Consumers // nil while paused
	seen      *seen
}

func groupName(topic string, index int) string { return fmt.Sprintf("sub-%s-%03d", topic, index) }

// startGroups starts the consumers of the named topics in every group.
func (t *test) startGroups(topics []load.Topic) error {
	for _, g := range t.groups {
		var err error
		if g.consumers, err = t.startGroup(g, topics); err != nil {
			return err
		}
	}
	return nil
}

func (t *test) startGroup(g *group, topics []load.Topic) (*load.Consumers, error) {
	spec := load.ConsumerSpec{
		Options:        append(append([]kgo.Opt{}, t.options.consumer...), kgo.WithHooks(g.seen)),
		Limit:          t.limit,
		SendTimeHeader: sendTimeHeader,
		MaxPollRecords: t.options.maxPoll,
	}
	for _, topic := range topics {
		for range t.cfg.Consumers {
			spec.Subscriptions = append(spec.Subscriptions, load.Subscription{Topic: topic.Name, Group: groupName(topic.Name, g.index)})
		}
	}
	return load.StartConsumers(spec, t.stats)
}

// stopGroups ends all consumers; their groups are empty then.
func (t *test) stopGroups() error {
	errs := make([]error, len(t.groups))
	var wait sync.WaitGroup
	for i, g := range t.groups {
		if g.consumers != nil {
			wait.Go(func() { errs[i] = g.consumers.Close() })
		}
	}
	wait.Wait()
	for _, g := range t.groups {
		g.consumers = nil
	}
	return errors.Join(errs...)
}

func (t *test) consumerLimit() *rate.Limiter {
	if t.cfg.MaxConsume == maxConsumeLimit {
		return nil
	}
	return rate.NewLimiter(rate.Limit(t.cfg.MaxConsume), max(1, t.cfg.MaxConsume/10))
}

// seen is told of every record that a group takes (kgo.HookFetchRecordUnbuffered).
type seen struct {
	preparing atomic.Bool
	latest    atomic.Int64 // newest timestamp, milliseconds since 1970

	mu         sync.Mutex
	since      int64                  // older records do not count, milliseconds since 1970
	partitions map[partition]struct{} // with records since then
}

type partition struct {
	topic string
	index int32
}

func newSeen() *seen { return &seen{partitions: map[partition]struct{}{}} }

// OnFetchRecordUnbuffered is called by the client as a poll returns the record.
func (s *seen) OnFetchRecordUnbuffered(r *kgo.Record, polled bool) {
	if !polled {
		return
	}
	at := r.Timestamp.UnixMilli()
	for old := s.latest.Load(); at > old && !s.latest.CompareAndSwap(old, at); old = s.latest.Load() {
	}
	if s.preparing.Load() {
		s.add(partition{r.Topic, r.Partition}, at)
	}
}

func (s *seen) add(p partition, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at >= s.since {
		s.partitions[p] = struct{}{}
	}
}

// prepare begins to count partitions of which records come that are not older than since.
func (s *seen) prepare(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = since.UnixMilli()
	clear(s.partitions)
	s.preparing.Store(true)
}

// count gives how many partitions the group has received records of.
func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.partitions)
}

func (s *seen) after(at time.Time) bool { return s.latest.Load() >= at.UnixMilli() }

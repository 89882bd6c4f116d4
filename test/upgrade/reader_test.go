package upgrade

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/ledger"
	"github.com/freshet-io/freshet/test/harness"
)

// reader is the members of a group, or one client without a group, that read one topic.
type reader struct {
	name  string
	wrong *faults

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	clients []*kgo.Client

	mu struct {
		sync.Mutex
		assigned []int // partitions of each member
		changes  int   // callbacks that changed the assignment
		reads    []ledger.Read
		next     map[int32]int64 // offset behind the last record read, by partition
	}
}

// newReader returns a reader that closes with the load.
func (l *load) newReader(name string, members int) *reader {
	r := &reader{name: name, wrong: l.wrong}
	r.ctx, r.stop = context.WithCancel(l.life)
	r.mu.assigned, r.mu.next = make([]int, members), map[int32]int64{}
	l.open = append(l.open, r)
	return r
}

// startReader starts one client without a group, which reads committed records from the beginning.
func (l *load) startReader(name, zone, topic string) *reader {
	l.t.Helper()
	r := l.newReader(name, 1)
	r.start(l.t, append(l.options(zone), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	return r
}

// startGroup starts two members of a group, one in each zone.
func (l *load) startGroup(name, topic string, more ...kgo.Opt) *reader {
	l.t.Helper()
	r := l.newReader(name, len(zones))
	for i, zone := range zones {
		options := append(l.options(zone), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(name), kgo.SessionTimeout(sessionTimeout),
			kgo.AutoCommitInterval(commitInterval), kgo.AutoCommitCallback(r.committed))
		r.start(l.t, append(append(options, more...), r.watch(i)...))
	}
	return r
}

// watch returns the options that count changes of a member's assignment.
func (r *reader) watch(member int) []kgo.Opt {
	change := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, list := range partitions {
				r.mu.assigned[member] += sign * len(list)
				r.mu.changes++
			}
		}
	}
	return []kgo.Opt{kgo.OnPartitionsAssigned(change(1)), kgo.OnPartitionsRevoked(change(-1)), kgo.OnPartitionsLost(change(-1))}
}

// start starts one member.
func (r *reader) start(t *testing.T, options []kgo.Opt) {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.KeepControlRecords())...)
	require.NoError(t, err)
	r.clients = append(r.clients, client)
	r.running.Go(func() { r.read(client) })
}

func (r *reader) read(client *kgo.Client) {
	for {
		fetches := client.PollFetches(r.ctx)
		if r.ctx.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			r.wrong.add("%s: fetch %s/%d: %w", r.name, topic, partition, err)
		})
		r.mu.Lock()
		fetches.EachRecord(r.note)
		r.mu.Unlock()
	}
}

// note takes one record. Called with mu held.
func (r *reader) note(record *kgo.Record) {
	r.mu.next[record.Partition] = max(r.mu.next[record.Partition], record.Offset+1)
	if !record.Attrs.IsControl() {
		r.mu.reads = append(r.mu.reads, ledger.Read{Partition: record.Partition, Offset: record.Offset, Value: string(record.Value)})
	}
}

// committed looks at the answer to a commit of offsets.
func (r *reader) committed(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
	if errors.Is(err, context.Canceled) {
		return // replaced by a later commit
	}
	if err != nil {
		r.wrong.add("%s: commit offsets: %w", r.name, err)
		return
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			r.wrong.addCode(p.ErrorCode, "%s: commit offset of %s/%d", r.name, topic.Topic, p.Partition)
		}
	}
}

// shared waits until the members share all partitions, and returns the number of changes so far.
func (r *reader) shared(t *testing.T) (changes int) {
	t.Helper()
	harness.Await(t, r.name+" has shared out the partitions", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		changes = r.mu.changes
		sum := 0
		for _, n := range r.mu.assigned {
			if n == 0 {
				return false
			}
			sum += n
		}
		return sum == partitions
	})
	return changes
}

// count returns how many records were read.
func (r *reader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.reads)
}

// finish waits until everything before the ends was read, stops the reader and returns what it read.
func (r *reader) finish(t *testing.T, ends map[int32]int64) []ledger.Read {
	t.Helper()
	harness.Await(t, fmt.Sprintf("%s has read everything before offsets %v", r.name, ends), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for p, end := range ends {
			if r.mu.next[p] < end {
				return false
			}
		}
		return true
	})
	r.close()
	return r.mu.reads // nothing reads any more
}

func (r *reader) close() {
	r.stop()
	r.running.Wait()
	for _, c := range r.clients {
		c.CloseAllowingRebalance()
	}
	r.clients = nil
}

// commitAll commits what was read, as a member does before it leaves.
func (r *reader) commitAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, finishing)
	defer cancel()
	for _, c := range r.clients {
		if err := c.CommitUncommittedOffsets(ctx); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

const (
	// sessionTimeout is of members of classic groups. A busy machine must not cause a rebalance.
	sessionTimeout = time.Minute
	commitInterval = 500 * time.Millisecond
)

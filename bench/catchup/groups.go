package catchup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// span is a stretch of time in which a group read.
type span struct{ from, to time.Duration }

// readBacklog has all groups read the backlog, each from its own beginning on.
func (t *turn) readBacklog(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for n := range t.load.Groups {
		group.Go(func() error {
			select {
			case <-time.After(t.load.WarmUp + time.Duration(n)*t.load.Gap):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := t.readGroup(ctx, fmt.Sprintf("%s-%d", t.load.Name, n)); err != nil {
				return fmt.Errorf("group %d: %w", n, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	t.result.Busy = busy(t.spans)
	return nil
}

// readGroup reads the backlog once, as a group with one member, and sees to it that all of it comes, in order.
func (t *turn) readGroup(ctx context.Context, name string) error {
	client, err := t.load.client(
		kgo.ConsumerGroup(name), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	pace := rate.NewLimiter(rate.Inf, 1<<20)
	if t.load.GroupRate > 0 {
		pace = rate.NewLimiter(rate.Limit(t.load.GroupRate), 1<<20)
	}
	b := backlog{next: make([]int64, len(t.load.Ends)), ends: t.load.Ends}
	s := span{from: time.Since(t.began)}
	for !b.done() {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		before := b.bytes
		fetches.EachRecord(b.take)
		if b.err != nil {
			return b.err
		}
		for left := b.bytes - before; left > 0; left -= 1 << 20 {
			if err := pace.WaitN(ctx, int(min(left, 1<<20))); err != nil {
				return fmt.Errorf("pace: %w", err)
			}
		}
	}
	s.to = time.Since(t.began)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.CatchUp += b.bytes
	t.spans = append(t.spans, s)
	return nil
}

// backlog is how far a group is.
type backlog struct {
	next, ends []int64 // by partition
	bytes      int64   // of values below the ends
	err        error
}

func (b *backlog) take(r *kgo.Record) {
	if r.Offset != b.next[r.Partition] && b.err == nil {
		b.err = fmt.Errorf("partition %d gave offset %d, not %d", r.Partition, r.Offset, b.next[r.Partition])
	}
	b.next[r.Partition] = r.Offset + 1
	if r.Offset < b.ends[r.Partition] {
		b.bytes += int64(len(r.Value))
	}
}

func (b *backlog) done() bool {
	for p, end := range b.ends {
		if b.next[p] < end {
			return false
		}
	}
	return true
}

// busy is how long at least one of the spans lasted.
func busy(spans []span) (total time.Duration) {
	slices.SortFunc(spans, func(a, b span) int { return int(a.from - b.from) })
	end := time.Duration(0)
	for _, s := range spans {
		if s.to > end {
			total += s.to - max(s.from, end)
			end = s.to
		}
	}
	return total
}

package owner

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/metadata"
)

// queue holds proposals in order until the append loop takes them. The bytes of all unanswered proposals are bounded.
// Urgent proposals go ahead of all others and need no space. While the log budget delays commits, a snapshot ends the delay. Its command
// must not wait behind these commits. Only the replica itself makes urgent proposals, one at a time.
type queue struct {
	space *semaphore.Weighted
	wake  chan struct{} // holds a token when items may have become non-empty

	mu     sync.Mutex
	urgent []*Proposal // ahead of items; guarded by mu
	items  []*Proposal // guarded by mu
	bytes  int64       // sum of the sizes of items; guarded by mu
	// growth is the maximum growth of the state by admitted proposals that are not answered; guarded by mu.
	growth metadata.Growth
	anew   int64 // sum of Proposal.anew; guarded by mu
	closed bool  // guarded by mu
}

func newQueue(bytes int64) *queue {
	return &queue{space: semaphore.NewWeighted(bytes), wake: make(chan struct{}, 1)}
}

func (p *Proposal) weight() int64 {
	if urgent(p.cmd) {
		return 0
	}
	return int64(p.size) + proposalOverhead
}

// put waits for the space of all the proposals until ctx ends or closing is closed, then queues them in their order.
// put returns ErrNotOwner if the queue is closed. If put returns an error, no proposal is queued.
func (q *queue) put(ctx context.Context, closing <-chan struct{}, ps ...*Proposal) error {
	if w := weightOf(ps); w > 0 && !q.space.TryAcquire(w) {
		if err := q.waitForSpace(ctx, w, closing); err != nil {
			q.unreserve(ps...)
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.space.Release(weightOf(ps))
		q.releaseGrowth(ps...)
		return ErrNotOwner
	}
	for _, p := range ps {
		if urgent(p.cmd) {
			q.urgent = append(q.urgent, p)
		} else {
			q.items = append(q.items, p)
			q.bytes += int64(p.size)
		}
	}
	q.signal()
	return nil
}

func (q *queue) waitForSpace(ctx context.Context, weight int64, closing <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-closing:
			cancel()
		case <-stop:
		}
	}()
	err := q.space.Acquire(ctx, weight)
	if err == nil {
		return nil
	}
	select {
	case <-closing:
		return ErrNotOwner
	default:
		return fmt.Errorf("wait for space in the owner's queue: %w", err)
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take moves all urgent proposals to group, then proposals from the queue's head: at most maxBytes together, or a single larger one, until
// group has maxCount. Withdrawn proposals are dropped.
func (q *queue) take(group []*Proposal, maxBytes, maxCount int) []*Proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.urgent {
		if p.stay.CompareAndSwap(inQueue, taken) {
			group = append(group, p)
		}
	}
	q.urgent = nil
	bytes, n := 0, 0
	for ; n < len(q.items) && len(group) < maxCount; n++ {
		p := q.items[n]
		if len(group) > 0 && bytes+p.size > maxBytes {
			break
		}
		q.bytes -= int64(p.size)
		if !p.stay.CompareAndSwap(inQueue, taken) {
			q.space.Release(p.weight())
			q.releaseGrowth(p)
			continue
		}
		bytes += p.size
		group = append(group, p)
	}
	clear(q.items[:n])
	q.items = q.items[n:]
	if len(q.items) > 0 {
		q.signal()
	}
	return group
}

// ahead returns the bytes and the number of the commands in the queue.
func (q *queue) ahead() (bytes int64, count int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes, len(q.items)
}

// close refuses further proposals and returns those in the queue.
func (q *queue) close() []*Proposal {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	return q.take(nil, int(^uint(0)>>1), int(^uint(0)>>1))
}

// room is the room of a state for growth.
type room struct {
	bytes           int64 // for growth of every kind
	topicsAndGroups int64 // for topic and group metadata
	markers         int64 // partitions of open transactions
	empty           int64 // partitions that never had a record
}

// reserve reserves growth, or returns errMemory, errTopicsAndGroups or errMarkers if all reserved growth would then exceed the room. Commits
// are no topic or group metadata and need no room there. The growth is released when its proposal is answered. left returns the room. It is called
// with mu held, so that no growth is released between the reading of the load and that of the reserved growth.
func (q *queue) reserve(growth metadata.Growth, left func() room) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, sum := left(), q.growth.Add(growth, 1)
	switch {
	case r.bytes <= 0 || sum.Memory(r.empty) > r.bytes:
		return errMemory
	case growth.TopicsAndGroups > 0 && sum.TopicsAndGroups > r.topicsAndGroups:
		return errTopicsAndGroups
	case growth.Added > 0 && sum.Added > r.markers:
		return errMarkers
	}
	q.growth = sum
	return nil
}

// reserveAnew reserves the bytes that a command replaces without growth, or returns errTopicsAndGroups if all such commands replace more than a bound.
func (q *queue) reserveAnew(p *Proposal, bytes, bound int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.anew > 0 && q.anew+bytes > bound {
		return errTopicsAndGroups
	}
	p.anew = bytes
	q.anew += bytes
	return nil
}

// with returns all reserved growth, and this growth.
func (q *queue) with(growth metadata.Growth) metadata.Growth {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.growth.Add(growth, 1)
}

// unreserve gives back the growth of proposals that were not queued.
func (q *queue) unreserve(ps ...*Proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.releaseGrowth(ps...)
}

// release gives back the space and the growth of answered proposals.
func (q *queue) release(ps []*Proposal) {
	q.space.Release(weightOf(ps))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.releaseGrowth(ps...)
}

// releaseGrowth gives back the growth of proposals. q.mu must be held.
func (q *queue) releaseGrowth(ps ...*Proposal) {
	for _, p := range ps {
		q.growth = q.growth.Add(p.growth, -1)
		q.anew -= p.anew
		p.anew = 0
	}
}

func weightOf(ps []*Proposal) (n int64) {
	for _, p := range ps {
		n += p.weight()
	}
	return n
}

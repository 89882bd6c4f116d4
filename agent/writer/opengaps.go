package writer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/metadata/id"
)

// gapOvertaken is how long a gap may stay open once an earlier batch of its producer went past it. A client that has sent
// both by one connection hears of the later one first, since answers keep the order of requests, and some send nothing
// that is missing between the two before they have heard of the earlier one: Java's producer repeats one batch of a partition
// at a time (RecordAccumulator.shouldStopDrainBatchesForPartition). It would wait for as long as the gap does.
const gapOvertaken = 100 * time.Millisecond

// sequence is whose batches are in order: a producer's in a partition.
type sequence struct {
	partition id.TopicPartition
	producer  int64
}

// openGaps are the gaps whose batches are being handed in again.
type openGaps struct {
	open atomic.Int32
	mu   struct {
		sync.Mutex
		gaps map[sequence]map[*openGap]struct{}
	}
}

// openGap is one of them. The lock of openGaps guards it.
type openGap struct {
	giveUp  context.CancelFunc
	giveUps *time.Timer // set once it is overtaken
}

// enter notes a gap until leave is called; giveUp ends the wait for it.
func (o *openGaps) enter(s sequence, giveUp context.CancelFunc) (leave func()) {
	g := &openGap{giveUp: giveUp}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.gaps == nil {
		o.mu.gaps = map[sequence]map[*openGap]struct{}{}
	}
	if o.mu.gaps[s] == nil {
		o.mu.gaps[s] = map[*openGap]struct{}{}
	}
	o.mu.gaps[s][g] = struct{}{}
	o.open.Add(1)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.open.Add(-1)
		if delete(o.mu.gaps[s], g); len(o.mu.gaps[s]) == 0 {
			delete(o.mu.gaps, s)
		}
		if g.giveUps != nil {
			g.giveUps.Stop()
		}
	}
}

// overtaken notes that a batch was settled which is not ahead of its producer's sequence. Gaps get the time anew with each.
func (o *openGaps) overtaken(s sequence) {
	if o.open.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for g := range o.mu.gaps[s] {
		if g.giveUps == nil {
			g.giveUps = time.AfterFunc(gapOvertaken, g.giveUp)
		} else {
			g.giveUps.Reset(gapOvertaken) // what is missing comes, one by one
		}
	}
}

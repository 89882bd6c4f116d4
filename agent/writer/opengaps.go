package writer

import (
	"context"
	"maps"
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

// gapLost is how long a gap may stay open whose producer's client was told to send a batch again (Lost): what is missing
// comes by then, or the client waits for this gap itself. After an error franz-go sends nothing of a partition before all
// that is under way there was answered (recBuf.okOnSink). A second is what sending again takes where PUTs are slow.
const gapLost = time.Second

// What was under way when a client was told to send a batch again may be a gap up to lostFor later: it is on its way for a
// minute at most. At mostLost producers, about 2 MiB, what is older is forgotten, and if there is nothing older all; their gaps
// stay open for as long as others.
const (
	lostFor  = 90 * time.Second
	mostLost = 32768
)

// sequence identifies the batches that a producer numbers in order: those of one partition.
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
		lost map[int64]time.Time // by producer: when a batch was; at most mostLost
	}
}

// openGap is one of them. The lock of openGaps guards it.
type openGap struct {
	giveUp  context.CancelFunc
	giveUps *time.Timer // set once it is overtaken, or an earlier batch lost
}

// enter notes a gap until leave is called; giveUp ends the wait for it.
func (o *openGaps) enter(s sequence, giveUp context.CancelFunc) (leave func()) {
	g := &openGap{giveUp: giveUp}
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, ok := o.mu.lost[s.producer]; ok && time.Since(at) < lostFor {
		g.giveUps = time.AfterFunc(gapLost, giveUp)
	}
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

// Lost notes that a client was told to send a producer's batch again, of whatever partition: what this writer has of batches
// behind it, or is about to have, does not wait for it for long.
func (w *Writer) Lost(producer int64) { w.gaps.lose(producer, time.Now()) }

func (o *openGaps) lose(producer int64, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.mu.lost) >= mostLost {
		maps.DeleteFunc(o.mu.lost, func(_ int64, at time.Time) bool { return now.Sub(at) >= lostFor })
	}
	if o.mu.lost == nil || len(o.mu.lost) >= mostLost {
		o.mu.lost = map[int64]time.Time{}
	}
	o.mu.lost[producer] = now
	for s, gaps := range o.mu.gaps {
		for g := range gaps {
			if s.producer == producer && g.giveUps == nil {
				g.giveUps = time.AfterFunc(gapLost, g.giveUp)
			}
		}
	}
}

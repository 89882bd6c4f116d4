package metadata

import (
	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// sweepSteps bounds the topics, partitions and producers that one Tick looks at for expired producers.
	sweepSteps = 4096
	// cleanupExtents bounds the extents of deleted topics and trimmed fronts that one Tick takes from their bundles. While CleaningUp
	// is true, the owner proposes a Tick every 10 ms.
	cleanupExtents = 4096
	// resultRetentionMs is how long the results of a closed session stay readable.
	resultRetentionMs = 10 * 60 * 1000
)

// tick does a bounded share of the work that time or earlier commands left to do.
func (s *machine) tick(_ *Tick, fx *Effects) Result {
	s.drainCleanup(cleanupExtents)
	s.sweepProducers()
	s.sweepOffsets()
	s.retireSessions(fx)
	s.forgetNames()
	s.expireTransactions(fx)
	return Result{}
}

// cleanupQueue holds what left the tables but still counts in its bundles, first in, first out.
type cleanupQueue struct {
	items btree.Map[uint64, cleanupItem]
	next  uint64 // key of the next item pushed; keys have no meaning beyond their order
	bytes int64  // memory of the partitions of all items, without their extents; derived
}

// cleanupItem is a tree of extents, then the partitions of a deleted topic; either may be empty. Items in the queue
// are not changed, only replaced.
type cleanupItem struct {
	extents    extent.Tree
	partitions *btree.Map[int32, *partition] // nil if none
}

func (q *cleanupQueue) snapshot() cleanupQueue {
	return cleanupQueue{items: *q.items.Copy(), next: q.next, bytes: q.bytes}
}

func (q *cleanupQueue) push(i cleanupItem) {
	q.items.Set(q.next, i)
	q.next++
}

// scan calls yield for each tree of extents that is left, in the order they are drained.
func (q *cleanupQueue) scan(yield func(extent.Tree) bool) {
	q.items.Scan(func(_ uint64, i cleanupItem) bool {
		more := i.extents.Empty() || yield(i.extents)
		if more && i.partitions != nil {
			i.partitions.Scan(func(_ int32, p *partition) bool {
				more = p.extents.Empty() || yield(p.extents)
				return more
			})
		}
		return more
	})
}

// CleaningUp reports whether the cleanup queue has items, so that Ticks may have extents to take from their bundles. O(1).
func (s *machine) CleaningUp() bool { return s.cleanup.items.Len() > 0 }

// CleanupExtents returns the number of extents that have left their partitions and still count in their bundles. It visits all
// items of the cleanup queue and their partitions, so call it on frozen states only.
func (s *machine) CleanupExtents() (n int64) {
	s.cleanup.scan(func(t extent.Tree) bool {
		n += t.Totals().Extents
		return true
	})
	return n
}

// drainCleanup takes up to limit extents off the queue, and from their bundles.
func (s *machine) drainCleanup(limit int) {
	for limit > 0 {
		key, item, ok := s.cleanup.items.PopMin()
		if !ok {
			return
		}
		if item.partitions != nil {
			item.partitions = item.partitions.Copy()
		}
		for limit > 0 && s.cleanup.refill(&item) {
			limit -= s.dropExtents(&item.extents, limit)
		}
		if s.cleanup.refill(&item) {
			s.cleanup.items.Set(key, item)
		}
	}
}

// refill makes the next extents of the item its tree; false if there are none. It takes partitions off the item's
// own copy of them.
func (q *cleanupQueue) refill(i *cleanupItem) bool {
	for i.extents.Empty() {
		if i.partitions == nil {
			return false
		}
		_, p, ok := i.partitions.PopMin()
		if !ok {
			return false
		}
		q.bytes -= p.producerCount().partitionBytes(1)
		i.extents = p.extents
	}
	return true
}

// dropExtents takes up to limit extents off the front of a tree and from their bundles, and says how many.
func (s *machine) dropExtents(t *extent.Tree, limit int) int {
	n, end := 0, int64(0)
	t.Ascend(0, func(x *extent.Extent) bool {
		s.releaseExtent(x)
		n, end = n+1, x.Last+1
		return n < limit
	})
	t.TrimFront(s.gen, end)
	return n
}

// sweepCursor is where the search for expired producers goes on.
type sweepCursor struct {
	topic     string // topicKey, "" at the beginning
	partition int32
}

// sweepProducers looks for producers idle longer than their retention, from where the last Tick stopped, and puts
// them to rest. It visits what a Tick's steps allow, or up to the last topic.
func (s *machine) sweepProducers() {
	steps := sweepSteps
	s.topics.Copy().Ascend(s.sweep.topic, func(key string, e *topicEntry) bool {
		if key != s.sweep.topic {
			s.sweep = sweepCursor{topic: key}
		}
		steps--
		s.sweepTopic(e, &steps)
		return steps > 0
	})
	if steps > 0 {
		s.sweep = sweepCursor{}
	}
}

// sweepTopic sweeps a topic's partitions from the cursor on.
func (s *machine) sweepTopic(e *topicEntry, steps *int) {
	var expired []expiredProducer
	e.partitions.Ascend(s.sweep.partition, func(n int32, p *partition) bool {
		if n != s.sweep.partition {
			s.sweep.partition = n
		}
		*steps--
		expired = s.sweepPartition(expired, n, p, steps)
		return *steps > 0
	})
	if len(expired) == 0 {
		return
	}
	e = s.mutableTopic(e)
	for _, x := range expired {
		p, _ := e.partition(x.partition)
		p = s.mutablePartition(e, x.partition, p)
		s.counting(e, p, func() { s.rest(p, x.producer) })
	}
}

type expiredProducer struct {
	partition int32
	producer  int64
}

// sweepPartition appends the expired producers of a partition: in the order of their last use.
func (s *machine) sweepPartition(expired []expiredProducer, n int32, p *partition, steps *int) []expiredProducer {
	limit := seconds(s.now - ProducerIDExpirationMs)
	p.ascendUses(func(u lastUse) bool {
		if *steps <= 0 || u.span >= limit/useSpan {
			return false
		}
		*steps--
		expired = append(expired, expiredProducer{n, u.producerID})
		return true
	})
	return expired
}

// retireSessions forgets the results of sessions closed long enough ago, and the sessions themselves but for those by which
// their zones are remembered. It walks the open and lately closed sessions, which are as many as there are agents.
func (s *machine) retireSessions(fx *Effects) {
	var old []id.Session
	s.sessions.Scan(func(n id.Session, e *session) bool {
		if e.closed && s.now-e.closedAt >= resultRetentionMs {
			old = append(old, n)
		}
		return true
	})
	if len(old) == 0 {
		return
	}
	newest := s.newestByZone()
	for _, n := range old {
		e, _ := s.sessions.Get(n)
		if s.retainsZone(n, e, newest) {
			if e.results.Len() > 0 {
				s.mutableSession(n, e).results = btree.Map[uint32, *commit.Result]{}
			}
			continue
		}
		s.sessions.Delete(n)
		s.load.Other -= e.weight()
		if last, ok := s.instances.Get(e.instance); ok && last == n {
			s.instances.Delete(e.instance)
		}
		fx.Members = fx.Members || newest[e.zone] == n // a zone is forgotten
	}
}

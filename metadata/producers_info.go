package metadata

import (
	"iter"
	"math"
	"slices"

	"github.com/freshet-io/freshet/metadata/id"
)

// Producers gives the producers of a partition that are not at rest, and those with an open transaction, in the order
// of their ids; false if there is no such partition.
func (s *machine) Producers(tp id.TopicPartition) (iter.Seq[ProducerInfo], bool) {
	p, ok := s.partitionEntry(tp)
	if !ok {
		return nil, false
	}
	return func(yield func(ProducerInfo) bool) {
		for _, producerID := range p.activeProducers() {
			if !yield(p.producerInfo(producerID)) {
				return
			}
		}
	}, true
}

// activeProducers gives the ids in order. p may be nil.
func (p *partition) activeProducers() []int64 {
	if p == nil {
		return nil
	}
	ids := p.producers.Keys()
	if p.transactions != nil {
		ids = append(ids, p.transactions.first.Keys()...)
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	return ids
}

func (p *partition) producerInfo(producerID int64) ProducerInfo {
	q, _ := p.producer(producerID)
	info := ProducerInfo{
		ProducerID: producerID, Epoch: q.epoch, LastSequence: -1, LastTimestampMs: -1, CoordinatorEpoch: -1, TransactionStart: -1,
	}
	if q.kept > 0 || q.next != 0 { // else only its epoch is known, from a marker
		info.LastSequence = (q.next - 1) & math.MaxInt32
	}
	if q.seen > 0 {
		info.LastTimestampMs = int64(q.seen) * 1000
	}
	if q.flags&marked != 0 {
		info.CoordinatorEpoch = coordinatorEpoch
	}
	if first, ok := p.openSince(producerID); ok {
		info.TransactionStart = first
	}
	return info
}

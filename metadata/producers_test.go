package metadata

import "github.com/freshet-io/freshet/metadata/id"

// ProducerSequence gives the base sequence that would be accepted next of a producer in a partition. ok is false
// where no particular sequence is awaited, because any batch gets its final answer now: no such partition, an older
// epoch, or a producer whose state may have been forgotten.
func (s *machine) ProducerSequence(tp id.TopicPartition, producerID int64, epoch int16) (next int32, ok bool) {
	p, exists := s.partitionEntry(tp)
	if !exists {
		return 0, false
	}
	e, _ := s.topics.Get(topicKey(tp.Topic))
	q, known := p.producer(producerID)
	switch {
	case !known:
		return 0, !e.mayHaveForgotten(p, producerID)
	case epoch < q.epoch:
		return 0, false
	case epoch > q.epoch:
		return 0, true
	}
	return q.next, true
}

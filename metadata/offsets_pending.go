package metadata

import (
	"slices"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/id"
)

// pendingOffset is an offset committed in a transaction that has not ended. A partition has one per producer.
type pendingOffset struct {
	producer int64
	offset   offset
	note     offsetNote
}

// addPending stores a pending offset in place of an earlier one of its producer.
func (t *topicOffsets) addPending(partition int32, p pendingOffset) {
	if t.pending == nil {
		t.pending = new(btree.Map[int32, []pendingOffset])
	}
	old, _ := t.pending.Get(partition)
	list := make([]pendingOffset, 0, len(old)+1)
	for _, q := range old {
		if q.producer != p.producer {
			list = append(list, q)
		} else {
			t.countPending(&q, -1)
		}
	}
	t.countPending(&p, 1)
	at, _ := slices.BinarySearchFunc(list, p.producer, comparePending)
	t.pending.Set(partition, slices.Insert(list, at, p))
}

// countPending adds a pending offset to the counts, times times.
func (t *topicOffsets) countPending(p *pendingOffset, times int64) {
	t.pendingCount += times
	t.pendingBytes += times * pendingWeight(p.note.metadata)
}

func comparePending(p pendingOffset, producer int64) int {
	switch {
	case p.producer < producer:
		return -1
	case p.producer > producer:
		return 1
	}
	return 0
}

func (t *topicOffsets) hasPending(partition int32) bool {
	if t.pending == nil {
		return false
	}
	_, ok := t.pending.Get(partition)
	return ok
}

// takePending removes a producer's pending offsets and gives their partitions and values in partition order.
func (t *topicOffsets) takePending(producer int64) (partitions []int32, taken []pendingOffset) {
	t.pending.Scan(func(n int32, list []pendingOffset) bool {
		if at, ok := slices.BinarySearchFunc(list, producer, comparePending); ok {
			partitions, taken = append(partitions, n), append(taken, list[at])
			t.countPending(&list[at], -1)
		}
		return true
	})
	for _, n := range partitions {
		list, _ := t.pending.Get(n)
		if len(list) == 1 {
			t.pending.Delete(n)
			continue
		}
		t.pending.Set(n, slices.DeleteFunc(slices.Clone(list), func(p pendingOffset) bool { return p.producer == producer }))
	}
	if t.pending.Len() == 0 {
		t.pending = nil
	}
	return partitions, taken
}

// endPendingOffsets settles what a producer's transaction committed for a group. A pending offset takes effect only
// where no later commit was stored meanwhile (Kafka: OffsetMetadataManager.replayEndTransactionMarker). The cost is
// that of the group's topics and of what is pending for them.
func (s *machine) endPendingOffsets(group string, producerID int64, commit bool) {
	g, ok := s.groups.Get(group)
	if !ok {
		return
	}
	var keys []string
	g.topics.Scan(func(key string, t *topicOffsets) bool {
		if t.pending != nil {
			keys = append(keys, key)
		}
		return true
	})
	if len(keys) == 0 {
		return
	}
	g = s.mutableGroup(group)
	for _, key := range keys {
		t := s.mutableOffsets(g, key)
		s.weighOffsets(t, func() {
			partitions, taken := t.takePending(producerID)
			for i, n := range partitions {
				if before, ok := t.offsets.Get(n); commit && (!ok || before.order < taken[i].offset.order) {
					t.set(n, taken[i].offset, taken[i].note)
				}
			}
		})
		if t.empty() {
			s.weighTopicOffsets(t, -1)
			g.topics.Delete(key)
		}
	}
	s.dropIfEmpty(group, g)
}

// PendingOffset tells whether an open transaction has committed an offset for a partition: what is read now may
// change when it ends (KIP-447, require_stable).
func (s *machine) PendingOffset(group string, tp id.TopicPartition) bool {
	t := s.groupTopic(group, tp.Topic)
	return t != nil && t.hasPending(tp.Partition)
}

// HasOffsets tells whether a group has committed offsets for topics that exist, and whether a transaction has some
// pending there.
func (s *machine) HasOffsets(group string) (committed, pending bool) {
	g, ok := s.groups.Get(group)
	if !ok {
		return false, false
	}
	g.topics.Scan(func(key string, t *topicOffsets) bool {
		if _, ok := s.offsetTopic(key); ok {
			committed = committed || t.offsets.Len() > 0
			pending = pending || t.pending != nil
		}
		return !committed || !pending
	})
	return committed, pending
}

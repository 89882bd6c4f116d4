package metadata

import (
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Load counts the parts of a virtual cluster's state that determine its memory and the size of its snapshots. Compaction, retention and
// deletion reduce it.
type Load struct {
	Extents int64 // of all partitions, with markers, also of deleted topics
	Bundles int   // live bundles
	Fresh   int   // live bundles of level 0: not compacted yet

	// Cleanup counts items of the cleanup queue. A deleted topic is one item, and one per partition in a state restored from a snapshot.
	Cleanup int
	// CleanupBytes is about the memory of the partitions in the queue without their extents. A restored state has the extents alone.
	CleanupBytes int64

	// Partitions counts partitions that had a record, also of topics whose deletion can be taken back.
	Partitions int64
	// Empty counts the other partitions, of the same topics.
	Empty int64
	// Added counts the partitions of open transactions. The end of a transaction writes a marker to each, which may be its first record.
	Added int64
	// Other is about the memory of everything but partitions, extents and producers.
	Other int64
	// TopicsAndGroups is the part of Other for topics, configs, groups, offsets, transactions and sessions. Commits of records add nothing
	// to it, except their partitions to open transactions. The owner bounds it apart.
	TopicsAndGroups int64

	offsets int64 // of Other, the memory of offsets of groups; see LimitOffsetBytes
	text    int64 // length of names and configs, without those of transactions; see LimitTextBytes

	// Producers are the active producers, counted once per partition, and Resting those of which only the next sequence
	// is kept. Those of topics whose deletion can be taken back count.
	Producers, Resting int
}

// ProducerBytes is about the memory that producers take.
func (l *Load) ProducerBytes() int64 {
	return int64(l.Producers)*ProducerBytes + int64(l.Resting)*RestingBytes
}

// Load returns the state's load, in constant time.
func (s *machine) Load() Load {
	l := s.load
	l.Other, l.TopicsAndGroups, l.Added = s.otherBytes(), s.topicsAndGroupsBytes(), s.transactions.added
	l.Bundles, l.Cleanup, l.CleanupBytes = s.bundles.Len(), s.cleanup.items.Len(), s.cleanup.bytes
	l.Producers, l.Resting = s.counts.active, s.counts.resting
	return l
}

// count adds n times a live bundle: 1 if it becomes live, -1 if it dies.
func (l *Load) count(b *liveBundle, n int) {
	if b.level == 0 {
		l.Fresh += n
	}
}

// countLoad recounts the load after a snapshot was read.
func (s *machine) countLoad() {
	s.load = Load{}
	s.bundles.Scan(func(_ id.Bundle, b liveBundle) bool {
		s.load.Extents += int64(b.extents)
		s.load.count(&b, 1)
		return true
	})
	markers := func(t extent.Tree) bool {
		t.Ascend(0, func(x *extent.Extent) bool {
			if x.Kind == extent.Marker {
				s.load.Extents++
			}
			return true
		})
		return true
	}
	s.everyTree(markers)
	s.countProducers()
	s.countOther()
}

// everyTree calls yield for the extents of every partition, also of deleted topics, and of every item of the cleanup queue, until yield
// returns false.
func (s *machine) everyTree(yield func(extent.Tree) bool) {
	more := true
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		e.partitions.Scan(func(_ int32, p *partition) bool {
			more = yield(p.extents)
			return more
		})
		return more
	})
	if more {
		s.cleanup.scan(yield)
	}
}

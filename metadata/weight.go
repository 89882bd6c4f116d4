package metadata

import "github.com/freshet-io/freshet/metadata/id"

// Estimates of the memory of an entry, its slot in trees, maps and slices included. Maps and slices grow by doubling, so an
// estimate is the average right after such a growth. TestLoad_MemoryBytes compares the estimates with the heap.
const (
	// ExtentBytes is the memory of an extent.
	ExtentBytes = 96
	// PartitionBytes is the memory of a partition that had a record, without its extents and producers. A partition
	// without records takes none.
	PartitionBytes = 352

	topicBytes         = 640                                       // of a topic, without its name and configs
	resourceBytes      = 512                                       // of another resource with configs, without its name and configs
	configBytesEach    = 64                                        // of a config entry, without key and value
	bundleBytes        = 128                                       // of a live bundle
	deadBytes          = 96                                        // of a dead bundle
	groupBytes         = 512                                       // of a group, without its name, members and offsets
	memberBytes        = 128                                       // of a group member, without its ID and value
	topicOffsetsBytes  = 512                                       // of one topic of a group
	offsetBytes        = 96                                        // of a committed offset
	noteBytes          = 96                                        // of an offset with metadata or expiry, on top of offsetBytes, without the metadata
	pendingExtra       = offsetBytes + noteBytes - pendingOverhead // on top of pendingWeight: a pending offset weighs as much as the committed one that it becomes
	transactionBytes   = 512                                       // of an open transaction, without its partitions and groups
	addedBytes         = 176                                       // of a partition or group of a transaction, without the group's name, with the marker and entry of an abort
	transactionalBytes = 240                                       // of a partition with open or aborted transactions, on top of PartitionBytes
	abortedBytes       = 80                                        // of an aborted transaction of a partition
	sessionBytes       = 1 << 10                                   // of a session, without its endpoints
	endpointBytes      = 96
	endedBytes         = 96  // of an ended session
	goneBytes          = 128 // of the name of a deleted topic
	cleanupBytes       = 128 // of an item of the cleanup queue, without its extents
)

// MemoryBytes estimates the memory of the state. Ends of open transactions may write the first records of up to Added partitions,
// which count already. Results of submissions that agents have not acknowledged do not count.
func (l *Load) MemoryBytes() int64 {
	partitions := l.Partitions + min(l.Added, l.Empty)
	return l.Extents*ExtentBytes + partitions*PartitionBytes + l.ProducerBytes() + int64(l.Cleanup)*cleanupBytes + l.CleanupBytes + l.Other
}

// otherBytes returns Load.Other: everything but partitions, extents, producers and the cleanup queue. The machine's own load.Other
// is the part of it that commands adjust; the rest follows from table sizes.
func (s *machine) otherBytes() int64 {
	return s.topicsAndGroupsBytes() + s.counts.transactionBytes() +
		int64(s.bundles.Len())*bundleBytes + int64(s.dead.Len())*deadBytes +
		int64(s.ended.Len())*endedBytes
}

// topicsAndGroupsBytes returns Load.TopicsAndGroups.
func (s *machine) topicsAndGroupsBytes() int64 { return s.load.Other + s.transactions.bytes }

// transactionBytes returns the memory of the partitions' transactions.
func (c producerCount) transactionBytes() int64 {
	return int64(c.transactional)*transactionalBytes + int64(c.aborted)*abortedBytes
}

// partitionBytes returns the memory of a number of partitions without their extents. The counts are of all of them.
func (c producerCount) partitionBytes(partitions int) int64 {
	return int64(partitions)*PartitionBytes + int64(c.active)*ProducerBytes + int64(c.resting)*RestingBytes + c.transactionBytes()
}

// stringBytes returns the memory of a string.
func stringBytes(s string) int64 { return allocated(int64(len(s))) }

// allocated returns the memory of an object without pointers. The allocator rounds sizes up: by an eighth at most below 2 KiB, by
// a quarter at most from there on.
func allocated(bytes int64) int64 {
	if bytes > 2<<10 {
		return bytes + bytes/4
	}
	return bytes + bytes/8
}

func (t *Topic) weight() int64 { return topicBytes + stringBytes(t.Name) + configWeight(t.Configs) }

func configWeight(m map[string]string) int64 {
	n := int64(len(m)) * configBytesEach
	for k, v := range m {
		n += stringBytes(k) + stringBytes(v)
	}
	return n
}

// goneWeight is the weight of a name of a deleted topic.
func goneWeight(name string) int64 { return goneBytes + stringBytes(name) }

// resourceWeight is the weight of the configs of a resource other than a topic.
func resourceWeight(name string, m map[string]string) int64 {
	if len(m) == 0 {
		return 0
	}
	return resourceBytes + stringBytes(name) + configWeight(m)
}

func (e *session) weight() int64 {
	n := sessionBytes + stringBytes(e.instance) + stringBytes(e.zone) + stringBytes(e.software) + stringBytes(e.peer)
	for i := range e.endpoints {
		n += endpointBytes + stringBytes(e.endpoints[i].Listener) + stringBytes(e.endpoints[i].Host)
	}
	return n
}

// weight returns the weight of a group without its offsets.
func (g *groupEntry) weight(name string) int64 {
	n := groupBytes + stringBytes(name) + allocated(int64(len(g.head)))
	g.members.Scan(func(member string, value []byte) bool {
		n += memberWeight(member, value)
		return true
	})
	return n
}

func memberWeight(member string, value []byte) int64 {
	return memberBytes + stringBytes(member) + allocated(int64(len(value)))
}

// offsetsWeight returns the weight of all offsets of a group.
func (g *groupEntry) offsetsWeight() (n int64) {
	g.topics.Scan(func(_ string, t *topicOffsets) bool {
		n += t.weight()
		return true
	})
	return n
}

func (t *topicOffsets) weight() int64 {
	return topicOffsetsBytes + int64(t.offsets.Len())*offsetBytes + t.noteBytes + t.pendingBytes*5/4 + t.pendingCount*pendingExtra
}

func (n *offsetNote) weight() int64 { return noteBytes + stringBytes(n.metadata) }

// weighOffsets runs change, which modifies t, and adds the difference in weight to load. t comes from mutableOffsets.
func (s *machine) weighOffsets(t *topicOffsets, change func()) {
	before := t.weight()
	change()
	s.addOffsetBytes(t.weight() - before)
}

func (t *transaction) weight() int64 {
	n := transactionBytes + stringBytes(t.id)
	if t.partitions != nil {
		n += int64(t.partitions.Len()) * addedBytes
	}
	if t.groups != nil {
		n += int64(t.groups.Len())*addedBytes + t.groupBytes*5/4
	}
	return n
}

// weigh adds the transaction to the sums, multiplied by times: 1 when it is inserted, -1 when it is removed.
func (t *transactionTables) weigh(x *transaction, times int64) {
	t.bytes += times * x.weight()
	t.text += times * x.text()
	if x.partitions != nil {
		t.added += times * int64(x.partitions.Len())
	}
}

// countOther recomputes load.Partitions, load.Empty, load.Other, load.offsets, load.text and the sums of the transactions after a snapshot was read.
func (s *machine) countOther() {
	s.load.Partitions, s.load.Empty, s.load.Other, s.load.offsets, s.load.text = 0, 0, 0, 0, 0
	s.transactions.bytes, s.transactions.added, s.transactions.text = 0, 0, 0
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		s.load.Partitions += int64(e.partitions.Len())
		s.load.Empty += e.empty()
		s.weighTopic(e.topic, 1)
		return true
	})
	s.configs.Scan(func(key string, m map[string]string) bool {
		s.weighResource(key[1:], m, 1)
		return true
	})
	s.gone.Scan(func(name string, _ int64) bool {
		s.load.Other += goneWeight(name)
		return true
	})
	s.sessions.Scan(func(_ id.Session, e *session) bool {
		s.load.Other += e.weight()
		return true
	})
	s.groups.Scan(func(name string, g *groupEntry) bool {
		s.weighGroup(name, g, 1)
		s.addOffsetBytes(g.offsetsWeight())
		return true
	})
	s.transactions.byProducer.Scan(func(_ int64, t *transaction) bool {
		s.transactions.weigh(t, 1)
		return true
	})
}

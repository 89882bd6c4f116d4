package metadata

// Estimates of the memory that parts of a state take, with their share of the tables. Tables and slices grow by doubling, so
// an estimate is what an entry takes on average where they have just grown. TestLoad_MemoryBytes compares them with the heap.
const (
	// ExtentBytes is the memory of an extent.
	ExtentBytes = 96
	// PartitionBytes is the memory of a partition that had a record, without its extents and producers. A partition
	// without records takes none.
	PartitionBytes = 352

	topicBytes        = 640 // beside its name and configs
	configBytesEach   = 64  // of a config entry, beside key and value
	bundleBytes       = 128 // of a live bundle
	deadBytes         = 96  // of a dead one
	groupBytes        = 512 // beside its name, members and offsets
	memberBytes       = 128 // beside its id and value
	topicOffsetsBytes = 512 // of one topic of a group
	offsetBytes       = 96
	noteBytes         = 96 // of an offset with metadata, beside that
	transactionBytes  = 512
	addedBytes        = 96 // of a partition or group of a transaction, beside the group's name
	sessionBytes      = 1 << 10
	endedBytes        = 96
	goneBytes         = 128
	cleanupBytes      = 80 // of an item of the cleanup queue, beside its extents
)

// MemoryBytes estimates the memory of the state. Results of submissions that agents have not acknowledged are not in it.
func (l *Load) MemoryBytes() int64 {
	return l.Extents*ExtentBytes + l.Partitions*PartitionBytes + l.ProducerBytes() + int64(l.Cleanup)*cleanupBytes + l.Other
}

// otherBytes is the part of the estimate that is neither of partitions nor of their extents and producers.
func (s *machine) otherBytes() int64 {
	return s.load.Other + s.transactions.bytes +
		int64(s.bundles.Len())*bundleBytes + int64(s.dead.Len())*deadBytes + int64(s.sessions.Len())*sessionBytes +
		int64(s.ended.Len())*endedBytes + int64(s.gone.Len())*goneBytes
}

func (t *Topic) weight() int64 { return topicBytes + int64(len(t.Name)) + configWeight(t.Configs) }

func configWeight(m map[string]string) int64 {
	return int64(configBytes(m)) + int64(len(m))*configBytesEach
}

// weight is that of a group without the offsets.
func (g *groupEntry) weight(name string) int64 {
	n := groupBytes + int64(len(name)) + int64(len(g.head))
	g.members.Scan(func(member string, value []byte) bool {
		n += memberWeight(member, value)
		return true
	})
	return n
}

func memberWeight(member string, value []byte) int64 {
	return memberBytes + int64(len(member)+len(value))
}

// offsetsWeight is that of all offsets of a group.
func (g *groupEntry) offsetsWeight() (n int64) {
	g.topics.Scan(func(_ string, t *topicOffsets) bool {
		n += t.weight()
		return true
	})
	return n
}

func (t *topicOffsets) weight() int64 {
	return topicOffsetsBytes + int64(t.offsets.Len())*offsetBytes + t.noteBytes + t.pendingBytes
}

func (n *offsetNote) weight() int64 { return noteBytes + int64(len(n.metadata)) }

// weighOffsets lets change work on offsets that may be changed, and counts by how much heavier they become.
func (s *machine) weighOffsets(t *topicOffsets, change func()) {
	before := t.weight()
	change()
	s.load.Other += t.weight() - before
}

func (t *transaction) weight() int64 {
	n := transactionBytes + int64(len(t.id))
	if t.partitions != nil {
		n += int64(t.partitions.Len()) * addedBytes
	}
	if t.groups != nil {
		n += int64(t.groups.Len()) * addedBytes
	}
	return n
}

// countOther counts anew, after a snapshot was read, what load.Other and transactions.bytes hold.
func (s *machine) countOther() {
	s.load.Partitions, s.load.Empty, s.load.Other, s.transactions.bytes = 0, 0, 0, 0
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		s.load.Partitions += int64(e.partitions.Len())
		s.load.Empty += e.empty()
		s.load.Other += e.topic.weight()
		return true
	})
	s.configs.Scan(func(_ string, m map[string]string) bool {
		s.load.Other += configWeight(m)
		return true
	})
	s.groups.Scan(func(name string, g *groupEntry) bool {
		s.load.Other += g.weight(name) + g.offsetsWeight()
		return true
	})
	s.transactions.byProducer.Scan(func(_ int64, t *transaction) bool {
		s.transactions.bytes += t.weight()
		return true
	})
}

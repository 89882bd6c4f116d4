package metadata

import (
	"slices"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// partition is what is known of one partition from its first record on; before that it has no entry, so an entry's
// high watermark is above 0.
type partition struct {
	gen       uint64
	logStart  int64
	high      int64 // next offset to be given
	cleaned   int64 // offset below which a Clean job has been; 0 if none
	extents   extent.Tree
	producers btree.Map[int64, producer]
	resting   *btree.Map[int64, resting] // never in producers too; nil if none
	active    useOrder                   // of producers
	idle      useOrder                   // of resting
	forgotten []idRange                  // ascending, not adjacent; producers that were forgotten here

	transactions *partitionTransactions // nil if none is open or aborted
}

func (p *partition) watermarks() Watermarks {
	return Watermarks{LogStart: p.logStart, HighWatermark: p.high, LastStable: p.lastStable()}
}

// partitionEntry gives a partition's entry: nil with true if it exists but never had a record.
func (s *machine) partitionEntry(tp id.TopicPartition) (*partition, bool) {
	e, ok := s.liveTopic(topicKey(tp.Topic))
	if !ok {
		return nil, false
	}
	return e.partition(tp.Partition)
}

func (e *topicEntry) partition(n int32) (*partition, bool) {
	if n < 0 || n >= e.topic.Partitions {
		return nil, false
	}
	p, _ := e.partitions.Get(n)
	return p, true
}

// mutablePartition gives a partition of a mutable topic entry to be changed, given its current entry, nil if none.
func (s *machine) mutablePartition(e *topicEntry, n int32, p *partition) *partition {
	if p == nil {
		p = &partition{gen: s.gen, producers: newProducers()}
		e.partitions.Set(n, p)
		s.load.Partitions++
		s.load.Empty--
		return p
	}
	if p.gen == s.gen {
		return p
	}
	m := &partition{
		gen: s.gen, logStart: p.logStart, high: p.high, cleaned: p.cleaned,
		extents: p.extents, producers: *p.producers.Copy(), active: p.active.copy(), idle: p.idle.copy(),
		forgotten: slices.Clone(p.forgotten),
	}
	if p.resting != nil {
		m.resting = p.resting.Copy()
	}
	if p.transactions != nil {
		m.transactions = p.transactions.copy()
	}
	e.partitions.Set(n, m)
	return m
}

// Watermarks gives a partition's bounds; false if there is no such partition.
func (s *machine) Watermarks(tp id.TopicPartition) (Watermarks, bool) {
	p, ok := s.partitionEntry(tp)
	if p == nil {
		return Watermarks{}, ok
	}
	return p.watermarks(), true
}

// Extents gives extents from the one that covers offset from (or the log start, if that is higher) on, at most
// maxExtents of them and at most about maxBytes, but at least one if there is one. A bound below 1 does not bound.
// more tells whether further extents follow.
func (s *machine) Extents(tp id.TopicPartition, from int64, maxExtents int, maxBytes int64) (exts []extent.Extent, more bool) {
	p, _ := s.partitionEntry(tp)
	if p == nil {
		return nil, false
	}
	var bytes int64
	p.extents.Ascend(max(from, p.logStart), func(x *extent.Extent) bool {
		bytes += int64(x.Length)
		if len(exts) > 0 && (maxExtents > 0 && len(exts) >= maxExtents || maxBytes > 0 && bytes > maxBytes) {
			more = true
			return false
		}
		exts = append(exts, *x)
		return true
	})
	return exts, more
}

// AscendExtents calls yield for each extent with offsets at or above from, those cut by the log start included, until it
// returns false. The extent is the state's own: it must not be changed or kept.
func (s *machine) AscendExtents(tp id.TopicPartition, from int64, yield func(*extent.Extent) bool) {
	if p, _ := s.partitionEntry(tp); p != nil {
		p.extents.Ascend(max(from, p.logStart), yield)
	}
}

// CleanedTo is the offset below which a partition of a compacted topic was cleaned, 0 if it never was.
func (s *machine) CleanedTo(tp id.TopicPartition) int64 {
	p, _ := s.partitionEntry(tp)
	if p == nil {
		return 0
	}
	return p.cleaned
}

// FindTimestamp returns the first extent at or above from and the log start with a max timestamp of ts or later. The
// extent at the log start may be cut by it, and its timestamp be that of a record below: the reader of records decides.
func (s *machine) FindTimestamp(tp id.TopicPartition, from, ts int64) (extent.Extent, bool) {
	p, _ := s.partitionEntry(tp)
	if p == nil {
		return extent.Extent{}, false
	}
	return p.extents.FindTimestamp(max(from, p.logStart), ts)
}

// MaxTimestampExtent returns the first extent with the largest max timestamp of the partition (KIP-734), among those that
// reach from and begin below to.
func (s *machine) MaxTimestampExtent(tp id.TopicPartition, from, to int64) (extent.Extent, bool) {
	p, _ := s.partitionEntry(tp)
	if p == nil {
		return extent.Extent{}, false
	}
	return p.extents.MaxTimestampBetween(max(from, p.logStart), to)
}

// PartitionBytes is the size of a partition's extents, those cut by the log start counted whole.
func (s *machine) PartitionBytes(tp id.TopicPartition) int64 {
	p, _ := s.partitionEntry(tp)
	if p == nil {
		return 0
	}
	return p.extents.Totals().Bytes
}

// trimPartitions raises log starts. Extents wholly below leave at once; their bundles are told step by step.
func (s *machine) trimPartitions(c *TrimPartitions, fx *Effects) Result {
	results := make([]TrimResult, 0, len(c.Trims))
	for _, t := range c.Trims {
		start, err := s.trim(t, fx)
		results = append(results, TrimResult{LogStart: start, Err: err})
	}
	return Result{Value: results}
}

func (s *machine) trim(t Trim, fx *Effects) (logStart int64, err error) {
	p, ok := s.partitionEntry(t.Partition)
	if !ok {
		return -1, ErrUnknownPartition
	}
	var w Watermarks
	if p != nil {
		w = p.watermarks()
	}
	if t.Offset == -1 {
		t.Offset = w.HighWatermark
	}
	if t.Offset < 0 || t.Offset > w.HighWatermark {
		return -1, ErrOffsetOutOfRange
	}
	if t.Offset <= w.LogStart {
		return w.LogStart, nil
	}
	e, _ := s.topics.Get(topicKey(t.Partition.Topic))
	e = s.mutableTopic(e)
	p = s.mutablePartition(e, t.Partition.Partition, p)
	p.logStart = t.Offset
	s.counting(e, p, func() { p.forgetTrimmed(trimmedPerTrim) })
	if removed := p.extents.TrimFront(s.gen, t.Offset); !removed.Empty() {
		s.cleanup.push(cleanupItem{extents: removed})
	}
	fx.Partitions = append(fx.Partitions, PartitionEffect{Partition: t.Partition, Watermarks: p.watermarks()})
	return p.logStart, nil
}

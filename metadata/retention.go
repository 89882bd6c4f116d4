package metadata

import (
	"encoding/binary"
	"math"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// Retention says which records of a partition are kept. The zero value keeps those that are not older than the epoch.
type Retention struct {
	SinceMs int64 // extents whose largest timestamp is below go; KeepForever keeps all
	Bytes   int64 // the oldest extents go while what is left has at least these bytes; KeepForever keeps all
}

// KeepForever as a field of Retention bounds nothing.
const KeepForever = math.MinInt64

// RetainedFrom gives the log start that a retention asks for, at or above the one there is: the oldest extents go, first
// by time and then by size, up to the first that is kept. That is Kafka's rule with extents for segments (UnifiedLog
// .deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments). Records without timestamps age from when they
// were appended (LargestTimestamp); where that is unknown, they go together with a later extent that is too old. It costs
// the extents that go, and those of unknown age behind them.
func (s *machine) RetainedFrom(tp id.TopicPartition, r Retention) (logStart int64) {
	p, _ := s.partitionEntry(tp)
	if p == nil {
		return 0
	}
	start, left := p.logStart, p.extents.Totals().Bytes
	if r.SinceMs != KeepForever {
		p.extents.Ascend(start, func(x *extent.Extent) bool {
			largest := s.LargestTimestamp(x)
			if largest >= 0 && largest < r.SinceMs {
				start = x.Last + 1
			}
			return largest < r.SinceMs
		})
	}
	if r.Bytes == KeepForever {
		return start
	}
	p.extents.Ascend(p.logStart, func(x *extent.Extent) bool {
		left -= int64(x.Length)
		if x.Last >= start && left < r.Bytes {
			return false
		}
		start = max(start, x.Last+1)
		return true
	})
	return start
}

type (
	// RetainPartitions raises log starts by retention. A trim that was decided under other configs than the topic's present
	// ones fails with ErrConfigsChanged. Result: []TrimResult.
	RetainPartitions struct{ Trims []RetentionTrim }

	// RetentionTrim is one trim of RetainPartitions.
	RetentionTrim struct {
		Trim
		Configs uint64 // State.CleanupConfigs of the topic as the decision saw it
	}
)

func (s *machine) retainPartitions(c *RetainPartitions, fx *Effects) Result {
	results := make([]TrimResult, 0, len(c.Trims))
	for _, t := range c.Trims {
		sum, ok := s.CleanupConfigs(t.Partition.Topic)
		if ok && sum != t.Configs {
			results = append(results, TrimResult{LogStart: -1, Err: ErrConfigsChanged})
			continue
		}
		start, err := s.trim(t.Trim, fx)
		results = append(results, TrimResult{LogStart: start, Err: err})
	}
	return Result{Value: results}
}

func (c *RetainPartitions) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Trims)))
	for _, t := range c.Trims {
		dst = appendPartition(dst, t.Partition)
		dst = binary.AppendVarint(dst, t.Offset)
		dst = binary.LittleEndian.AppendUint64(dst, t.Configs)
	}
	return dst
}

func (c *RetainPartitions) readBody(w *wire.Reader) {
	n := w.Count(26)
	if n == 0 {
		return
	}
	c.Trims = make([]RetentionTrim, 0, n)
	for range n {
		c.Trims = append(c.Trims, RetentionTrim{Trim{Partition: readPartition(w), Offset: w.Varint()}, readUint64(w)})
	}
}

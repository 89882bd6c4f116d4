package metadata

import (
	"math"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
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
// .deleteRetentionMsBreachedSegments, deleteRetentionSizeBreachedSegments). An extent without any timestamp goes
// together with a later one that is too old. It costs the extents that go, and those without timestamps behind them.
func (s *machine) RetainedFrom(tp id.TopicPartition, r Retention) (logStart int64) {
	p, _ := s.partitionEntry(tp)
	if p == nil {
		return 0
	}
	start, left := p.logStart, p.extents.Totals().Bytes
	if r.SinceMs != KeepForever {
		p.extents.Ascend(start, func(x *extent.Extent) bool {
			if x.MaxTimestamp >= 0 && x.MaxTimestamp < r.SinceMs {
				start = x.Last + 1
			}
			return x.MaxTimestamp < r.SinceMs
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

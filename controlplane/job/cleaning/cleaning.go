package cleaning

import (
	"math"

	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// State is what is asked of the state machine.
type State interface {
	Watermarks(tp id.TopicPartition) (metadata.Watermarks, bool)
	CleanedTo(tp id.TopicPartition) int64
	PartitionBytes(tp id.TopicPartition) int64
	Extents(tp id.TopicPartition, from int64, maxExtents int, maxBytes int64) (exts []extent.Extent, more bool)
	AscendExtents(tp id.TopicPartition, from int64, yield func(*extent.Extent) bool)
	BundleLevel(b id.Bundle) (level uint8, ok bool)
	LargestTimestamp(x *extent.Extent) int64
}

// Rules are a compacted topic's settings, in ms but for the ratio.
type Rules struct {
	MinDirtyRatio float64 // min.cleanable.dirty.ratio, 0 to 1
	MinLagMs      int64   // min.compaction.lag.ms, >= 0
	MaxLagMs      int64   // max.compaction.lag.ms, > 0
}

// RulesOf gives the rules that a topic's settings make.
func RulesOf(v *topicconfig.Values) Rules {
	return Rules{
		MinDirtyRatio: v.MinDirtyRatio,
		MinLagMs:      v.MinCompactionLag.Milliseconds(),
		MaxLagMs:      v.MaxCompactionLag.Milliseconds(),
	}
}

// Decision says whether and how far to clean a partition.
type Decision struct {
	Due        bool
	FirstDirty int64   // offsets below were cleaned before: max(log start, cleaned to)
	UpTo       int64   // first offset not to be cleaned, where an extent begins; FirstDirty or less if there is nothing
	Ratio      float64 // share of the bytes below UpTo that are dirty; 0 if there are none
	DirtyBytes int64   // of the extents with offsets in [FirstDirty, UpTo)
	CleanBytes int64   // of those before
	Overdue    bool    // max.compaction.lag.ms asks for it, whatever the ratio
}

// Due decides about one partition of a compacted topic, at a time in ms since the epoch. It costs the extents above the
// cleaned ones. The rules are those of Kafka 4.4's LogCleanerManager:
//
//   - nothing at or above the last stable offset is cleaned (cleanableOffsets);
//   - nothing from the first extent on whose largest timestamp is younger than min.compaction.lag.ms (KIP-58); records
//     without timestamps are as old as their appending, which keeps them where it is unknown (LogSegment.largestTimestamp);
//   - due is what has a larger share of dirty bytes than min.cleanable.dirty.ratio (LogToClean.cleanableRatio), or a
//     record older than max.compaction.lag.ms in its dirty part (maxCompactionDelay, KIP-354).
//
// Extents know their largest timestamp alone. One that an agent wrote spans moments, so that is its age; a longer one may
// begin as early as the extent before it ended, and is taken for that old: the lag is kept, at the price of a cleaning
// that comes early.
func Due(s State, tp id.TopicPartition, r Rules, nowMs int64) Decision {
	w, ok := s.Watermarks(tp)
	if !ok {
		return Decision{}
	}
	first := max(w.LogStart, s.CleanedTo(tp))
	d := Decision{FirstDirty: first, UpTo: first, CleanBytes: s.PartitionBytes(tp)}
	look := lookout{
		state: s, rules: r, lastStable: w.LastStable,
		minLag: sub(nowMs, r.MinLagMs), maxLag: sub(nowMs, r.MaxLagMs), before: before(s, tp, first, w.LogStart),
	}
	ended := false
	s.AscendExtents(tp, first, func(x *extent.Extent) bool {
		d.CleanBytes -= int64(x.Length)
		if ended = ended || look.ends(x); ended {
			return true // only to be counted
		}
		d.UpTo = x.Last + 1
		d.DirtyBytes += int64(x.Length)
		d.Overdue = d.Overdue || look.overdue(x)
		return true
	})
	if d.DirtyBytes > 0 {
		d.Ratio = float64(d.DirtyBytes) / float64(d.CleanBytes+d.DirtyBytes)
	}
	d.Overdue = d.Overdue && d.DirtyBytes > 0
	d.Due = d.Overdue || d.Ratio > r.MinDirtyRatio
	return d
}

// before gives the largest timestamp of the extent before the first dirty offset, -1 if there is none.
func before(s State, tp id.TopicPartition, first, logStart int64) int64 {
	if first <= logStart {
		return -1
	}
	exts, _ := s.Extents(tp, first-1, 1, 0)
	if len(exts) == 0 || exts[0].Last >= first {
		return -1
	}
	return exts[0].MaxTimestamp
}

// lookout judges the dirty extents in turn.
type lookout struct {
	state          State
	rules          Rules
	lastStable     int64
	minLag, maxLag int64 // times, ms since the epoch: records after minLag are not cleaned, those before maxLag must be
	before         int64 // the largest timestamp of the extent before; -1 if unknown
}

// ends tells whether cleaning stops before the extent.
func (l *lookout) ends(x *extent.Extent) bool {
	if x.Last >= l.lastStable {
		return true
	}
	largest := l.state.LargestTimestamp(x)
	if largest < 0 {
		largest = math.MaxInt64
	}
	return l.rules.MinLagMs > 0 && largest > l.minLag || l.fresh(x) && largest >= l.maxLag
}

// overdue tells whether the extent may hold a record older than max.compaction.lag.ms. Times of 0 and below are none, as
// in Kafka.
func (l *lookout) overdue(x *extent.Extent) bool {
	since := x.MaxTimestamp
	if x.Kind != extent.Marker && !l.fresh(x) && l.before > 0 {
		since = min(since, l.before)
	}
	l.before = max(l.before, x.MaxTimestamp)
	return since > 0 && since < l.maxLag
}

// fresh tells whether the extent still lies in a bundle as an agent wrote it.
func (l *lookout) fresh(x *extent.Extent) bool {
	if x.Kind == extent.Marker {
		return false
	}
	level, ok := l.state.BundleLevel(x.Bundle)
	return ok && level == 0
}

// sub gives now-lag; lags may be as large as an int64 can be.
func sub(now, lag int64) int64 {
	if lag > 0 && now < math.MinInt64+lag {
		return math.MinInt64
	}
	return now - lag
}

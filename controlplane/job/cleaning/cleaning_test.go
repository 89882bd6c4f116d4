package cleaning_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/job/cleaning"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// partition is a State of one partition. Bundle numbers are levels.
type partition struct {
	watermarks metadata.Watermarks
	cleaned    int64
	exts       []extent.Extent
	appended   int64 // time of all extents; 0 if unknown
}

func (p *partition) Watermarks(id.TopicPartition) (metadata.Watermarks, bool) {
	return p.watermarks, p.exts != nil
}
func (p *partition) CleanedTo(id.TopicPartition) int64 { return p.cleaned }

func (p *partition) PartitionBytes(id.TopicPartition) (sum int64) {
	for i := range p.exts {
		sum += int64(p.exts[i].Length)
	}
	return sum
}

func (p *partition) AscendExtents(_ id.TopicPartition, from int64, yield func(*extent.Extent) bool) {
	for i := range p.exts {
		if p.exts[i].Last >= from && !yield(&p.exts[i]) {
			return
		}
	}
}

func (p *partition) Extents(tp id.TopicPartition, from int64, n int, _ int64) (exts []extent.Extent, more bool) {
	p.AscendExtents(tp, from, func(x *extent.Extent) bool {
		more = len(exts) == n
		if !more {
			exts = append(exts, *x)
		}
		return !more
	})
	return exts, more
}

func (p *partition) LargestTimestamp(x *extent.Extent) int64 {
	switch {
	case x.MaxTimestamp >= 0:
		return x.MaxTimestamp
	case p.appended > 0:
		return p.appended
	}
	return -1
}

func (p *partition) BundleLevel(b id.Bundle) (uint8, bool) { return uint8(b), true }

// add appends an extent of ten offsets.
func (p *partition) add(level id.Bundle, timestamp int64, bytes uint32) *partition {
	base := p.watermarks.HighWatermark
	p.exts = append(p.exts, extent.Extent{
		Base: base, Last: base + 9, MaxTimestamp: timestamp, Bundle: level, Length: bytes, Batches: 1, Kind: extent.Absolute,
	})
	p.watermarks.HighWatermark += 10
	p.watermarks.LastStable = p.watermarks.HighWatermark
	return p
}

func (p *partition) due(r cleaning.Rules, now int64) cleaning.Decision {
	return cleaning.Due(p, id.TopicPartition{}, r, now)
}

// usual are the rules of a topic without settings of its own.
var usual = cleaning.RulesOf(ptr(topicconfig.Resolve(map[string]string{topicconfig.CleanupPolicy: "compact"}, nil)))

func ptr(v topicconfig.Values) *topicconfig.Values { return &v }

func TestDue_Ratio(t *testing.T) {
	p := new(partition).add(2, 100, 1000).add(1, 200, 400).add(1, 300, 600)
	p.cleaned = 10
	d := p.due(usual, 1000)
	require.Equal(t, cleaning.Decision{FirstDirty: 10, UpTo: 30, Ratio: 0.5, DirtyBytes: 1000, CleanBytes: 1000}, d,
		"a share of exactly min.cleanable.dirty.ratio is not due")
	require.True(t, p.add(1, 300, 1).due(usual, 1000).Due)
	p.watermarks.LogStart = 15
	require.EqualValues(t, 15, p.due(usual, 1000).FirstDirty, "what was cleaned and trimmed")
	p.cleaned = 40
	require.Equal(t, cleaning.Decision{FirstDirty: 40, UpTo: 40, CleanBytes: 2001}, p.due(usual, 1000), "nothing is dirty")
	require.Equal(t, cleaning.Decision{}, new(partition).due(usual, 1000), "there never was a record")
}

func TestDue_NeverCleaned(t *testing.T) {
	d := new(partition).add(1, 100, 10).due(usual, 1000)
	require.True(t, d.Due)
	require.Equal(t, 1.0, d.Ratio)
}

func TestDue_NotBeyondLastStableOffset(t *testing.T) {
	p := new(partition).add(1, 100, 10).add(1, 100, 10).add(1, 100, 10)
	p.watermarks.LastStable = 25
	require.EqualValues(t, 20, p.due(usual, 1000).UpTo, "the extent in which a transaction is open stays")
	p.watermarks.LastStable = 0
	d := p.due(usual, 1000)
	require.False(t, d.Due)
	require.Zero(t, d.Ratio)
}

func TestDue_MinLag(t *testing.T) {
	rules := usual
	rules.MinLagMs = 500
	p := new(partition).add(1, 500, 10).add(1, 501, 10).add(1, 100, 10)
	require.EqualValues(t, 10, p.due(rules, 1000).UpTo, "from the first that is too young on, older ones behind it too")
	require.EqualValues(t, 30, p.due(rules, 1001).UpTo)
}

func TestDue_FreshBundles(t *testing.T) {
	p := new(partition).add(1, 100, 10).add(0, 200, 10)
	require.EqualValues(t, 10, p.due(usual, 1000).UpTo, "as Kafka's active segment")
	p.exts[1] = extent.NewMarker(10, 200, extent.EndMarker{})
	require.EqualValues(t, 11, p.due(usual, 1000).UpTo, "a marker is in no bundle")
}

func TestDue_MaxLag(t *testing.T) {
	rules := usual
	rules.MaxLagMs = 500
	p := new(partition).add(1, 100, 10_000).add(0, 200, 10)
	p.cleaned = 10
	require.False(t, p.due(rules, 700).Due)
	d := p.due(rules, 701)
	require.True(t, d.Due && d.Overdue, "a fresh one is taken, whatever the ratio, once it is too old")
	require.EqualValues(t, 20, d.UpTo)

	p.exts[1].Bundle = 1
	require.True(t, p.due(rules, 601).Overdue, "a longer extent may begin where the one before ended")
	require.False(t, p.due(rules, 600).Overdue)
	p.watermarks.LastStable = 10
	require.False(t, p.due(rules, 10_000).Due, "an open transaction holds it")
	p.watermarks.LastStable = 20
	p.exts[0].MaxTimestamp, p.exts[1].MaxTimestamp = -1, -1
	require.False(t, p.due(rules, 10_000).Due, "records without a time have no age")
}

func TestDue_NoLimits(t *testing.T) {
	p := new(partition).add(0, 1, 10)
	rules := cleaning.Rules{MinDirtyRatio: 0, MinLagMs: math.MaxInt64, MaxLagMs: math.MaxInt64}
	require.False(t, p.due(rules, 1<<41).Due)
	rules.MinLagMs = 0
	require.False(t, p.due(rules, 1<<41).Due)
	p.exts[0].Bundle = 2
	require.True(t, p.due(rules, 1<<41).Due)
}

func TestDue_WithoutTimestamps(t *testing.T) {
	rules := usual
	rules.MinLagMs = 500
	p := new(partition).add(1, -1, 10)
	require.False(t, p.due(rules, 1<<41).Due, "nobody knows when it was appended")
	require.True(t, p.due(usual, 1000).Due, "which does not matter without a lag")
	p.appended = 600
	require.False(t, p.due(rules, 1099).Due)
	require.True(t, p.due(rules, 1100).Due)

	p.exts[0].Bundle, rules.MinLagMs, rules.MaxLagMs = 0, 0, 500
	require.False(t, p.due(rules, 1100).Due, "as Kafka's active segment")
	require.True(t, p.due(rules, 1101).Due)
}

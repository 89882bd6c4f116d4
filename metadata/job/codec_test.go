package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/bytetable"
	"github.com/freshet-io/freshet/internal/hostile"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

func partition(topic byte, n int32) id.TopicPartition {
	return id.TopicPartition{Topic: id.Topic{topic}, Partition: n}
}

func bundle(session, n uint32) id.Bundle {
	return id.Submission{Session: id.Session(session), N: n}.Bundle()
}

func plan() *Plan {
	relative := extent.Extent{Base: 10, Last: 19, MaxTimestamp: 5, Bundle: bundle(1, 2), Position: 24, Length: 100, Batches: 2}
	follows := relative
	follows.Base, follows.Last = 21, 30
	return &Plan{ID: 9, Kind: Clean, Level: 2, Partitions: []Partition{
		{ID: partition(1, 0), Extents: []extent.Extent{
			relative, extent.NewMarker(20, 7, extent.EndMarker{ProducerID: 4, Epoch: 1, Commit: true}), follows,
		}},
		{ID: partition(1, 3), Extents: []extent.Extent{relative}},
		{
			ID: partition(2, 1), Extents: []extent.Extent{relative},
			Aborted: []extent.Aborted{{ProducerID: 4, First: 12, Last: 15}, {ProducerID: 5, First: 1, Last: 18}},
			Clean:   &CleanSpec{FirstDirty: 12, NowMs: 1_000_000, DeleteRetentionMs: 500, MaxBatchBytes: 1 << 20},
		},
	}}
}

func outcome() *Outcome {
	x := extent.Extent{Base: 10, Last: 20, Kind: extent.Absolute, Bundle: bundle(9, 1), Position: 24, Length: 61, Batches: 1}
	y := x
	y.Base, y.Last, y.Bundle = 21, 30, bundle(9, 2)
	return &Outcome{
		Bundles: []Bundle{{N: 1, Bytes: 500}, {N: 2, Bytes: 600}},
		Partitions: []Replacement{
			{ID: partition(1, 0), From: 10, To: 30, Extents: []extent.Extent{x, y}},
			{ID: partition(1, 0), From: 10, To: 20, Extents: []extent.Extent{x}},
			{ID: partition(2, 1), From: 10, To: 20, Extents: []extent.Extent{x}, DroppedAborted: []int64{12, 15}, CleanedTo: 21},
		},
	}
}

func TestPlan_RoundTrip(t *testing.T) {
	p := AppendPlan(nil, plan())
	got, err := ParsePlan(p)
	require.NoError(t, err)
	require.Equal(t, plan(), got)
	for i := range p {
		_, err := ParsePlan(p[:i])
		require.ErrorIs(t, err, ErrMalformed, "cut at %d", i)
	}
}

func TestPartition_Runs(t *testing.T) {
	p := Partition{Extents: []extent.Extent{{Base: 0, Last: 4}, {Base: 5, Last: 5}, {Base: 7, Last: 8}, {Base: 9, Last: 9}, {Base: 20, Last: 20}}}
	var lengths []int
	for run := range p.Runs {
		lengths = append(lengths, len(run))
	}
	require.Equal(t, []int{2, 2, 1}, lengths)
	for range p.Runs {
		break
	}
}

func TestOutcome_RoundTrip(t *testing.T) {
	p := AppendOutcome(nil, outcome())
	got, err := ParseOutcome(p)
	require.NoError(t, err)
	require.Equal(t, outcome(), got)
	for i := range p {
		_, err := ParseOutcome(p[:i])
		require.ErrorIs(t, err, ErrMalformed, "cut at %d", i)
	}
}

// The tables of the package comment describe plans and outcomes.
func TestTables_Golden(t *testing.T) {
	l := bytetable.New(t)
	l.Bytes("doc.go", "Plan", AppendPlan(nil, plan()))
	l.Bytes("doc.go", "Outcome", AppendOutcome(nil, outcome()))
	l.Golden("testdata/jobs.golden")
}

func TestOutcome_RefusesWhatDoesNotCover(t *testing.T) {
	for name, spoil := range map[string]func(o *Outcome){
		"hole":             func(o *Outcome) { o.Partitions[0].Extents[1].Base++ },
		"short":            func(o *Outcome) { o.Partitions[0].To++ },
		"early":            func(o *Outcome) { o.Partitions[0].From-- },
		"nothing":          func(o *Outcome) { o.Partitions[1].Extents = nil },
		"empty extent":     func(o *Outcome) { o.Partitions[1].Extents[0].Length = 0 },
		"relative":         func(o *Outcome) { o.Partitions[1].Extents[0].Kind = extent.Relative },
		"unnamed bundle":   func(o *Outcome) { o.Bundles = o.Bundles[:1] },
		"past the end":     func(o *Outcome) { o.Bundles[0].Bytes = 84 },
		"two jobs":         func(o *Outcome) { o.Partitions[0].Extents[1].Bundle = bundle(8, 2) },
		"bundles unsorted": func(o *Outcome) { o.Bundles[1].N = 1 },
		"partitions":       func(o *Outcome) { o.Partitions[2].ID = partition(0, 1) },
		"cleaned beyond":   func(o *Outcome) { o.Partitions[2].CleanedTo = o.Partitions[2].To + 2 },
		"cleaned to -1":    func(o *Outcome) { o.Partitions[2].CleanedTo = -1 },
		"dropped below":    func(o *Outcome) { o.Partitions[2].DroppedAborted = []int64{o.Partitions[2].From - 1} },
		"dropped above":    func(o *Outcome) { o.Partitions[2].DroppedAborted = []int64{o.Partitions[2].To + 1} },
	} {
		t.Run(name, func(t *testing.T) {
			o := outcome()
			spoil(o)
			_, err := ParseOutcome(AppendOutcome(nil, o))
			require.ErrorIs(t, err, ErrMalformed)
		})
	}
}

func TestClaimsAllocateNothing(t *testing.T) {
	hostile.Claims(t, AppendPlan(nil, plan()), 64<<10, func(p []byte) { _, _ = ParsePlan(p) })
	hostile.Claims(t, AppendOutcome(nil, outcome()), 64<<10, func(p []byte) { _, _ = ParseOutcome(p) })
}

// FuzzParsePlan: no input fails in another way than ErrMalformed; what is accepted is written again the same.
func FuzzParsePlan(f *testing.F) {
	f.Add(AppendPlan(nil, plan()))
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := ParsePlan(p)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := ParsePlan(AppendPlan(nil, got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

// FuzzParseOutcome: likewise.
func FuzzParseOutcome(f *testing.F) {
	f.Add(AppendOutcome(nil, outcome()))
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := ParseOutcome(p)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := ParseOutcome(AppendOutcome(nil, got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func TestOutcome_Check(t *testing.T) {
	bounds := &Bounds{From: 10, FirstDirty: 12, To: 20}
	cleaned := func() *Outcome {
		o := outcome()
		o.Partitions = o.Partitions[2:]
		return o
	}
	compacted := func() *Outcome {
		o := outcome()
		o.Partitions = o.Partitions[:2]
		return o
	}
	require.NoError(t, compacted().Check(Compact, nil))
	require.ErrorIs(t, cleaned().Check(Compact, nil), ErrMalformed)
	require.NoError(t, cleaned().Check(Clean, bounds))
	require.NoError(t, cleaned().Check(Clean, nil), "bounds are unknown")
	require.Error(t, cleaned().Check(Clean, &Bounds{From: 9, FirstDirty: 12, To: 20}))
	require.Error(t, cleaned().Check(Clean, &Bounds{From: 10, FirstDirty: 12, To: 19}))
	require.Error(t, cleaned().Check(Clean, &Bounds{From: 10, FirstDirty: 21, To: 30}))

	o := compacted()
	o.Bundles = make([]Bundle, MaxBundles)
	require.NoError(t, o.Check(Compact, nil))
	o.Bundles = make([]Bundle, MaxBundles+1)
	require.ErrorIs(t, o.Check(Compact, nil), ErrMalformed)
	o = compacted()
	many := make([]extent.Extent, MaxExtents-1)
	for i := range many {
		many[i] = o.Partitions[1].Extents[0]
	}
	o.Partitions = o.Partitions[1:]
	o.Partitions[0].Extents = many
	require.NoError(t, o.Check(Compact, nil))
	o.Partitions[0].Extents = append(many, many[:2]...)
	require.ErrorIs(t, o.Check(Compact, nil), ErrMalformed)
}

func TestPartition_Bounds(t *testing.T) {
	p := plan().Partitions[2]
	require.Equal(t, Bounds{From: 10, FirstDirty: 12, To: 19}, p.Bounds())
	p.Clean.FirstDirty = 0
	require.Equal(t, Bounds{From: 10, FirstDirty: 10, To: 19}, p.Bounds())
}

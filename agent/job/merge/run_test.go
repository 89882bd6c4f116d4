package merge_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/meter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ignore(int64) {}

func env(b objstore.Bucket) merge.Env {
	return merge.Env{Bucket: b, Prefix: prefix, ExtentBytes: 20_000, BundleBytes: 200_000, PartBytes: objstore.MinPart}
}

func TestRun_AgainstTheOracle(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed).random(int(1+seed%20), int(1+seed%13), 8)
		plan := w.plan(1000)
		metered := meter.New(w.bucket, nil)
		told := int64(0)
		o, err := merge.Run(t.Context(), plan, func(n int64) {
			require.GreaterOrEqual(t, n, told)
			told = n
		}, env(metered))
		require.NoError(t, err)
		require.Len(t, o.Partitions, len(plan.Partitions), "one run each")
		w.requireOutcome(w.bucket, plan, &o)
		require.Equal(t, bytesOf(plan), told)
		for _, r := range o.Partitions {
			l := w.log(r.ID)
			require.Equal(t, l.extents[0].Base, r.From)
			require.Equal(t, l.next-1, r.To)
			requireCut(t, r.Extents)
		}
		for _, b := range o.Bundles {
			require.Less(t, int(b.Bytes), 200_000+10_000)
		}
	}
}

func bytesOf(plan *job.Plan) (n int64) {
	for _, p := range plan.Partitions {
		for _, x := range p.Extents {
			n += int64(x.Length)
		}
	}
	return n
}

// requireCut: an extent ends at the first batch at or after the size, or with its bundle. The last one of a run may be
// half as long again, so that none is shorter than half.
func requireCut(t *testing.T, exts []extent.Extent) {
	t.Helper()
	for i, x := range exts {
		require.Less(t, int(x.Length), 30_000+4_000)
		if i < len(exts)-1 && exts[i+1].Bundle == x.Bundle {
			require.GreaterOrEqual(t, int(x.Length), 20_000)
			require.Less(t, int(x.Length), 20_000+4_000)
		}
		if last := i > 0 && i == len(exts)-1; last && exts[i-1].Bundle == x.Bundle {
			require.GreaterOrEqual(t, int(x.Length), 10_000)
		}
	}
}

// TestRun_OneGetPerInput: batches that are out of order apart, each input is one GET of nothing but what is needed.
func TestRun_OneGetPerInput(t *testing.T) {
	w := newWorld(t, 1)
	partitions := []id.TopicPartition{tp(1, 0), tp(1, 1), tp(2, 0), tp(2, 7)}
	for range 30 {
		w.bundle(partitions, 10)
	}
	plan := w.plan(1000)
	for i := range plan.Partitions { // what was committed late is not of the job
		seen := map[id.Bundle]uint32{}
		plan.Partitions[i].Extents = slices.DeleteFunc(plan.Partitions[i].Extents, func(x extent.Extent) bool {
			late := x.Position < seen[x.Bundle]
			seen[x.Bundle] = max(seen[x.Bundle], x.Position)
			return late
		})
	}
	metered := meter.New(w.bucket, nil)
	o, err := merge.Run(t.Context(), plan, ignore, env(metered))
	require.NoError(t, err)
	w.requireOutcome(w.bucket, plan, &o)
	counts := metered.Counts()
	require.EqualValues(t, len(inputsOf(plan)), counts[objstore.OpGet].Requests)
	require.Zero(t, counts[objstore.OpHead].Requests)
	require.EqualValues(t, len(o.Bundles), counts[objstore.OpPut].Requests)
	require.Greater(t, len(o.Partitions), len(plan.Partitions), "holes make runs")
}

// TestRun_TwoLevels merges what merges wrote: a range of partitions of them, each input one contiguous stretch.
func TestRun_TwoLevels(t *testing.T) {
	w := newWorld(t, 7)
	for n := range id.Session(4) {
		w.random(6, 9, 6)
		plan := w.plan(1000 + n)
		for i := range plan.Partitions { // only what is new
			plan.Partitions[i].Extents = slices.DeleteFunc(plan.Partitions[i].Extents, func(x extent.Extent) bool {
				return x.Kind == extent.Absolute
			})
		}
		plan.Partitions = slices.DeleteFunc(plan.Partitions, func(p job.Partition) bool { return len(p.Extents) == 0 })
		o, err := merge.Run(t.Context(), plan, ignore, env(w.bucket))
		require.NoError(t, err)
		w.requireOutcome(w.bucket, plan, &o)
		w.apply(&o)
	}
	plan := w.plan(2000)
	plan.Level = 2
	plan.Partitions = plan.Partitions[2:6]
	metered := meter.New(w.bucket, nil)
	o, err := merge.Run(t.Context(), plan, ignore, env(metered))
	require.NoError(t, err)
	w.requireOutcome(w.bucket, plan, &o)
	counts := metered.Counts()[objstore.OpGet]
	require.EqualValues(t, len(inputsOf(plan)), counts.Requests)
	require.Equal(t, bytesOf(plan), counts.Bytes, "nothing else is read")
}

// apply replaces extents as the state machine does.
func (w *world) apply(o *job.Outcome) {
	for _, r := range o.Partitions {
		l := w.log(r.ID)
		kept := slices.DeleteFunc(l.extents, func(x extent.Extent) bool { return x.Base >= r.From && x.Last <= r.To })
		l.extents = append(kept, r.Extents...)
		slices.SortFunc(l.extents, func(a, b extent.Extent) int { return int(a.Base - b.Base) })
	}
}

// TestRun_Holes: offsets without batches, as cleaning leaves them, are covered, at the end of a run too.
func TestRun_Holes(t *testing.T) {
	w := newWorld(t, 3)
	w.bundle([]id.TopicPartition{tp(1, 0)}, 30)
	plan := w.plan(1000)
	o, err := merge.Run(t.Context(), plan, ignore, env(w.bucket))
	require.NoError(t, err)
	l := w.log(tp(1, 0))
	w.apply(&o)
	last := &l.extents[len(l.extents)-1]
	last.Last += 50
	first := l.extents[0]
	again := &job.Plan{ID: 1001, Kind: job.Compact, Partitions: []job.Partition{{ID: tp(1, 0), Extents: l.extents}}}
	o, err = merge.Run(t.Context(), again, ignore, env(w.bucket))
	require.NoError(t, err)
	w.requireOutcome(w.bucket, again, &o)
	require.Equal(t, first.Base, o.Partitions[0].From)
	require.Equal(t, last.Last, o.Partitions[0].To)
}

func TestRun_EmptyPlans(t *testing.T) {
	w := newWorld(t, 3)
	o, err := merge.Run(t.Context(), &job.Plan{ID: 1000, Kind: job.Compact}, ignore, env(w.bucket))
	require.NoError(t, err)
	require.Empty(t, o.Bundles)

	w.marker(tp(1, 0)) // markers alone
	plan := w.plan(1000)
	o, err = merge.Run(t.Context(), plan, ignore, env(w.bucket))
	require.NoError(t, err)
	w.requireOutcome(w.bucket, plan, &o)
	require.Len(t, o.Bundles, 1)

	nothing := []extent.Extent{{Base: 5, Last: 1 << 33, MaxTimestamp: -1, Bundle: 1 << 32, Kind: extent.Absolute}}
	plan = &job.Plan{ID: 1002, Kind: job.Compact, Partitions: []job.Partition{{ID: tp(9, 0), Extents: nothing}}}
	o, err = merge.Run(t.Context(), plan, ignore, env(w.bucket))
	require.NoError(t, err)
	require.Equal(t, int64(1<<33), o.Partitions[0].To)
	require.EqualValues(t, 4, o.Partitions[0].Extents[0].Batches, "an empty batch has at most 2^31 offsets")
}

func TestRun_RefusesPlans(t *testing.T) {
	x := extent.Extent{Base: 5, Last: 9, Length: 100}
	for name, plan := range map[string]*job.Plan{
		"kind":       {Kind: job.Clean},
		"partitions": {Kind: job.Compact, Partitions: []job.Partition{{ID: tp(2, 0)}, {ID: tp(1, 0)}}},
		"extents":    {Kind: job.Compact, Partitions: []job.Partition{{ID: tp(2, 0), Extents: []extent.Extent{x, x}}}},
	} {
		_, err := merge.Run(t.Context(), plan, ignore, env(newWorld(t, 1).bucket))
		require.ErrorIs(t, err, merge.ErrPlan, name)
	}
	_, err := merge.Run(t.Context(), &job.Plan{Kind: job.Compact}, ignore, merge.Env{})
	require.ErrorContains(t, err, "no bucket")
}

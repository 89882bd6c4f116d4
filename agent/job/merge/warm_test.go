package merge_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// memory has some bundles, as chunks of 1,000 bytes.
type memory struct {
	t       *testing.T
	objects map[id.Bundle][]byte
	held    atomic.Int64
	asked   int
}

func (w *world) memory(t *testing.T, bundles []id.Bundle) *memory {
	t.Helper()
	m := &memory{t: t, objects: map[id.Bundle][]byte{}}
	for _, b := range bundles {
		data, err := objstoretest.Get(t.Context(), w.bucket, bundle.Key(prefix, b), 0, -1)
		require.NoError(t, err)
		m.objects[b] = data
	}
	return m
}

func (m *memory) Warm(x *extent.Extent) ([][]byte, func(), bool) {
	data, ok := m.objects[x.Bundle]
	if !ok {
		return nil, nil, false
	}
	m.asked++
	m.held.Add(1)
	var chunks [][]byte
	for rest := data[x.Position : x.Position+x.Length]; len(rest) > 0; rest = rest[min(1000, len(rest)):] {
		chunks = append(chunks, rest[:min(1000, len(rest))])
	}
	var once atomic.Bool
	return chunks, func() {
		if once.Swap(true) {
			m.t.Error("released twice")
		}
		m.held.Add(-1)
	}, true
}

// TestRun_WarmInputsCostNoGet: of the inputs that are in memory none is asked of the store, the others by one GET each.
func TestRun_WarmInputsCostNoGet(t *testing.T) {
	w := newWorld(t, 21)
	partitions := []id.TopicPartition{tp(1, 0), tp(1, 1), tp(2, 0)}
	for range 12 {
		w.bundle(partitions, 7)
	}
	plan := w.plan(1000)
	for i := range plan.Partitions { // what is out of order needs GETs of its own
		plan.Partitions[i].Extents = inOrder(plan.Partitions[i].Extents)
	}
	all := inputsOf(plan)
	for _, n := range []int{0, 5, len(all)} {
		plan.ID++
		m := w.memory(t, all[:n])
		metered := meter.New(w.bucket, nil)
		e := env(metered)
		e.Warm = m
		o, err := merge.Run(t.Context(), plan, ignore, e)
		require.NoError(t, err)
		w.requireOutcome(w.bucket, plan, &o)
		require.EqualValues(t, len(all)-n, metered.Counts()[objstore.OpGet].Requests)
		require.Zero(t, m.held.Load())
		require.Equal(t, n > 0, m.asked > 0)
	}
}

func inOrder(exts []extent.Extent) []extent.Extent {
	seen := map[id.Bundle]uint32{}
	var kept []extent.Extent
	for _, x := range exts {
		if x.Position >= seen[x.Bundle] {
			kept = append(kept, x)
			seen[x.Bundle] = x.Position
		}
	}
	return kept
}

// TestRun_MemoryThatIsWrong: what memory has is checked as what the store has, and the store asked instead.
func TestRun_MemoryThatIsWrong(t *testing.T) {
	w := newWorld(t, 22).random(6, 5, 6)
	plan := w.plan(1000)
	m := w.memory(t, inputsOf(plan))
	for _, data := range m.objects {
		for at := 100; at < len(data); at += 700 {
			data[at] ^= 4
		}
	}
	e := env(w.bucket)
	e.Warm = m
	o, err := merge.Run(t.Context(), plan, ignore, e)
	require.NoError(t, err)
	w.requireOutcome(w.bucket, plan, &o)
	require.Zero(t, m.held.Load())
}

var _ merge.Warm = (*memory)(nil)

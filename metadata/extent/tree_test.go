package extent

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/bytetable"
	"github.com/freshet-io/freshet/metadata/id"
)

// model is the obvious implementation: a sorted slice.
type model []Extent

func (m model) find(from int64) []Extent {
	for i := range m {
		if m[i].Last >= from {
			return m[i:]
		}
	}
	return nil
}

func (m model) timestamp(from, ts int64) (Extent, bool) {
	for _, x := range m.find(from) {
		if x.MaxTimestamp >= ts {
			return x, true
		}
	}
	return Extent{}, false
}

func (m model) maxTimestamp(from, to int64) (best Extent, ok bool) {
	for _, x := range m.find(from) {
		if x.Base < to && (!ok || x.MaxTimestamp > best.MaxTimestamp) {
			best, ok = x, true
		}
	}
	return best, ok
}

func (m model) totals() Totals {
	sum := Totals{MaxTimestamp: -1}
	for i := range m {
		sum.add(totalsOf(&m[i]))
	}
	return sum
}

func collect(t *Tree, from int64) (exts []Extent) {
	t.Ascend(from, func(x *Extent) bool {
		exts = append(exts, *x)
		return true
	})
	return exts
}

// check compares everything a tree answers with the model, and its inner bookkeeping with what is below.
func check(t *testing.T, tree *Tree, m model, rng *rand.Rand) {
	t.Helper()
	require.True(t, slices.Equal(m, collect(tree, 0)))
	require.Equal(t, m.totals(), tree.Totals())
	require.Equal(t, len(m) == 0, tree.Empty())
	if tree.root != nil {
		checkNode(t, tree.root)
	}
	if len(m) > 0 {
		first, _ := tree.First()
		last, _ := tree.Last()
		require.Equal(t, m[0], first)
		require.Equal(t, m[len(m)-1], last)
	}
	for range 2 {
		from := rng.Int64N(m.end() + 10)
		require.True(t, slices.Equal(m.find(from), collect(tree, from)))
		x, ok := tree.Find(from)
		require.Equal(t, len(m.find(from)) > 0, ok)
		if ok {
			require.Equal(t, m.find(from)[0], x)
		}
		ts := rng.Int64N(1100) - 1
		x, ok = tree.FindTimestamp(from, ts)
		y, found := m.timestamp(from, ts)
		require.Equal(t, found, ok)
		require.Equal(t, y, x)
		x, ok = tree.MaxTimestamp(from)
		y, found = m.maxTimestamp(from, math.MaxInt64)
		require.Equal(t, found, ok)
		require.Equal(t, y, x)
		to := rng.Int64N(m.end() + 10)
		x, ok = tree.MaxTimestampBetween(from, to)
		y, found = m.maxTimestamp(from, to)
		require.Equal(t, found, ok)
		require.Equal(t, y, x)
	}
}

func (m model) end() int64 {
	if len(m) == 0 {
		return 0
	}
	return m[len(m)-1].Last + 1
}

// checkNode compares each entry with what it stands for, and gives the height.
func checkNode(t *testing.T, n *node) int {
	t.Helper()
	if n.leaf() {
		require.True(t, len(n.exts) > 0 && len(n.exts) <= fanOut)
		return 0
	}
	require.True(t, len(n.kids) <= fanOut)
	height := -1
	for _, k := range n.kids {
		require.True(t, k == k.entry(), "an entry tells what is below")
		h := checkNode(t, k.node)
		require.True(t, height < 0 || height == h, "leaves at one depth")
		height = h
	}
	return height + 1
}

func randomExtent(rng *rand.Rand, base int64) Extent {
	if rng.IntN(8) == 0 {
		return NewMarker(base, rng.Int64N(1000)-1, EndMarker{
			ProducerID: rng.Int64(), Epoch: int16(rng.IntN(1 << 15)), Commit: rng.IntN(2) == 0, CoordinatorEpoch: int32(rng.Uint32()),
		})
	}
	return Extent{
		Base: base, Last: base + rng.Int64N(20), MaxTimestamp: rng.Int64N(1000) - 1,
		Bundle: id.Bundle(rng.Uint64()), Position: rng.Uint32(), Length: rng.Uint32N(1 << 20), Batches: 1 + rng.Uint32N(9),
	}
}

// TestTree_AgainstModel runs random appends, trims and replacements with snapshots in between; the tree and every
// snapshot must go on answering as their models do.
func TestTree_AgainstModel(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var tree Tree
		var m model
		gen := uint64(1)
		type snapshot struct {
			tree Tree
			m    model
		}
		var snapshots []snapshot
		for range 200 {
			switch op := rng.IntN(20); {
			case op < 12:
				for range rng.IntN(120) {
					x := randomExtent(rng, m.end()+rng.Int64N(2)*rng.Int64N(3))
					tree.Append(gen, x)
					m = append(m, x)
				}
			case op < 14 && len(m) > 0:
				at := m[0].Base + rng.Int64N(m.end()-m[0].Base+1)
				if rng.IntN(2) == 0 {
					at = m[rng.IntN(min(len(m), 100))].Base
				}
				kept := m.find(at)
				removed := m[:len(m)-len(kept)]
				got := tree.TrimFront(gen, at)
				check(t, &got, append(model(nil), removed...), rng)
				m = append(model(nil), kept...)
			case op < 17 && len(m) > 0:
				m = replaceRandom(&tree, gen, m, rng)
			default:
				snapshots = append(snapshots, snapshot{tree, append(model(nil), m...)})
				gen++
			}
			check(t, &tree, m, rng)
		}
		for _, s := range snapshots {
			check(t, &s.tree, s.m, rng)
		}
	}
}

// replaceRandom replaces the extents of a random range by fewer, or none, covering the same offsets.
func replaceRandom(tree *Tree, gen uint64, m model, rng *rand.Rand) model {
	i := rng.IntN(len(m))
	j := i + rng.IntN(min(len(m)-i, 1+rng.IntN(200)))
	from, to := m[i].Base, m[j].Last
	var with []Extent
	if rng.IntN(4) > 0 {
		for base := from; base <= to; {
			x := randomExtent(rng, base)
			x.Last = min(base+rng.Int64N(200), to)
			with = append(with, x)
			base = x.Last + 1
		}
	}
	tree.Replace(gen, from, to, with)
	out := append(model(nil), m[:i]...)
	out = append(out, with...)
	return append(out, m[j+1:]...)
}

func TestTree_TrimKeepsDepthCost(t *testing.T) {
	var tree Tree
	for i := range int64(100_000) {
		tree.Append(1, Extent{Base: i, Last: i, MaxTimestamp: i, Length: 1, Batches: 1})
	}
	allocs := testing.AllocsPerRun(1, func() {
		c := tree
		removed := c.TrimFront(2, 50_000)
		require.Equal(t, int64(50_000), removed.Totals().Extents)
		require.Equal(t, int64(50_000), c.Totals().Extents)
	})
	require.Less(t, allocs, 200.0)
}

func TestTree_ReplaceInEmpty(t *testing.T) {
	var tree Tree
	tree.Replace(1, 0, 100, []Extent{{Base: 5, Last: 9, MaxTimestamp: -1}})
	require.Len(t, collect(&tree, 0), 1)
	tree.Replace(1, 0, 100, nil)
	require.True(t, tree.Empty())
	removed := tree.TrimFront(1, 5)
	require.True(t, removed.Empty())
}

// The table of AppendList describes a list.
func TestList_Golden(t *testing.T) {
	exts := []Extent{
		{Base: 10, Last: 12, MaxTimestamp: 1000, Bundle: id.Submission{Session: 1, N: 2}.Bundle(), Position: 64, Length: 300, Batches: 2},
		NewMarker(13, 1500, EndMarker{ProducerID: 300, Epoch: 4, Commit: true, CoordinatorEpoch: -1}),
		{Base: 20, Last: 29, MaxTimestamp: 999, Bundle: 5, Position: 1, Length: 2, Batches: 3, Kind: Absolute},
	}
	p := AppendList(nil, exts)
	l := bytetable.New(t)
	l.Bytes("list.go", "Extents", p)
	l.Golden("testdata/list.golden")
	got, err := ParseList(p)
	require.NoError(t, err)
	require.Equal(t, exts, got)
	for i := range p {
		_, err := ParseList(p[:i])
		require.ErrorIs(t, err, ErrMalformed)
	}
}

func TestList_RefusesClaims(t *testing.T) {
	_, err := ParseList([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	require.ErrorIs(t, err, ErrMalformed)
	_, err = ParseList(AppendList(nil, []Extent{{Base: 5, Last: 4, Batches: 1}}))
	require.ErrorIs(t, err, ErrMalformed)
	_, err = ParseList(AppendList(nil, []Extent{{Base: 5, Last: 9, Batches: 1}, {Base: 9, Last: 9, Batches: 1}}))
	require.ErrorIs(t, err, ErrMalformed)
}

func TestList_Markers(t *testing.T) {
	require.Equal(t, uintptr(48), unsafe.Sizeof(Extent{}), "what markers need fits the padding")
	for _, m := range []EndMarker{
		{},
		{ProducerID: math.MaxInt64, Epoch: math.MaxInt16, Commit: true, CoordinatorEpoch: math.MinInt32},
		{ProducerID: 1, Epoch: 1, CoordinatorEpoch: math.MaxInt32},
	} {
		exts := []Extent{{Last: 6, Bundle: 9, Length: 4, Batches: 1}, NewMarker(7, 5, m), {Base: 8, Last: 8, Bundle: 9, Batches: 1}}
		got, err := ParseList(AppendList(nil, exts))
		require.NoError(t, err)
		require.Equal(t, exts, got)
		require.Equal(t, m, got[1].EndMarker())
	}
	long := NewMarker(7, 5, EndMarker{})
	long.Last = 8
	many := NewMarker(7, 5, EndMarker{})
	many.Batches = 2
	for _, x := range []Extent{long, many, NewMarker(7, 5, EndMarker{ProducerID: -1})} {
		_, err := ParseList(AppendList(nil, []Extent{x}))
		require.ErrorIs(t, err, ErrMalformed)
	}
}

func FuzzParseList(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	var exts []Extent
	for range 50 {
		exts = append(exts, randomExtent(rng, model(exts).end()))
		f.Add(AppendList(nil, exts))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := ParseList(p)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		next := int64(0)
		for _, x := range got {
			require.GreaterOrEqual(t, x.Base, next)
			require.GreaterOrEqual(t, x.Last, x.Base)
			next = x.Last + 1
		}
		again, err := ParseList(AppendList(nil, got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func BenchmarkAppend(b *testing.B) {
	var tree Tree
	for i := int64(0); b.Loop(); i++ {
		tree.Append(1, Extent{Base: i, Last: i, MaxTimestamp: i})
	}
}

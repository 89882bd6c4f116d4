package extent

import (
	"math"
	"sort"
)

// fanOut is the most extents in a leaf and the most children of an inner node.
const fanOut = 32

// Tree is a persistent B+tree of one partition's extents, in offset order and not overlapping, each node knowing
// the largest timestamp, the extents, batches and bytes below it.
//
// Persistence is by generation: a mutating method gets the caller's generation, changes nodes of that generation in
// place and copies others. A copy of a Tree value is a snapshot, as long as whoever goes on mutating uses a larger
// generation than any used before the copy. Reading a snapshot is safe while another goroutine mutates the original.
// The zero Tree is empty.
type Tree struct{ root *node }

// Totals counts what is below a node.
type Totals struct {
	MaxTimestamp int64 // -1 if none
	Bytes        int64
	Batches      int64
	Extents      int64
}

func (t *Totals) add(o Totals) {
	t.MaxTimestamp = max(t.MaxTimestamp, o.MaxTimestamp)
	t.Bytes += o.Bytes
	t.Batches += o.Batches
	t.Extents += o.Extents
}

func totalsOf(x *Extent) Totals {
	return Totals{MaxTimestamp: x.MaxTimestamp, Bytes: int64(x.Length), Batches: int64(x.Batches), Extents: 1}
}

// node is a leaf (exts) or an inner node (kids).
type node struct {
	gen  uint64
	exts []Extent
	kids []child
}

// child is an inner node's entry: what it must know of the node below without visiting it.
type child struct {
	base int64 // first offset below
	Totals
	*node
}

func (n *node) leaf() bool { return n.kids == nil }

// entry describes the node to its parent.
func (n *node) entry() child {
	c := child{Totals: Totals{MaxTimestamp: -1}, node: n}
	if n.leaf() {
		c.base = n.exts[0].Base
		for i := range n.exts {
			c.add(totalsOf(&n.exts[i]))
		}
		return c
	}
	c.base = n.kids[0].base
	for i := range n.kids {
		c.add(n.kids[i].Totals)
	}
	return c
}

// mutable gives the node itself if it is of the generation, else a copy that is.
func (n *node) mutable(gen uint64) *node {
	if n.gen == gen {
		return n
	}
	m := &node{gen: gen}
	if n.leaf() {
		m.exts = make([]Extent, len(n.exts), min(fanOut, max(len(n.exts)+1, len(n.exts)*2)))
		copy(m.exts, n.exts)
		return m
	}
	m.kids = make([]child, len(n.kids), min(fanOut, len(n.kids)*2))
	copy(m.kids, n.kids)
	return m
}

// Append adds an extent whose base is above every offset in the tree.
func (t *Tree) Append(gen uint64, x Extent) {
	if t.root == nil {
		t.root = &node{gen: gen, exts: []Extent{x}}
		return
	}
	t.root = t.root.mutable(gen)
	if right := t.root.append(gen, &x); right != nil {
		t.root = &node{gen: gen, kids: []child{t.root.entry(), right.entry()}}
	}
}

// append adds to a mutable node; a full one leaves the extent to a new right sibling, which is returned.
func (n *node) append(gen uint64, x *Extent) *node {
	if n.leaf() {
		if len(n.exts) < fanOut {
			n.exts = append(n.exts, *x)
			return nil
		}
		return &node{gen: gen, exts: []Extent{*x}}
	}
	c := &n.kids[len(n.kids)-1]
	if c.gen != gen {
		c.node = c.node.mutable(gen)
	}
	right := c.node.append(gen, x)
	if right == nil {
		c.add(totalsOf(x))
		return nil
	}
	e := right.entry()
	if len(n.kids) < fanOut {
		n.kids = append(n.kids, e)
		return nil
	}
	return &node{gen: gen, kids: []child{e}}
}

// Empty tells whether there is no extent.
func (t *Tree) Empty() bool { return t.root == nil }

// Totals of the whole tree, in O(fan-out).
func (t *Tree) Totals() Totals {
	if t.root == nil {
		return Totals{MaxTimestamp: -1}
	}
	return t.root.entry().Totals
}

// First gives the first extent.
func (t *Tree) First() (Extent, bool) {
	n := t.root
	if n == nil {
		return Extent{}, false
	}
	for !n.leaf() {
		n = n.kids[0].node
	}
	return n.exts[0], true
}

// Last gives the last extent.
func (t *Tree) Last() (Extent, bool) {
	n := t.root
	if n == nil {
		return Extent{}, false
	}
	for !n.leaf() {
		n = n.kids[len(n.kids)-1].node
	}
	return n.exts[len(n.exts)-1], true
}

// Find gives the extent that covers the offset, or else the first one above it.
func (t *Tree) Find(offset int64) (x Extent, ok bool) {
	t.Ascend(offset, func(e *Extent) bool {
		x, ok = *e, true
		return false
	})
	return x, ok
}

// Ascend calls yield for each extent with offsets at or above from, in order, until it returns false. The extent is
// the tree's own: it must not be changed or kept.
func (t *Tree) Ascend(from int64, yield func(*Extent) bool) {
	if t.root != nil {
		t.root.ascend(from, yield)
	}
}

func (n *node) ascend(from int64, yield func(*Extent) bool) bool {
	if n.leaf() {
		for i := sort.Search(len(n.exts), func(i int) bool { return n.exts[i].Last >= from }); i < len(n.exts); i++ {
			if !yield(&n.exts[i]) {
				return false
			}
		}
		return true
	}
	for i := n.childAt(from); i < len(n.kids); i++ {
		if !n.kids[i].ascend(from, yield) {
			return false
		}
	}
	return true
}

// childAt is the last child that begins at or below the offset, or the first.
func (n *node) childAt(offset int64) int {
	return max(sort.Search(len(n.kids), func(i int) bool { return n.kids[i].base > offset })-1, 0)
}

// FindTimestamp gives the first extent with offsets at or above from whose max timestamp is at least ts.
func (t *Tree) FindTimestamp(from, ts int64) (Extent, bool) {
	if t.root == nil {
		return Extent{}, false
	}
	return t.root.findTimestamp(from, ts)
}

func (n *node) findTimestamp(from, ts int64) (Extent, bool) {
	if n.leaf() {
		for i := range n.exts {
			if x := &n.exts[i]; x.Last >= from && x.MaxTimestamp >= ts {
				return *x, true
			}
		}
		return Extent{}, false
	}
	// Only the first child visited can disappoint, for what lies below from; then the search goes on to its right.
	for i := n.childAt(from); i < len(n.kids); i++ {
		if n.kids[i].MaxTimestamp >= ts {
			if x, ok := n.kids[i].findTimestamp(from, ts); ok {
				return x, true
			}
		}
	}
	return Extent{}, false
}

// MaxTimestamp gives the first of the extents with the largest max timestamp among those with offsets at or above
// from.
func (t *Tree) MaxTimestamp(from int64) (Extent, bool) {
	return t.MaxTimestampBetween(from, math.MaxInt64)
}

// MaxTimestampBetween returns the first of the extents with the largest max timestamp among those that have offsets at
// or above from and begin below to.
func (t *Tree) MaxTimestampBetween(from, to int64) (Extent, bool) {
	if t.root == nil {
		return Extent{}, false
	}
	x, ok := t.FindTimestamp(from, t.root.maxTimestamp(from, to))
	if !ok || x.Base >= to {
		return Extent{}, false
	}
	return x, true
}

// maxTimestamp is the largest timestamp of the extents between from and to, -1 if none.
func (n *node) maxTimestamp(from, to int64) int64 {
	top := int64(-1)
	if n.leaf() {
		for i := range n.exts {
			if x := &n.exts[i]; x.Last >= from && x.Base < to {
				top = max(top, x.MaxTimestamp)
			}
		}
		return top
	}
	first := n.childAt(from)
	for i := first; i < len(n.kids) && n.kids[i].base < to; i++ {
		if i > first && i+1 < len(n.kids) && n.kids[i+1].base <= to {
			top = max(top, n.kids[i].Totals.MaxTimestamp) // all of it lies between
		} else {
			top = max(top, n.kids[i].maxTimestamp(from, to))
		}
	}
	return top
}

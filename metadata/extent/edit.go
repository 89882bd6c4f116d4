package extent

import (
	"math"
	"sort"
)

// shared is a generation that no node has: mutating with it copies every node on the way.
const shared = 0

// TrimFront removes the extents that lie wholly below the offset and returns them as a tree of their own. It costs
// the depth of the tree, whatever the number of extents. Generations are 1 or more.
func (t *Tree) TrimFront(gen uint64, offset int64) (removed Tree) {
	if first, ok := t.First(); !ok || first.Last >= offset {
		return Tree{}
	}
	// Whole subtrees end in one of the two trees alone; nodes on the cut are copied for the removed one.
	removed = Tree{t.root}
	removed.edit(shared, offset, math.MaxInt64, nil, cutLast)
	t.edit(gen, 0, offset-1, nil, cutWhole)
	return removed
}

// Replace removes the extents that lie wholly within [from, to] and puts the given ones in their place. Those must
// ascend and lie within [from, to], clear of the extents that stay.
func (t *Tree) Replace(gen uint64, from, to int64, with []Extent) {
	t.edit(gen, from, to, with, cutWhole)
}

// cut tells which extents an edit of [from, to] removes.
type cut uint8

const (
	cutWhole cut = iota // those wholly within
	cutLast             // those whose last offset is within
)

func (c cut) removes(x *Extent, from, to int64) bool {
	if c == cutLast {
		return x.Last >= from && x.Last <= to
	}
	return x.Base >= from && x.Last <= to
}

// edit rebuilds the path to the range and the root above it.
func (t *Tree) edit(gen uint64, from, to int64, with []Extent, c cut) {
	var nodes []child
	if t.root != nil {
		nodes = t.root.edit(gen, from, to, with, c)
	} else {
		nodes = leaves(gen, with)
	}
	for len(nodes) > 1 {
		nodes = inners(gen, nodes)
	}
	if len(nodes) == 0 {
		t.root = nil
		return
	}
	t.root = nodes[0].node
	for !t.root.leaf() && len(t.root.kids) == 1 {
		t.root = t.root.kids[0].node
	}
}

// edit gives the nodes of the same height that replace n: none, one or several.
func (n *node) edit(gen uint64, from, to int64, with []Extent, c cut) []child {
	if n.leaf() {
		return n.editLeaf(gen, from, to, with, c)
	}
	// Children from lo to hi, both inclusive, may hold extents of the range; the new ones go with child lo.
	lo := n.childAt(from)
	hi := max(sort.Search(len(n.kids), func(i int) bool { return n.kids[i].base > to })-1, lo)
	kids := append([]child(nil), n.kids[:lo]...)
	for i := lo; i <= hi; i++ {
		add := with
		if i > lo {
			add = nil
		}
		inside := i > lo && i < hi // begins after from, and the next child begins at or before to
		if inside && len(add) == 0 {
			continue
		}
		kids = append(kids, n.kids[i].edit(gen, from, to, add, c)...)
	}
	kids = append(kids, n.kids[hi+1:]...)
	return inners(gen, merge(gen, kids))
}

func (n *node) editLeaf(gen uint64, from, to int64, with []Extent, c cut) []child {
	kept := 0
	for i := range n.exts {
		if !c.removes(&n.exts[i], from, to) {
			kept++
		}
	}
	exts := make([]Extent, 0, kept+len(with))
	placed := false
	for i := range n.exts {
		x := &n.exts[i]
		if !placed && x.Base > from {
			exts, placed = append(exts, with...), true
		}
		if !c.removes(x, from, to) {
			exts = append(exts, *x)
		}
	}
	if !placed {
		exts = append(exts, with...)
	}
	return leaves(gen, exts)
}

// leaves packs extents into leaves.
func leaves(gen uint64, exts []Extent) []child {
	var nodes []child
	for len(exts) > 0 {
		k := min(len(exts), fanOut)
		nodes = append(nodes, (&node{gen: gen, exts: exts[:k:k]}).entry())
		exts = exts[k:]
	}
	return nodes
}

// inners packs nodes into nodes one level up.
func inners(gen uint64, kids []child) []child {
	var nodes []child
	for len(kids) > 0 {
		k := min(len(kids), fanOut)
		nodes = append(nodes, (&node{gen: gen, kids: kids[:k:k]}).entry())
		kids = kids[k:]
	}
	return nodes
}

// merge joins neighbours that fit half a node together, so that repeated edits do not leave a tree of crumbs.
func merge(gen uint64, kids []child) []child {
	out := kids[:0]
	for _, k := range kids {
		if len(out) > 0 {
			if joined, ok := join(gen, out[len(out)-1].node, k.node); ok {
				out[len(out)-1] = joined
				continue
			}
		}
		out = append(out, k)
	}
	return out
}

func join(gen uint64, a, b *node) (child, bool) {
	if len(a.exts)+len(b.exts)+len(a.kids)+len(b.kids) > fanOut/2 {
		return child{}, false
	}
	n := &node{gen: gen}
	if a.leaf() {
		n.exts = append(append(n.exts, a.exts...), b.exts...)
	} else {
		n.kids = append(append(n.kids, a.kids...), b.kids...)
	}
	return n.entry(), true
}

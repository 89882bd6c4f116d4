package cache

import (
	"cmp"
	"slices"

	"github.com/freshet-io/freshet/metadata/extent"
)

// Next is what a reader will read of one partition, in this order.
type Next struct {
	Extents  []extent.Extent
	Position uint32 // in the object, where the first extent is read on; 0: from its beginning
	Bytes    int64  // how far it is worth looking, counted by units
}

// State is where a unit is.
type State uint8

const (
	Absent   State = iota // in the object store
	Coming                // on its way
	Resident              // in memory
)

// Ahead begins to read what a reader behind the live edge will want, partition by partition in the order given, without
// waiting. Units of one object that adjoin are one GET, up to 32 MiB. Another one begins when little is left of those
// before: how little, readers share, as they share the memory that is read ahead into. It tells of each partition where
// its first unit was.
func (c *Cache) Ahead(reader uint64, nexts []Next) []State {
	a := ahead{cache: c, seen: make(map[unitKey]State, len(nexts)), whole: c.lanes[CatchUp].expected(WholeUnit)}
	states := make([]State, len(nexts))
	for i := range nexts {
		states[i] = a.collect(&nexts[i])
	}
	if share := c.store.aheadShare(CatchUp, reader); a.occupied <= share && len(a.absent) > 0 {
		a.launch(account{class: CatchUp, reader: reader}, min(share, maxReadAhead/2))
	}
	return states
}

// ReadAhead is how many bytes may be read ahead for one reader, by one GET. What of it is in memory at a time is less
// where readers are many.
func (c *Cache) ReadAhead() int64 { return min(maxReadAhead, c.cfg.CatchUp.Bytes) }

// maxReadAhead bounds what is read ahead for one reader, and so one GET.
const maxReadAhead = 32 << 20

// ahead sorts what a reader wants by where it is.
type ahead struct {
	cache    *Cache
	seen     map[unitKey]State
	absent   []unitKey // in the order wanted
	occupied int64     // bytes of the others
	whole    int64     // what a whole bundle is expected to have, bytes
}

func (a *ahead) cost(key unitKey) int64 {
	if key.part {
		return PartUnit
	}
	return a.whole
}

// collect looks for what one partition wants and gives the state of its first unit.
func (a *ahead) collect(n *Next) State {
	first, begun := Absent, false
	var last unitKey
	for i, left := 0, n.Bytes; i < len(n.Extents) && (left > 0 || !begun); i++ {
		e := n.Extents[i]
		if e.Kind == extent.Marker {
			continue
		}
		if i == 0 && n.Position > e.Position {
			e.Length -= min(n.Position-e.Position, e.Length-1)
			e.Position = n.Position
		}
		for _, key := range unitKeys(&e) {
			if begun && (key == last || left <= 0) {
				continue
			}
			used := int64(0) // of the first unit
			if !begun && key.part {
				used = int64(e.Position - key.first)
			}
			state := a.look(key, used)
			if !begun {
				first, begun = state, true
			}
			last = key
			left -= a.cost(key) - used
		}
	}
	return first
}

// look finds out where a unit is, once. used is how much of it is not wanted any more, bytes.
func (a *ahead) look(key unitKey, used int64) State {
	state, ok := a.seen[key]
	if ok {
		return state
	}
	switch {
	case a.cache.store.keep(key):
		state = Resident
	case a.cache.flying(key):
		state = Coming
	case a.cache.store.keep(key): // it landed between the two looks: units are kept before their flights end
		state = Resident
	}
	a.seen[key] = state
	if state == Absent {
		a.absent = append(a.absent, key)
	} else {
		a.occupied += a.cost(key) - used
	}
	return state
}

// launch begins to read what is absent, what is wanted first before the rest, until more than enough is on its way.
func (a *ahead) launch(to account, enough int64) {
	for _, keys := range a.runs() {
		if a.occupied > enough {
			return
		}
		a.cache.launch(keys, to)
		for _, key := range keys {
			a.occupied += a.cost(key)
		}
	}
}

// runs are the absent units that adjoin, in the order of the first one wanted of each.
func (a *ahead) runs() [][]unitKey {
	order := make(map[unitKey]int, len(a.absent))
	for i, key := range a.absent {
		order[key] = i
	}
	sorted := slices.SortedFunc(slices.Values(a.absent), func(x, y unitKey) int {
		return cmp.Or(cmp.Compare(x.bundle, y.bundle), cmp.Compare(x.first, y.first))
	})
	var runs [][]unitKey
	firsts := make(map[unitKey]int)
	for i := 0; i < len(sorted); {
		first, n := order[sorted[i]], i+1
		for n < len(sorted) && sorted[n].follows(sorted[n-1]) && n-i < maxReadAhead/PartUnit {
			first = min(first, order[sorted[n]])
			n++
		}
		firsts[sorted[i]] = first
		runs = append(runs, sorted[i:n:n])
		i = n
	}
	slices.SortFunc(runs, func(x, y []unitKey) int { return cmp.Compare(firsts[x[0]], firsts[y[0]]) })
	return runs
}

// flying tells whether the unit is on its way.
func (c *Cache) flying(key unitKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.underWay(key, false) != nil
}

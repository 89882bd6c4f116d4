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
// waiting, up to what may be read ahead for a reader. It begins once half of that is used up, so that GETs are long:
// units of one object that adjoin are one GET. It tells of each partition where its first unit was.
func (c *Cache) Ahead(reader uint64, nexts []Next) []State {
	a := ahead{cache: c, seen: make(map[unitKey]State, len(nexts)), whole: c.lanes[CatchUp].expected(WholeUnit)}
	states, budget := make([]State, len(nexts)), int64(0)
	for i := range nexts {
		states[i] = a.collect(&nexts[i])
		budget += nexts[i].Bytes
	}
	budget = max(min(budget, c.ReadAhead()), PartUnit)
	if a.occupied <= budget/2 || a.occupied < PartUnit {
		a.launch(account{class: CatchUp, reader: reader}, budget-a.occupied)
	}
	return states
}

// ReadAhead is how many bytes may be read ahead for one reader. What of it is in memory at a time is less where readers
// are many.
func (c *Cache) ReadAhead() int64 { return min(maxReadAhead, c.cfg.CatchUp.Bytes/2) }

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
			state := a.look(key)
			if !begun {
				first, begun = state, true
			}
			last = key
			left -= a.cost(key)
		}
	}
	return first
}

// look finds out where a unit is, once.
func (a *ahead) look(key unitKey) State {
	state, ok := a.seen[key]
	if ok {
		return state
	}
	switch {
	case a.cache.store.has(key):
		state = Resident
	case a.cache.flying(key):
		state = Coming
	}
	a.seen[key] = state
	if state == Absent {
		a.absent = append(a.absent, key)
	} else {
		a.occupied += a.cost(key)
	}
	return state
}

// launch begins to read what is absent, up to room bytes.
func (a *ahead) launch(to account, room int64) {
	n := 0
	for n < len(a.absent) && (room > 0 || n == 0) {
		room -= a.cost(a.absent[n])
		n++
	}
	keys := a.absent[:n]
	slices.SortStableFunc(keys, func(x, y unitKey) int {
		return cmp.Or(cmp.Compare(x.bundle, y.bundle), cmp.Compare(x.first, y.first))
	})
	for len(keys) > 0 {
		n := slices.IndexFunc(keys, func(k unitKey) bool { return k.bundle != keys[0].bundle })
		if n < 0 {
			n = len(keys)
		}
		a.cache.launch(keys[:n:n], to)
		keys = keys[n:]
	}
}

// flying tells whether the unit is on its way.
func (c *Cache) flying(key unitKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.underWay(key, false) != nil
}

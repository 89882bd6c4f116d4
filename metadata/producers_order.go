package metadata

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"
)

const (
	// useSpan is the resolution of the order of last use, in seconds. Kafka looks for expired producers as often
	// (producer.id.expiration.check.interval.ms), so a producer is forgotten 24 hours to 24 hours and 10 minutes after
	// its last batch.
	useSpan = 600
	// orderedFrom is the number of producers above which a partition keeps an order of last use. Fewer are scanned.
	orderedFrom = 16
)

// orderDegree keeps the nodes of an order near 1 KiB.
const orderDegree = 32

// lastUse is a place in the order of last use.
type lastUse struct {
	span       uint32 // of useSpan seconds, since the epoch
	producerID int64
}

func (a lastUse) compare(b lastUse) int {
	return cmp.Or(cmp.Compare(a.span, b.span), cmp.Compare(a.producerID, b.producerID))
}

// useOrder lists the producers of a table by last use, then id. It is derived from the table, so snapshots do not have
// it. A batch moves its producer at most once in useSpan.
type useOrder struct {
	tree *btree.BTreeG[lastUse] // nil for a small table
}

func (o *useOrder) copy() useOrder {
	if o.tree == nil {
		return useOrder{}
	}
	return useOrder{o.tree.Copy()}
}

// set moves a producer to its last use. seen and before are in seconds since the epoch; known reports whether the
// producer was in the table with a last use of before.
func (o *useOrder) set(producerID int64, seen uint32, known bool, before uint32) {
	if o.tree == nil {
		return
	}
	if known {
		if seen/useSpan == before/useSpan {
			return
		}
		o.tree.Delete(lastUse{before / useSpan, producerID})
	}
	o.tree.Set(lastUse{seen / useSpan, producerID})
}

// delete removes a producer, and the whole order once the table is small.
func (o *useOrder) delete(producerID int64, seen uint32, left int) {
	switch {
	case o.tree == nil:
	case left <= orderedFrom:
		o.tree = nil
	default:
		o.tree.Delete(lastUse{seen / useSpan, producerID})
	}
}

// build makes the order of a table that has outgrown a scan.
func (o *useOrder) build(uses []lastUse) {
	o.tree = btree.NewBTreeGOptions(func(a, b lastUse) bool { return a.compare(b) < 0 },
		btree.Options{NoLocks: true, Degree: orderDegree})
	for _, u := range uses {
		o.tree.Set(u)
	}
}

// uses returns the places of a table's entries, in the order of their ids.
func uses[V any](table *btree.Map[int64, V], seen func(*V) uint32) []lastUse {
	list := make([]lastUse, 0, table.Len())
	table.Scan(func(producerID int64, v V) bool {
		list = append(list, lastUse{seen(&v) / useSpan, producerID})
		return true
	})
	return list
}

func seenProducer(q *producer) uint32 { return q.seen }

func seenResting(r *resting) uint32 { return r.seen }

// setProducer stores what is remembered of an active producer.
func (p *partition) setProducer(producerID int64, q producer) {
	before, known := p.producers.Set(producerID, q)
	p.active.set(producerID, q.seen, known, before.seen)
	if p.active.tree == nil && p.producers.Len() > orderedFrom {
		p.active.build(uses(&p.producers, seenProducer))
	}
}

// deleteProducer removes an active producer and returns what was remembered of it.
func (p *partition) deleteProducer(producerID int64) producer {
	q, _ := p.producers.Delete(producerID)
	p.active.delete(producerID, q.seen, p.producers.Len())
	return q
}

// setResting stores what is left of a producer that is not active any more.
func (p *partition) setResting(producerID int64, r resting) {
	if p.resting == nil {
		p.resting = newResting()
	}
	before, known := p.resting.Set(producerID, r)
	p.idle.set(producerID, r.seen, known, before.seen)
	if p.idle.tree == nil && p.resting.Len() > orderedFrom {
		p.idle.build(uses(p.resting, seenResting))
	}
}

// deleteResting removes a producer from those at rest.
func (p *partition) deleteResting(producerID int64) {
	if p.resting == nil {
		return
	}
	if r, ok := p.resting.Delete(producerID); ok {
		p.idle.delete(producerID, r.seen, p.resting.Len())
	}
}

// ascendUses calls yield for the active producers in the order of their last use until it returns false. It does not
// change the partition.
func (p *partition) ascendUses(yield func(lastUse) bool) {
	if p.active.tree != nil {
		p.active.tree.Scan(yield)
		return
	}
	list := uses(&p.producers, seenProducer)
	slices.SortFunc(list, lastUse.compare)
	for _, u := range list {
		if !yield(u) {
			return
		}
	}
}

// longestResting returns the producer that has been at rest for longest. There must be one.
func (p *partition) longestResting() int64 {
	if p.idle.tree != nil {
		first, _ := p.idle.tree.Min()
		return first.producerID
	}
	return slices.MinFunc(uses(p.resting, seenResting), lastUse.compare).producerID
}

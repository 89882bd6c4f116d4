package writer

import (
	"cmp"
	"slices"
	"sync"

	"github.com/freshet-io/freshet/metadata/id"
)

// When a bundle may be handed in for commit. As a rule that is when all before it were: the sequencer settles them in the order
// of n. While some of those are missing, since their PUTs take longer, it may overtake them: once every bundle before it that
// has batches of a line in common with it is settled, and this agent was told so. That such a one was handed in would not
// be enough, since what is handed in may come to the owner in any order.

// sequence is whose batches are in order: a producer's in a partition. Those of a partition without a producer id are one
// sequence, whatever connections they came by.
type sequence struct {
	partition id.TopicPartition
	producer  int64
}

// line is whose batches do not overtake each other: those of a sequence, and those of a partition that came by one
// connection, whoever produced them (I2).
type line struct {
	sequence
	connection   uint16
	byConnection bool
}

// lineOverhead is what one line of a bundle that was entered costs, bytes; it is charged to the write buffers.
const lineOverhead = 128

// order knows which lines the bundles of a session have batches of that are not settled. Bundles are entered in the order
// of n, each once, and only when one of them could overtake others: so this costs nothing as long as PUTs end in order.
type order struct {
	sync.Mutex
	upTo   uint32           // bundles up to this n were entered, but for those settled before
	newest map[line]*sealed // of those entered and not settled, the last with batches of the line
}

// awaitOrder waits until the bundle may be handed in for commit, and tells whether it overtakes others; ok is false if the
// session ended.
func (b *sealed) awaitOrder() (overtakes, ok bool) {
	select {
	case <-b.turn:
		return false, b.s.ctx.Err() == nil
	default:
	}
	if !b.s.mayOvertake() {
		return false, b.awaitTurn()
	}
	for _, before := range b.s.order.entangled(b) {
		select {
		case <-before.settled:
		case <-b.turn:
			return false, b.s.ctx.Err() == nil
		case <-b.s.ctx.Done():
			return false, false
		}
	}
	return true, b.s.ctx.Err() == nil
}

// entangled gives the bundles that b must not overtake: of each of its lines, the last one before it. That one in turn is
// settled after those before it.
func (o *order) entangled(b *sealed) []*sealed {
	o.Lock()
	defer o.Unlock()
	for _, next := range b.s.unanswered(o.upTo+1, b.n) {
		o.enter(next)
	}
	o.upTo = max(o.upTo, b.n)
	return b.after
}

// enter is called with the lock held.
func (o *order) enter(b *sealed) {
	list := b.lines()
	if o.newest == nil {
		o.newest = make(map[line]*sealed, len(list))
	}
	for _, q := range list {
		before := o.newest[q]
		if before != nil && before != b && (len(b.after) == 0 || b.after[len(b.after)-1] != before) {
			b.after = append(b.after, before)
		}
		o.newest[q] = b
	}
	slices.SortFunc(b.after, func(x, y *sealed) int { return cmp.Compare(x.n, y.n) })
	b.after = slices.Compact(b.after)
	b.entered = true
	b.s.w.cfg.Pool.Charge(int64(len(list)) * lineOverhead)
}

// leave takes a bundle out that is settled.
func (o *order) leave(b *sealed) {
	o.Lock()
	defer o.Unlock()
	if !b.entered {
		return // nor will it be
	}
	list := b.lines()
	for _, q := range list {
		if o.newest[q] == b {
			delete(o.newest, q)
		}
	}
	if len(o.newest) == 0 {
		o.newest = nil // maps do not shrink
	}
	b.after = nil
	b.s.w.cfg.Pool.Charge(-int64(len(list)) * lineOverhead)
}

// lines gives the lines that the bundle has batches of as it was sealed, some of them several times. Unlike the rest of the
// bundle's content it may be asked for by other bundles.
func (b *sealed) lines() []line {
	b.content.Lock()
	defer b.content.Unlock()
	if b.content.lines != nil {
		return b.content.lines
	}
	list := make([]line, 0, 2*len(b.groups))
	for _, g := range b.groups {
		var before *entry
		for i := g.first; i >= 0; i = b.entries[i].next {
			e := &b.entries[i]
			if producer := e.meta.ProducerID; before == nil || producer != before.meta.ProducerID {
				list = append(list, line{sequence: sequence{g.partition, producer}})
			}
			if before == nil || e.connection != before.connection {
				list = append(list, line{sequence{partition: g.partition}, e.connection, true})
			}
			before = e
		}
	}
	b.content.lines = list
	return list
}

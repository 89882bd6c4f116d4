package differential

import (
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// draw draws sequences. Everything follows from its seed.
type draw struct {
	*rand.Rand
	kind    kind
	clients int
	nothing bool // members subscribe to what does not exist
}

// kind is what a sequence is mostly about.
type kind int

const (
	classicKind kind = iota
	consumerKind
	mixedKind
	offsetsKind
	transactionsKind
	exactlyOnceKind
	kinds
)

// newSequence draws the sequence of a seed.
func newSequence(seed uint64) sequence {
	d := &draw{Rand: rand.New(rand.NewPCG(seed, 15))}
	d.kind = kind(d.IntN(int(kinds)))
	d.clients = 2 + d.IntN(3)
	// Servers draw ids for classic members that consumer groups meet, and go by them: range in their order, uniform in
	// that of hash tables. So where both protocols meet, members name themselves, or there is nothing to assign.
	meets := d.kind != classicKind && d.kind != consumerKind && d.kind != transactionsKind
	s := sequence{seed: seed}
	assignor := d.either("range", "range", "uniform")
	d.nothing = meets && d.chance(40)
	if meets && !d.nothing {
		assignor = "range"
	}
	for range d.clients {
		tr := traits{main: 0, id: d.IntN(4) / 3, second: d.chance(60), assignor: assignor, named: meets && !d.nothing}
		if d.chance(30) && !tr.named {
			tr.instance = d.either("i0", "i1", "i2")
		}
		s.traits = append(s.traits, tr)
	}
	for range 15 + d.IntN(26) {
		s.ops = append(s.ops, d.op())
	}
	return s
}

func (d *draw) chance(percent int) bool { return d.IntN(100) < percent }

func (d *draw) either(choices ...string) string { return choices[d.IntN(len(choices))] }

// version draws a version that is served.
func (d *draw) version(key kmsg.Key) int16 {
	entry, _ := kafkaproto.Lookup(int16(key))
	return d.between(entry.Served.Min, entry.Served.Max)
}

func (d *draw) between(low, high int16) int16 { return low + int16(d.IntN(int(high-low)+1)) }

// op draws one request.
func (d *draw) op() op {
	slot := d.IntN(d.clients)
	var build func(c *client) kmsg.Request
	switch d.kind {
	case classicKind:
		build = d.weighted(50, d.classicNext, 30, d.classicAny, 12, d.offsets, 8, d.admin)
	case consumerKind:
		build = d.weighted(55, d.consumerNext, 25, d.consumerAny, 10, d.offsets, 10, d.admin)
	case mixedKind:
		build = d.weighted(30, d.classicNext, 30, d.consumerNext, 10, d.classicAny, 10, d.consumerAny, 8, d.offsets, 12, d.admin)
	case offsetsKind:
		build = d.weighted(60, d.offsets, 10, d.classicNext, 10, d.consumerNext, 20, d.admin)
	case transactionsKind:
		build = d.weighted(60, d.txnNext, 40, d.txnAny)
	default: // exactlyOnceKind
		build = d.weighted(20, d.classicNext, 10, d.consumerNext, 40, d.txnNext, 15, d.txnAny, 15, d.offsets)
	}
	return op{slot: slot, build: build}
}

// weighted draws one of several drawers: weights and drawers in turn.
func (d *draw) weighted(pairs ...any) func(c *client) kmsg.Request {
	n := d.IntN(100)
	for i := 0; i < len(pairs); i += 2 {
		if n -= pairs[i].(int); n < 0 {
			return pairs[i+1].(func() func(c *client) kmsg.Request)()
		}
	}
	panic("weights below 100")
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// memberOf is the id under which the client drawn is a member: of the protocol that it speaks.
func (c *client) memberOf() (id string, epoch int32) {
	if c.classicID != "" {
		return c.classicID, c.generation
	}
	if c.epoch != 0 {
		return c.consumerID, c.epoch
	}
	return "", -1
}

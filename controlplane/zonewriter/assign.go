package zonewriter

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata/id"
)

// Rates are what Assign goes by, in bytes per second.
type Rates struct {
	// Writer is what one writer carries: a zone has as many writers as its rate takes. Default 64 MiB/s.
	Writer float64
	// Fill is the rate at which an agent fills whole bundles by itself, flush-bytes / flush-interval. Default 32 MiB/s.
	Fill float64
}

// ApplyDefaults sets what is zero to its default.
func (r *Rates) ApplyDefaults() {
	r.Writer = cmp.Or(r.Writer, 64<<20)
	r.Fill = cmp.Or(r.Fill, 32<<20)
}

const (
	// fillHysteresis is how many times below Rates.Fill an agent has to fall to fill no bundles by itself any more.
	fillHysteresis = 2
	// fallBelow is the part of what fewer writers carry that the zone's rate has to be below for there to be fewer.
	fallBelow = 0.75
	// slack is how much above the mean a writer is given agents by their hash; those that find no writer below it go to
	// the one that carries least.
	slack = 1.25
)

// Agent is one agent of a zone that writes: open, not draining, with the produce role.
type Agent struct {
	Session id.Session
	Rate    float64 // bytes per second that its clients send, 0 or more, smoothed
	Takes   bool    // takes other agents' batches, and hands over its own
}

// Kind is what an agent does in a Plan.
type Kind uint8

// The kinds.
const (
	Apart  Kind = iota + 1 // it takes no batches and hands none over: it writes its own
	Hands                  // it hands its batches to its writer
	Writes                 // it was chosen to write
	Fills                  // it fills whole bundles by itself, so it writes; others' batches too, as far as there is room
)

// Place is what a Plan has for one agent.
type Place struct {
	Writer id.Session // the agent itself, unless it is of kind Hands
	Kind   Kind
}

// Plan says who writes what in one zone. Its zero value is that of no agents.
type Plan struct {
	Of    map[id.Session]Place // every agent of the zone
	Share float64              // of the zone's PUT budget that each writer has: 1/writers; 0 without agents
}

// Writers is the number of agents that write anything.
func (p Plan) Writers() int {
	n := 0
	for _, place := range p.Of {
		if place.Kind != Hands {
			n++
		}
	}
	return n
}

// pooled is the number of writers among the agents that take batches.
func (p Plan) pooled() int {
	n := 0
	for _, place := range p.Of {
		if place.Kind == Writes || place.Kind == Fills {
			n++
		}
	}
	return n
}

// wrote tells whether an agent was one of the writers that others' batches go to.
func (p Plan) wrote(s id.Session) bool {
	k := p.Of[s].Kind
	return k == Writes || k == Fills
}

// Assign plans one zone. It is a pure function, whatever the order of the agents, and keeps of the plan before what can
// stay: see the package comment for the rules. What comes out is final: with it as the plan before, the same agents get
// the same plan.
func Assign(zone []Agent, before Plan, rates Rates) Plan {
	rates.ApplyDefaults()
	p := placing{rates: rates, before: before, plan: Plan{Of: make(map[id.Session]Place, len(zone))}, loads: map[id.Session]float64{}}
	for _, a := range slices.SortedFunc(slices.Values(zone), func(a, b Agent) int { return cmp.Compare(a.Session, b.Session) }) {
		switch {
		case !a.Takes:
			p.plan.Of[a.Session] = Place{Writer: a.Session, Kind: Apart}
		case p.fills(a):
			p.write(a, Fills)
		default:
			p.rest = append(p.rest, a)
		}
	}
	p.choose()
	p.place()
	if n := p.plan.Writers(); n > 0 {
		p.plan.Share = 1 / float64(n)
	}
	return p.plan
}

// placing is one run of Assign.
type placing struct {
	rates   Rates
	before  Plan
	plan    Plan
	writers []uint32               // those that others' batches go to, ascending after choose
	loads   map[id.Session]float64 // what each of them carries so far
	even    float64                // what each would carry on the mean; see count
	rest    []Agent                // who takes batches and is not placed yet, in order of sessions
}

// fills tells whether an agent fills whole bundles by itself.
func (p *placing) fills(a Agent) bool {
	return a.Rate >= p.rates.Fill || p.before.Of[a.Session].Kind == Fills && a.Rate >= p.rates.Fill/fillHysteresis
}

func (p *placing) write(a Agent, kind Kind) {
	p.plan.Of[a.Session] = Place{Writer: a.Session, Kind: kind}
	p.writers = append(p.writers, uint32(a.Session))
	p.loads[a.Session] = a.Rate
}

// count gives the number of writers wanted among those who take batches. What an agent has by itself beyond Rates.Writer
// is not counted: nobody could take it off that agent, and further writers would only make for more PUTs.
func (p *placing) count() int {
	rate := 0.0
	for _, load := range p.loads {
		rate += min(load, p.rates.Writer)
	}
	for _, a := range p.rest {
		rate += min(a.Rate, p.rates.Writer)
	}
	least := max(1, int(math.Ceil(rate/p.rates.Writer)))
	most := int(rate/(fallBelow*p.rates.Writer)) + 1
	n := min(max(p.before.pooled(), least), max(least, most))
	n = max(n, len(p.writers)) // there may be fewer agents: then nobody hands anything over
	p.even = rate / float64(n)
	return n
}

// choose adds writers until there are enough: those who wrote before, then others, both by rendezvous hashing.
func (p *placing) choose() {
	missing := p.count() - len(p.writers)
	var wrote, others []uint32
	for _, a := range p.rest {
		if p.before.wrote(a.Session) {
			wrote = append(wrote, uint32(a.Session))
		} else {
			others = append(others, uint32(a.Session))
		}
	}
	chosen := append(first(missing, wrote), first(missing-len(wrote), others)...)
	rest := p.rest[:0]
	for _, a := range p.rest {
		if slices.Contains(chosen, uint32(a.Session)) {
			p.write(a, Writes)
		} else {
			rest = append(rest, a)
		}
	}
	p.rest = rest
	slices.Sort(p.writers)
}

// Names of what is hashed.
const (
	hashWriter = 'w' // which agents write
	hashAgent  = 'a' // whose batches go where
)

// first gives the n sessions that rank highest, at most all of them, in order of their rank.
func first(n int, sessions []uint32) (best []uint32) {
	left := slices.Clone(sessions)
	for len(best) < n && len(left) > 0 {
		i := assign.Key(hashWriter, "", left)
		best = append(best, left[i])
		left = slices.Delete(left, int(i), int(i)+1)
	}
	return best
}

// place gives the agents that do not write their writers. Who can stay where it is goes first.
func (p *placing) place() {
	var added []uint32
	for _, w := range p.writers {
		if !p.before.wrote(id.Session(w)) {
			added = append(added, w)
		}
	}
	var moving []Agent
	for _, a := range p.rest {
		if !p.stay(a, added) {
			moving = append(moving, a)
		}
	}
	for _, a := range moving {
		p.hand(a, p.pick(a))
	}
}

// stay leaves an agent with its writer, or has it follow its hash to one that was added; false if it has to move.
func (p *placing) stay(a Agent, added []uint32) bool {
	was, ok := p.before.Of[a.Session]
	if _, writes := p.loads[was.Writer]; !ok || !writes {
		return false
	}
	if len(added) > 0 {
		among := append([]uint32{uint32(was.Writer)}, added...)
		if to := id.Session(among[preferred(a, among)]); to != was.Writer && p.loads[to]+a.Rate <= slack*p.even {
			p.hand(a, to)
			return true
		}
	}
	if p.loads[was.Writer]+a.Rate > p.even+p.rates.Writer {
		return false
	}
	p.hand(a, was.Writer)
	return true
}

// pick gives the writer that an agent's hash prefers of those with room. Without any it is the one that carries least,
// which takes it to Rates.Writer above the mean at most: as there are enough writers for the rate, one of them is always
// below the mean, and no agent that hands over has more than Rates.Fill.
func (p *placing) pick(a Agent) id.Session {
	var room []uint32
	least := id.Session(p.writers[0])
	for _, w := range p.writers {
		if p.loads[id.Session(w)]+a.Rate <= slack*p.even {
			room = append(room, w)
		}
		if p.loads[id.Session(w)] < p.loads[least] {
			least = id.Session(w)
		}
	}
	if len(room) == 0 {
		return least
	}
	return id.Session(room[preferred(a, room)])
}

// preferred gives the index of the writer that an agent's hash prefers.
func preferred(a Agent, writers []uint32) int32 {
	return assign.Key(hashAgent, strconv.FormatUint(uint64(a.Session), 10), writers)
}

func (p *placing) hand(a Agent, to id.Session) {
	p.plan.Of[a.Session] = Place{Writer: to, Kind: Hands}
	p.loads[to] += a.Rate
}

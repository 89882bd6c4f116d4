package zonewriter

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

const mib = 1 << 20

// zoneOf makes agents 1, 2, ... that take batches, of rates in MiB/s.
func zoneOf(mibs ...float64) (zone []Agent) {
	for i, r := range mibs {
		zone = append(zone, Agent{Session: id.Session(i + 1), Rate: r * mib, Takes: true})
	}
	return zone
}

func same(n int, mibs float64) []Agent { return zoneOf(slices.Repeat([]float64{mibs}, n)...) }

// carried is what each writer of a plan carries, in bytes per second.
func carried(zone []Agent, p Plan) map[id.Session]float64 {
	loads := map[id.Session]float64{}
	for _, a := range zone {
		loads[p.Of[a.Session].Writer] += a.Rate
	}
	return loads
}

// check asserts what holds of every plan.
func check(t *testing.T, zone []Agent, p Plan) {
	t.Helper()
	require.Len(t, p.Of, len(zone), "every agent has a place, and nobody else")
	total, takers := 0.0, 0
	for _, a := range zone {
		total += a.Rate
		place := p.Of[a.Session]
		require.Equal(t, place.Kind == Apart, !a.Takes)
		if a.Takes {
			takers++
		}
		if place.Kind != Hands {
			require.Equal(t, a.Session, place.Writer, "a writer writes its own batches")
			continue
		}
		require.Contains(t, []Kind{Writes, Fills}, p.Of[place.Writer].Kind, "%d hands to %d, which does not write", a.Session, place.Writer)
	}
	if len(zone) == 0 {
		require.Zero(t, p.Share)
		return
	}
	require.InDelta(t, 1, p.Share*float64(p.Writers()), 1e-9, "the parts of the budget")
	if takers > 0 {
		require.Positive(t, p.pooled())
	}
	checkBound(t, zone, p, total/float64(p.Writers()))
}

// checkBound asserts that no writer carries over 64 MiB/s more than its share, of what it was given.
func checkBound(t *testing.T, zone []Agent, p Plan, share float64) {
	t.Helper()
	if slices.ContainsFunc(zone, func(a Agent) bool { return !a.Takes }) {
		share = 0 // those apart may have next to nothing, and their share is nobody's to give
		for _, a := range zone {
			if a.Takes {
				share += a.Rate / float64(p.pooled())
			}
		}
	}
	own := map[id.Session]float64{}
	for _, a := range zone {
		own[a.Session] = a.Rate
	}
	for w, load := range carried(zone, p) {
		if load > own[w] {
			require.LessOrEqual(t, load, share+64*mib+1, "writer %d of %d", w, p.Writers())
		}
	}
}

func (p Plan) kinds() map[Kind]int {
	n := map[Kind]int{}
	for _, place := range p.Of {
		n[place.Kind]++
	}
	return n
}

func TestAssign_Cases(t *testing.T) {
	for _, c := range []struct {
		name string
		zone []Agent
		want map[Kind]int
	}{
		{"nobody", nil, map[Kind]int{}},
		{"one idle agent", same(1, 0), map[Kind]int{Writes: 1}},
		{"one busy agent", same(1, 200), map[Kind]int{Fills: 1}},
		{"idle agents have one writer", same(8, 0), map[Kind]int{Writes: 1, Hands: 7}},
		{"64 MiB/s have one writer", same(8, 8), map[Kind]int{Writes: 1, Hands: 7}},
		{"a little more have two", same(8, 8.1), map[Kind]int{Writes: 2, Hands: 6}},
		{"just below what fills bundles", same(8, 31.9), map[Kind]int{Writes: 4, Hands: 4}},
		{"what fills bundles", same(8, 32), map[Kind]int{Fills: 8}},
		{"the others go to who writes anyway", zoneOf(40, 1, 1, 1), map[Kind]int{Fills: 1, Hands: 3}},
		{"but not beyond what it carries", zoneOf(60, 3, 3, 3), map[Kind]int{Fills: 1, Writes: 1, Hands: 2}},
		{"what nobody can take over asks for no further writers", zoneOf(200, 1, 1, 1), map[Kind]int{Fills: 1, Writes: 1, Hands: 2}},
		{"idle ones add nothing", zoneOf(200, 0, 0, 0), map[Kind]int{Fills: 1, Hands: 3}},
		{"no more writers than agents", zoneOf(31, 31, 31, 20, 300), map[Kind]int{Fills: 1, Writes: 2, Hands: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Assign(c.zone, Plan{}, Rates{})
			check(t, c.zone, p)
			require.Equal(t, c.want, p.kinds())
		})
	}
}

func TestAssign_WhoDoesNotTakeBatchesIsApart(t *testing.T) {
	zone := same(4, 1)
	zone[0].Takes = false
	zone[1].Takes, zone[1].Rate = false, 100*mib
	p := Assign(zone, Plan{}, Rates{})
	check(t, zone, p)
	require.Equal(t, map[Kind]int{Apart: 2, Writes: 1, Hands: 1}, p.kinds(), "what they write asks for no writers")
	require.InDelta(t, 1.0/3, p.Share, 1e-9, "but they have a part of the budget")
	for i := range zone {
		zone[i].Takes = false
	}
	p = Assign(zone, p, Rates{})
	check(t, zone, p)
	require.Equal(t, map[Kind]int{Apart: 4}, p.kinds())
}

func TestAssign_MoreWritersAtOnceFewerLate(t *testing.T) {
	p := Assign(same(8, 1), Plan{}, Rates{})
	type step struct{ each, writers float64 }
	for _, step := range []step{
		{8, 1},
		{8.01, 2},
		{16, 2},
		{16.01, 3},
		{15.9, 3},
		{12.1, 3},
		{11.9, 2}, // 75 % of what 2 carry
		{8, 2},
		{6.1, 2},
		{5.9, 1},
		{7.9, 1},
		{24, 3},
		{0, 1},
	} {
		zone := same(8, step.each)
		p = Assign(zone, p, Rates{})
		check(t, zone, p)
		require.Equal(t, int(step.writers), p.Writers(), "at 8 x %v MiB/s", step.each)
	}
}

func TestAssign_FillsUntilHalf(t *testing.T) {
	p := Plan{}
	for _, step := range []struct {
		rate float64
		kind Kind
	}{{31.9, 0}, {32, Fills}, {16.1, Fills}, {15.9, 0}, {31.9, 0}, {200, Fills}, {16, Fills}, {0, 0}} {
		zone := zoneOf(step.rate, 5, 5)
		p = Assign(zone, p, Rates{})
		check(t, zone, p)
		if step.kind == Fills {
			require.Equal(t, Fills, p.Of[1].Kind, "at %v", step.rate)
		} else {
			require.NotEqual(t, Fills, p.Of[1].Kind, "at %v", step.rate)
		}
	}
}

// TestAssign_HighLoad is the model of the issue: at high load no writer carries over 64 MiB/s more than its share.
func TestAssign_HighLoad(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	given, alone, sums := 0.0, 0.0, map[int]int{}
	for _, agents := range []int{3, 4, 6, 8, 12, 16, 24, 32, 48, 64} {
		for _, most := range []float64{1, 10, 30, 60, 200} {
			for range 20 {
				mibs := make([]float64, agents)
				for i := range mibs {
					mibs[i] = r.Float64() * most
				}
				zone := zoneOf(mibs...)
				p := Assign(zone, Plan{}, Rates{})
				check(t, zone, p)
				g, a := overShare(zone, p)
				given, alone = max(given, g), max(alone, a)
				sums[agents] += p.Writers()
			}
		}
	}
	t.Logf("above the share at most %.1f MiB/s where others hand over, %.1f MiB/s from an agent's own clients alone", given/mib, alone/mib)
	for _, agents := range slices.Sorted(maps.Keys(sums)) {
		t.Logf("%2d agents: %.1f writers on the mean", agents, float64(sums[agents])/100)
	}
	// One class of rates for all, as a zone has it whose clients are spread over its agents: then nobody has more by
	// itself than its share and 64 MiB/s, so the bound is of every writer without exception.
	for agents := 3; agents <= 64; agents += 1 + agents/8 {
		for rate := 0.5; rate <= 200; rate *= 1.3 {
			mibs := make([]float64, agents)
			for i := range mibs {
				mibs[i] = rate * (0.75 + r.Float64()/2)
			}
			zone := zoneOf(mibs...)
			p := Assign(zone, Plan{}, Rates{})
			check(t, zone, p)
			given, alone := overShare(zone, p)
			require.LessOrEqual(t, max(given, alone), 64.0*mib, "%d agents of about %.1f MiB/s", agents, rate)
		}
	}
}

// overShare is the most that a writer carries above its share of the zone's rate: of those that others hand over to, and
// of those that have it from their own clients alone.
func overShare(zone []Agent, p Plan) (given, alone float64) {
	own, total := map[id.Session]float64{}, 0.0
	for _, a := range zone {
		own[a.Session] = a.Rate
		total += a.Rate
	}
	for w, load := range carried(zone, p) {
		over := load - total/float64(p.Writers())
		if load > own[w] {
			given = max(given, over)
		} else {
			alone = max(alone, over)
		}
	}
	return given, alone
}

// TestAssign_Histories drives plans through random histories of agents and rates.
func TestAssign_Histories(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := history{r: rand.New(rand.NewPCG(seed, 7)), next: 1}
			for range 80 {
				h.step()
				before := h.plan
				h.plan = Assign(h.zone, before, Rates{})
				check(t, h.zone, h.plan)
				shuffled := slices.Clone(h.zone)
				h.r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				require.Equal(t, h.plan, Assign(shuffled, before, Rates{}), "whatever the order of the agents")
				require.Equal(t, h.plan, Assign(h.zone, h.plan, Rates{}), "a plan is final")
			}
		})
	}
}

// history is a zone whose agents come, go and change.
type history struct {
	r    *rand.Rand
	next id.Session
	zone []Agent
	plan Plan
}

func (h *history) rate() float64 {
	switch h.r.IntN(4) {
	case 0:
		return 0
	case 1:
		return h.r.Float64() * 200 * mib
	default:
		return h.r.Float64() * 40 * mib
	}
}

func (h *history) step() {
	switch what := h.r.IntN(10); {
	case what < 3 && len(h.zone) < 40 || len(h.zone) == 0:
		h.zone = append(h.zone, Agent{Session: h.next, Rate: h.rate(), Takes: h.r.IntN(8) > 0})
		h.next += 1 + id.Session(h.r.Uint32N(3))
	case what < 5:
		i := h.r.IntN(len(h.zone))
		h.zone = slices.Delete(h.zone, i, i+1)
	case what < 6:
		a := &h.zone[h.r.IntN(len(h.zone))]
		a.Takes = !a.Takes
	case what < 8:
		h.zone[h.r.IntN(len(h.zone))].Rate = h.rate()
	default:
		factor := 0.5 + h.r.Float64()
		for i := range h.zone {
			h.zone[i].Rate *= factor
		}
	}
}

// TestAssign_MovesOnlyWhatHasTo: who comes moves nobody, who goes moves those it wrote for, small changes nothing.
func TestAssign_MovesOnlyWhatHasTo(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var mibs []float64
		for range 3 + r.IntN(30) {
			mibs = append(mibs, 1+9*r.Float64())
		}
		zone := zoneOf(mibs...)
		before := Assign(zone, Plan{}, Rates{})

		jittered := slices.Clone(zone)
		for i := range jittered {
			jittered[i].Rate *= 0.99 + 0.009*r.Float64()
		}
		require.Equal(t, before, Assign(jittered, before, Rates{}), "a little less everywhere")

		more := append(slices.Clone(zone), Agent{Session: 1000 + id.Session(r.Uint32N(1000)), Takes: true})
		after := Assign(more, before, Rates{})
		check(t, more, after)
		require.Zero(t, after.movedFrom(before), "one that comes with nothing moves nobody")

		gone := r.IntN(len(zone))
		left := zone[gone].Session
		fewer := slices.Delete(slices.Clone(zone), gone, gone+1)
		after = Assign(fewer, before, Rates{})
		check(t, fewer, after)
		if after.Writers() < before.Writers() {
			continue // it took its bytes along
		}
		for s, place := range after.Of {
			if was := before.Of[s]; was.Writer != left && place.Kind == Hands {
				require.Contains(t, []id.Session{was.Writer, newWriter(before, after)}, place.Writer, "agent %d of writer %d, after %d left", s, was.Writer, left)
			}
		}
	}
}

// newWriter is the one writer that a plan has and the one before had not; 0 if there is none.
func newWriter(before, after Plan) id.Session {
	for s, place := range after.Of {
		if place.Kind == Writes && !before.wrote(s) {
			return s
		}
	}
	return 0
}

// TestAssign_AddedWritersGetTheirPart: an added writer takes agents from the others by hash, about the mean.
func TestAssign_AddedWritersGetTheirPart(t *testing.T) {
	moved, runs := 0, 100
	for i := range runs {
		zone := same(32, 5.9) // 189 MiB/s: 3 writers
		for k := range zone {
			zone[k].Session += id.Session(100 * i)
		}
		before := Assign(zone, Plan{}, Rates{})
		require.Equal(t, 3, before.Writers())
		for k := range zone {
			zone[k].Rate = 6.1 * mib // 195 MiB/s: 4
		}
		after := Assign(zone, before, Rates{})
		check(t, zone, after)
		require.Equal(t, 4, after.Writers())
		added := newWriter(before, after)
		for s, place := range after.Of {
			if place.Writer != before.Of[s].Writer {
				require.Equal(t, added, place.Writer, "moves go to the added writer alone")
				moved++
			}
		}
	}
	require.InDelta(t, 32.0/4, float64(moved)/float64(runs), 2.5)
}

// TestAssign_SpreadsTheWriters: which agents write depends on the agents, not on their numbers' order.
func TestAssign_SpreadsTheWriters(t *testing.T) {
	counts := make([]int, 8)
	for i := range 800 {
		zone := same(8, 1)
		for k := range zone {
			zone[k].Session += id.Session(8 * i)
		}
		for s, place := range Assign(zone, Plan{}, Rates{}).Of {
			if place.Kind == Writes {
				counts[(s-1)%8]++
			}
		}
	}
	require.Greater(t, slices.Min(counts), 60)
	require.Less(t, slices.Max(counts), 140)
}

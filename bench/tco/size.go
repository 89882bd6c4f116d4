package tco

import (
	"errors"
	"fmt"
	"math"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// writerBytes is the rate above which a zone has another writer (controlplane/zonewriter: clamp(ceil(zone bytes/s / 64 MiB), 1, agents)).
const writerBytes = 64 << 20

// liveCache is the share of an agent's memory for what was just written, and liveSeconds how much of the stream it is to
// hold: readers a little behind find it there. Whoever reads a part of a bundle at the live edge has all of it in memory.
const (
	liveCache   = 0.4
	liveSeconds = 5
)

// maxAgents bounds the search for a number of agents in a zone.
const maxAgents = 10_000

// ErrTooLarge is a workload for which more than maxAgents agents a zone would be needed.
var ErrTooLarge = errors.New("workload too large for this instance type")

// load is what a zone's agents carry at some rate, in bytes or CPU seconds a second.
type load struct {
	cpu, in, out float64
	live         float64 // bytes that caches of the zone must hold
}

// sizer finds how many agents a zone needs.
type sizer struct {
	w        *Workload
	instance catalog.Instance
	produce  float64 // CPU seconds for each byte
	fetch    float64
	get      float64
}

func newSizer(w *Workload, instance catalog.Instance, cpu catalog.CPU) *sizer {
	const gib = 1 << 30
	return &sizer{
		w: w, instance: instance,
		produce: cpu.Produce.InexactFloat64() / gib, fetch: cpu.Fetch.InexactFloat64() / gib, get: cpu.Get.InexactFloat64() / gib,
	}
}

// zone is what the agents of one zone carry if there are n of them and producers send wire bytes a second in all.
// Bytes that agents of a zone pass on to one another cost their sender a fetch and their receiver a get.
func (s *sizer) zone(wire float64, n int) load {
	w, zones := s.w, float64(s.w.Zones)
	mine := wire / zones
	read := mine * math.Max(w.Fanout, 0)
	var got, passed float64
	copies := 1.0 // of what is live in the zone's caches
	if w.Fanout > 0 {
		others := float64(n-1) / float64(n)
		copies = float64(n)
		switch w.Sharing {
		case ShareAgent: // each agent gets all bundles but its own
			got = wire * (float64(n) - 1/zones)
		default: // one get a zone; then from agent to agent
			got = wire - mine
			passed = wire * others
		}
	}
	if w.Sharing == ShareZone { // batches on their way to the zone's writers
		passed += mine * (1 - s.writers(wire, n)/float64(n))
	}
	return load{
		cpu: mine*s.produce + read*s.fetch + got*s.get + passed*(s.fetch+s.get),
		in:  mine + got + passed,
		out: mine + read + passed,

		live: wire * liveSeconds * copies,
	}
}

// writers of a zone with n agents.
func (s *sizer) writers(wire float64, n int) float64 {
	if s.w.Sharing == ShareAgent {
		return float64(n)
	}
	return math.Min(math.Max(math.Ceil(wire/float64(s.w.Zones)/writerBytes), 1), float64(n))
}

// agents is how many a zone needs at so many bytes a second over all zones, with head-room, and which resource says so.
func (s *sizer) agents(wire float64) (n int, binds string, err error) {
	cpu := float64(s.instance.VCPU) * (1 - s.w.CPUHeadroom)
	net := s.instance.NetworkMiB() * (1 << 20) * (1 - s.w.NetworkHeadroom)
	cache := float64(s.instance.MemoryGiB) * (1 << 30) * liveCache
	binds = "the least a zone has"
	for n = s.w.MinAgents; n <= maxAgents; n++ {
		l := s.zone(wire, n)
		switch {
		case l.cpu > cpu*float64(n):
			binds = "CPU"
		case max(l.in, l.out) > net*float64(n):
			binds = "network"
		case l.live > cache*float64(n):
			binds = "memory"
		default:
			return n, binds, nil
		}
	}
	return 0, "", fmt.Errorf("%w: more than %d %s in a zone", ErrTooLarge, maxAgents, s.instance.Name)
}

// stay is a number of agents, of all zones, for a part of the day.
type stay struct {
	agents int
	hours  float64
}

// day is how many agents there are when, and what binds their number at the peak.
func (s *sizer) day(phases []Phase) (stays []stay, binds string, err error) {
	top := 0
	for _, p := range phases {
		n, why, err := s.agents(p.Peak / s.w.CompressionRatio)
		if err != nil {
			return nil, "", err
		}
		n *= s.w.Zones
		if n >= top {
			top, binds = n, why
		}
		if last := len(stays) - 1; last >= 0 && stays[last].agents == n {
			stays[last].hours += p.Hours
			continue
		}
		stays = append(stays, stay{n, p.Hours})
	}
	return stays, binds, nil
}

// agentHours of a day.
func agentHours(stays []stay) float64 {
	var hours float64
	for _, s := range stays {
		hours += float64(s.agents) * s.hours
	}
	return hours
}

// Cheapest, as a workload's instance, is the type whose agents cost least.
const Cheapest = "cheapest"

// chooseMachines gives the sizer of w's instance type, or of the cheapest.
func chooseMachines(w *Workload, prices *catalog.PriceSet) (*sizer, catalog.CPU, error) {
	instances, err := catalog.LoadInstances()
	if err != nil {
		return nil, catalog.CPU{}, err
	}
	for n := range instances.Instances {
		price, err := prices.Get(instances.Instances[n].Name)
		if err != nil {
			return nil, catalog.CPU{}, err
		}
		instances.Instances[n].USDPerHour = price.USD
	}
	measured, err := catalog.LoadMeasured()
	if err != nil {
		return nil, catalog.CPU{}, err
	}
	cpu, err := measured.Shape(w.Shape)
	if err != nil {
		return nil, cpu, err
	}
	if w.Instance != Cheapest {
		instance, err := instances.Get(w.Instance)
		return newSizer(w, instance, cpu), cpu, err
	}
	s, err := cheapest(w, instances.Instances, cpu)
	return s, cpu, err
}

func cheapest(w *Workload, instances []catalog.Instance, cpu catalog.CPU) (*sizer, error) {
	var best *sizer
	var least float64
	var last error
	for _, i := range instances {
		s := newSizer(w, i, cpu)
		stays, _, err := s.day(w.phases())
		if err != nil {
			last = err
			continue
		}
		if price := agentHours(stays) * i.USDPerHour.InexactFloat64(); best == nil || price < least {
			best, least = s, price
		}
	}
	if best == nil {
		return nil, last
	}
	return best, nil
}

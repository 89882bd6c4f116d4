package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/freshet-io/freshet/internal/ledger"
)

// TestSeed breaks things in the order that a seed gives, for FRESHET_SIM_DURATION (20 s): with two fixed seeds, or with
// FRESHET_SIM_SEED.
func TestSeed(t *testing.T) {
	t.Parallel()
	seeds := []uint64{42, 43}
	if s := seed(t, 0); s != 0 {
		seeds = []uint64{s}
	}
	for _, s := range seeds {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			runSeed(t, s, duration(t, "FRESHET_SIM_DURATION", 20*time.Second))
		})
	}
}

// chaos is one seeded run.
type chaos struct {
	*cluster
	rng         *rand.Rand
	storeFaults []string
}

func runSeed(t *testing.T, seed uint64, length time.Duration) {
	t.Helper()
	c := newCluster(t, options{seed: seed, replicas: 3, succession: true, agents: 3, zones: 1, hedge: true, replica: smallSnapshots})
	x := &chaos{cluster: c, rng: rand.New(rand.NewPCG(seed, 0)), storeFaults: storeFaults}
	idempotent := c.startLoad("idempotent", 3, 3, 20*time.Millisecond)
	once := c.startLoad("plain", 3, 2, 20*time.Millisecond, plain...).mayFail()
	idempotent.more(50)
	watch := startWatch(c, "idempotent")
	counts := map[string]int{}
	for end := time.Now().Add(length); time.Now().Before(end); {
		a := actions[x.rng.IntN(len(actions))]
		counts[a.name]++
		c.logger.Warn("action: " + a.name)
		a.do(x)
		<-time.After(time.Duration(50+x.rng.IntN(400)) * time.Millisecond)
	}
	t.Logf("done: %v", counts)
	c.objects.Clear()
	idempotent.more(100)
	watch.stop()
	idempotent.stop(ledger.Rules{})
	// Producers that never try again go on by another connection when an agent goes away.
	once.stop(ledger.Rules{Strays: true})
}

// actions are what may happen.
var actions = []struct {
	name string
	do   func(*chaos)
}{
	{"agent replaced", func(x *chaos) { x.replace((*node).stop) }},
	{"agent crashed", func(x *chaos) { x.replace((*node).crash) }},
	{"owner dethroned", func(x *chaos) { x.succeeded(x.dethrone()) }},
	{"owner crashed", func(x *chaos) {
		old := x.owner()
		old.crash()
		x.startReplica(old.name)
	}},
	{"replica restarted", func(x *chaos) {
		names := x.opts.replicaNames
		name := names[x.rng.IntN(len(names))]
		x.replicas[name].stop()
		x.startReplica(name)
	}},
	{"link cut", func(x *chaos) { x.anyAgent().link.cut() }},
	{"link down for a moment", func(x *chaos) {
		a := x.anyAgent()
		a.link.setDown(true)
		<-time.After(time.Duration(x.rng.IntN(300)) * time.Millisecond)
		a.link.setDown(false)
	}},
	{"link blackholed", func(x *chaos) {
		a := x.anyAgent()
		release := a.link.blackhole()
		<-time.After(time.Duration(x.rng.IntN(500)) * time.Millisecond)
		a.link.cut()
		release()
	}},
	{"store fault", func(x *chaos) { x.breakStore() }},
	{"store fault", func(x *chaos) { x.breakStore() }},
	{"store mended", func(x *chaos) { x.objects.Clear() }},
}

// storeFaults are rules that may be in force together.
var storeFaults = []string{
	"put key~bundles p=0.1 outcome-unknown-before",
	"put key~bundles p=0.2 outcome-unknown-after",
	"put key~bundles p=0.1 throttle",
	"put key~bundles p=0.1 delay=400ms",
	"put key~bundles p=0.05 fail",
	"put key~snapshots p=0.5 fail",
	"get p=0.1 throttle",
	"get p=0.1 delay=200ms",
	"get p=0.1 truncate",
	"head p=0.3 throttle",
}

func (x *chaos) breakStore() {
	x.objects.MustAdd(x.storeFaults[x.rng.IntN(len(x.storeFaults))])
	if rules := x.objects.Rules(); len(rules) > 4 {
		x.objects.Remove(rules[0])
	}
}

func (x *chaos) anyAgent() *node { return x.agents[x.rng.IntN(len(x.agents))] }

// replace ends an agent in some way and starts another at its address.
func (x *chaos) replace(end func(*node)) {
	a := x.anyAgent()
	address := a.address()
	end(a)
	x.startAgentAt(address)
}

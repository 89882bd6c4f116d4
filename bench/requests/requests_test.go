package requests

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/objstore"
)

// full runs the loads for long.
func full() bool { return os.Getenv("FRESHET_REQUESTS") != "" }

// notUnderRace skips what moves gigabytes through memory.
func notUnderRace(t *testing.T) {
	t.Helper()
	if race {
		t.Skip("gigabytes through memory, too slow under the race detector: make test runs it without")
	}
}

// liveHalf runs agents that take in and serve, and nothing else.
func (l workload) liveHalf(t *testing.T) figures {
	t.Helper()
	l.live, l.warmUp, l.length = true, time.Second, time.Second
	if full() {
		l.warmUp, l.length = 3*time.Second, 10*time.Second
	}
	return l.run(t)
}

// jobsHalf runs agents that take in and compact. The first job of level 2 begins after ten seconds, when there are 16 MiB
// of each partition; make nightly looks for it at once, and goes on for long enough that each agent has ended some: what one
// that has just begun asks for is spread over few bytes. The shortest run ends before level 2.
func (l workload) jobsHalf(t *testing.T) figures {
	t.Helper()
	l.jobs, l.planning, l.length = true, time.Second, 6*time.Second
	if nightly.On() {
		l.length = 25 * time.Second
	}
	if full() {
		l.planning, l.warmUp, l.length = 0, 20*time.Second, 40*time.Second
	}
	return l.run(t)
}

// TestRequests_Published holds the published load to bounds: WarpStream says 138 PUT/s and 490 GET/s of it.
func TestRequests_Published(t *testing.T) {
	notUnderRace(t)
	for _, c := range []struct {
		bundle     int
		puts, gets float64
	}{{8 << 20, 85, 200}, {16 << 20, 52, 105}} {
		t.Run(fmt.Sprintf("bundles of %d MiB", c.bundle>>20), func(t *testing.T) {
			if c.bundle > 8<<20 && !full() {
				nightly.Only(t, "15 s more for lower bounds")
			}
			l := published(c.bundle)
			live, jobs := l.liveHalf(t), l.jobsHalf(t)
			table := compose(&live, &jobs)
			t.Logf("%v and %v\n%s\n%s", live.took.Round(time.Second), jobs.took.Round(time.Second), &table, jobs.steady())
			sum := table.total()
			if full() {
				sum = table.most()
				for level := first; level <= second; level++ {
					require.Greater(t, float64(jobs.uploaded(level)), 0.95*float64(jobs.written), "what level %d wrote of what came", level)
				}
			}
			require.LessOrEqual(t, sum.puts, c.puts, "PUT/s")
			require.LessOrEqual(t, sum.gets, c.gets, "GET/s")
			require.Equal(t, live.bundles*int64(l.zones-1), live.liveGets(), "a GET for each other zone")
			require.Positive(t, jobs.uploaded(first), "bytes of level 1")
			if nightly.On() || full() {
				require.Positive(t, jobs.uploaded(second), "bytes of level 2")
			}
		})
	}
}

// TestRequests_FanOut: three groups in each zone cost as many GETs as one: a bundle is read once for each zone but its
// writer's.
func TestRequests_FanOut(t *testing.T) {
	notUnderRace(t)
	l := published(8 << 20)
	l.fanout = 3
	f := l.liveHalf(t)
	t.Logf("3 groups in each zone: %d bundles, %d GETs and %d hedges", f.bundles, f.liveGets(), f.hedges[objstore.OpGet])
	require.Equal(t, f.bundles*int64(l.zones-1), f.liveGets())
}

// TestRequests_Variants prints what becomes of compaction with fewer parts of an upload side by side.
func TestRequests_Variants(t *testing.T) {
	if !full() {
		t.Skip("only by make bench-requests: nothing is held to a bound")
	}
	for name, change := range map[string]func(*workload){
		"one part at a time":  func(l *workload) { l.inFlight = 1 },
		"two parts at a time": func(l *workload) { l.inFlight = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			l := published(8 << 20)
			change(&l)
			f := l.jobsHalf(t)
			t.Logf("%s; level 1 asked for %.1f GET/s", f.steady(), f.perSecond(f.counts.agents[fresh][objstore.OpGet].Requests, float64(f.inputs[first])))
		})
	}
}

// TestRequests_MoreAgents: the same low load on ever more agents in each zone costs the same: the PUT budget of the zones,
// whoever writes, and a GET of each bundle for each other zone.
func TestRequests_MoreAgents(t *testing.T) {
	notUnderRace(t)
	var first line
	agents := []int{1, 4} // in each zone
	if nightly.On() || full() {
		agents = []int{1, 2, 4, 8}
	}
	for _, n := range agents {
		l := published(8 << 20)
		l.rate, l.agents, l.batch, l.partitions = 3<<20, 3*n, 16<<10, 48
		l.live, l.warmUp, l.length = true, 4*time.Second, 8*time.Second
		if full() {
			l.length = 30 * time.Second
		}
		f := l.run(t)
		got := line{fmt.Sprintf("%d agents in each zone", n), f.forBundles(f.bundles), f.forBundles(f.liveGets())}
		t.Logf("1 MiB/s in each of 3 zones, %s: %.2f PUT/s, %.2f GET/s, %d and %d hedged of %d and %d in all; %v",
			got.name, got.puts, got.gets, f.hedges[objstore.OpPut], f.hedges[objstore.OpGet], f.bundles, f.liveGets(), f.took.Round(time.Second))
		if n == 1 {
			first = got
		}
		require.InDelta(t, 4*float64(l.zones), got.puts, 0.2*4*float64(l.zones), "PUT/s: the budget of the zones")
		require.InEpsilon(t, first.puts, got.puts, 0.2, "PUT/s")
		require.InEpsilon(t, first.gets, got.gets, 0.2, "GET/s")
	}
}

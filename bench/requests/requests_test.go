package requests

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
func (l load) liveHalf(t *testing.T) figures {
	t.Helper()
	l.live, l.warmUp, l.length = true, time.Second, time.Second
	if full() {
		l.warmUp, l.length = 3*time.Second, 10*time.Second
	}
	return l.run(t)
}

// jobsHalf runs agents that take in and compact. The first job of level 2 begins after ten seconds, when there are 16 MiB
// of each partition; a short run looks for it at once.
func (l load) jobsHalf(t *testing.T) figures {
	t.Helper()
	l.jobs, l.planning, l.length = true, time.Second, 15*time.Second
	if full() {
		l.planning, l.warmUp, l.length = 0, 20*time.Second, 40*time.Second
	}
	return l.run(t)
}

// TestRequests_Published holds the published load to issue 6: WarpStream says 138 PUT/s and 490 GET/s of it.
func TestRequests_Published(t *testing.T) {
	notUnderRace(t)
	for _, c := range []struct {
		bundle     int
		puts, gets float64
	}{{8 << 20, 85, 140}, {16 << 20, 52, 75}} {
		t.Run(fmt.Sprintf("bundles of %d MiB", c.bundle>>20), func(t *testing.T) {
			l := published(c.bundle)
			live, jobs := l.liveHalf(t), l.jobsHalf(t)
			table := compose(&live, &jobs)
			t.Logf("%v and %v\n%s\n%s", live.took.Round(time.Second), jobs.took.Round(time.Second), &table, jobs.steady())
			sum := table.total()
			if full() {
				sum = table.most()
			}
			require.LessOrEqual(t, sum.puts, c.puts, "PUT/s")
			require.LessOrEqual(t, sum.gets, c.gets, "GET/s")
			require.Equal(t, live.bundles*int64(l.zones-1), live.liveGets(), "a GET for each other zone")
			require.Positive(t, jobs.uploaded(second), "bytes of level 2")
			require.Zero(t, jobs.cold[first], "bytes that level 1 did not find in memory")
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

// TestRequests_Variants prints what becomes of compaction with less memory, and where a part of an upload takes as long as
// its bytes at the rate of one GET, which package latency does not say.
func TestRequests_Variants(t *testing.T) {
	if !full() {
		t.Skip("only by make bench-requests: nothing is held to a bound")
	}
	for name, change := range map[string]func(*load){
		"agents of 16 GiB":  func(l *load) { l.memory = 16 << 30 },
		"agents of 4 GiB":   func(l *load) { l.memory = 4 << 30 },
		"parts at 90 MiB/s": func(l *load) { l.uploads = 90 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			l := published(8 << 20)
			change(&l)
			f := l.jobsHalf(t)
			t.Logf("%s; level 1 asked for %.1f GET/s", f.steady(), f.perSecond(f.counts.agents[fresh][objstore.OpGet].Requests, float64(f.uploaded(first))))
		})
	}
}

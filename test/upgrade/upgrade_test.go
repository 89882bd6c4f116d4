package upgrade

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// variable is the environment variable that selects the orders. "all" selects every order, any other value the first.
const variable = "FRESHET_UPGRADE"

// orders are the orders of restarts in one direction: "c" is the next control plane, the owner last, and "a" the next agent.
var orders = []struct{ name, steps string }{
	{"control planes and agents in turn", "cacacaa"},
	{"control planes first", "cccaaaa"},
	{"agents first", "aaaaccc"},
}

// TestUpgrade restarts a cluster of the base commit with the binary under test, and back, under load. The default is the first order;
// FRESHET_UPGRADE=all runs every order.
func TestUpgrade(t *testing.T) {
	base := baseCommit(t)
	began := time.Now()
	binary := base.Build(t)
	t.Logf("built %s in %s", base.Version(), since(began))
	began = time.Now()
	f := startFleet(t, binary)
	require.Contains(t, f.ControlPlanes[0].Output(), base.Version())
	l := newLoad(t, f)
	defer l.close()
	l.start()
	l.flows()
	f.settle()
	t.Logf("started in %s", since(began))
	selected := orders[:1]
	if os.Getenv(variable) == "all" {
		selected = orders
	}
	for _, o := range selected {
		began = time.Now()
		for _, to := range []build{treeBuild, baseBuild} {
			for _, kind := range strings.Split(o.steps, "") {
				step(t, f, l, kind, to)
			}
		}
		t.Logf("%s, up and down: %s", o.name, since(began))
	}
	began = time.Now()
	l.finish()
	f.allMet()
	t.Logf("finished in %s", since(began))
}

// step restarts one process as the other build, and waits until every client has made progress.
func step(t *testing.T, f *fleet, l *load, kind string, to build) {
	t.Helper()
	began := time.Now()
	restart := f.agent
	if kind == "c" {
		restart = f.replica
	}
	l.sending.ResetStalls()
	what := restart(to)
	up := since(began)
	l.flows()
	f.settle()
	f.healthy()
	t.Logf("to the %s: %s, up after %s, settled after %s; longest wait of a producer %s",
		to, what, up, since(began), l.sending.LongestWriterStall().Round(time.Millisecond))
}

func since(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }

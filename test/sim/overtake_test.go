package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/ledger"
)

// TestOvertake_NothingIsReordered: many producers, each of which is in few of an agent's bundles, and PUTs of all durations: bundles
// overtake each other, over owner changes too, and every producer finds its records in its order. No batch is ever ahead of
// its producer's sequence because of it.
func TestOvertake_NothingIsReordered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		succession bool
		producers  int
	}{
		"one owner":     {false, 24},
		"owner changes": {true, 24},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := newCluster(t, options{seed: 9, agents: 1, succession: c.succession, patient: !c.succession})
			sim.objects.MustAdd("put key~bundles p=0.3 delay=300ms")
			overtaken := func() float64 { return sim.agents[0].metric("freshet_writer_overtaking_bundles_total") }
			l := sim.startLoad("t", 1, c.producers, 400*time.Millisecond)
			want := 10.0
			sim.await("bundles that overtake others", func() bool { return overtaken() >= want })
			for range 2 {
				if c.succession {
					sim.succeeded(sim.dethrone())
				}
				want = overtaken() + 5
				sim.await("more of them", func() bool { return overtaken() >= want })
			}
			l.more(50)
			l.stop(ledger.Rules{})
			if !c.succession { // a client that hears of an owner's end may send again
				require.Zero(t, sim.agents[0].metric("freshet_writer_resubmissions_total"))
			}
		})
	}
}

package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/ledger"
)

// TestSlowPuts_NothingIsReordered runs many producers, each in few of an agent's bundles, while some PUTs take long. Every
// producer finds its records in its order, over owner changes too. With one owner no batch is ever ahead of its producer's
// sequence.
func TestSlowPuts_NothingIsReordered(t *testing.T) {
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
			l := sim.startLoad("t", 1, c.producers, 400*time.Millisecond)
			for range 3 {
				l.more(50)
				if c.succession {
					sim.succeeded(sim.dethrone())
				}
			}
			l.more(50)
			l.stop(ledger.Rules{})
			if !c.succession { // a client that hears of an owner's end may send again
				require.Zero(t, sim.agents[0].metric("freshet_writer_resubmissions_total"))
			}
		})
	}
}

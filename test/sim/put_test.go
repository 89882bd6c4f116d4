package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/ledger"
)

// TestPut_EveryFault: each way in which a PUT can go wrong, with a live load of idempotent producers.
func TestPut_EveryFault(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"lost":                   "put key~bundles every=3 outcome-unknown-before",
		"answered after success": "put key~bundles every=2 outcome-unknown-after",
		"throttled":              "put key~bundles p=0.3 throttle",
		"conflict":               "put key~bundles every=4 conflict",
		"slow":                   "put key~bundles every=25 delay=1s",
		"answer never comes":     "put key~bundles every=25 times=3 stall-after",
		"refused for good":       "put key~bundles p=0.3 fail",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{seed: 1, hedge: true})
			l := c.startLoad("t", 3, 3, 20*time.Millisecond)
			l.more(300)
			// Each agent hedges once it has seen enough PUTs.
			c.await("enough PUTs to hedge", func() bool { return c.audit.puts.Load() > 80 })
			r := c.objects.MustAdd(rule)
			c.await("the fault is met", func() bool { return r.Hits() >= 3 })
			l.more(300)
			c.objects.Remove(r)
			l.more(100)
			l.stop(ledger.Rules{})
		})
	}
}

// TestPut_StoreRefusesEverythingForAWhile: producers get retriable errors, the agents live on and heal.
func TestPut_StoreRefusesEverythingForAWhile(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 1})
	l := c.startLoad("t", 3, 3, 20*time.Millisecond)
	l.more(100)
	r := c.objects.MustAdd("put key~bundles fail")
	w := c.dialWire(c.agents[0])
	w.send(produceRequest("t", map[int32][]byte{0: batch(nobody, 0, "refused")}))
	answer, err := w.receive(patience)
	require.NoError(t, err)
	require.EqualValues(t, 56, produced(t, answer, 0).ErrorCode, "KAFKA_STORAGE_ERROR, which clients retry")
	c.await("several bundles given up", func() bool { return r.Hits() >= 6 })
	c.objects.Remove(r)
	l.more(300)
	l.stop(ledger.Rules{})
}

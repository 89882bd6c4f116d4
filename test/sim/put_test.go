package sim

import (
	"testing"
	"time"

	"github.com/freshet-io/freshet/internal/ledger"
)

// TestPut_EveryFault: each way in which a PUT can go wrong, with a live load of idempotent producers.
func TestPut_EveryFault(t *testing.T) {
	for name, rule := range map[string]string{
		"lost":                   "put key~bundles every=3 outcome-unknown-before",
		"answered after success": "put key~bundles every=2 outcome-unknown-after",
		"throttled":              "put key~bundles p=0.3 throttle",
		"conflict":               "put key~bundles every=4 conflict",
		"slow":                   "put key~bundles every=5 delay=700ms",
		"answer late":            "put key~bundles every=7 times=3 stall-after",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{seed: 1, hedge: true})
			l := c.startLoad("t", 3, 3, 20*time.Millisecond)
			l.more(50)
			r := c.objects.MustAdd(rule)
			l.more(400)
			c.await("the fault was met", 20*time.Second, func() bool { return r.Hits() >= 2 })
			c.objects.Remove(r)
			l.more(100)
			l.stop(ledger.Rules{})
		})
	}
}

package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestTransactions_Seed lets a seed break things while producers of both protocols commit and abort, and copiers move
// records with their offsets.
func TestTransactions_Seed(t *testing.T) {
	t.Parallel()
	s := seed(t, 45)
	t.Logf("seed %d", s)
	c := newCluster(t, options{seed: s, replicas: 3, succession: true, agents: 3, replica: smallSnapshots})
	x := &chaos{cluster: c, rng: rand.New(rand.NewPCG(s, 1)), storeFaults: storeFaults}
	load := c.startTellers(s, 3)
	c.await("first transactions", func() bool { return load.book.count(kept) > 20 })
	counts := map[string]int{}
	for end := time.Now().Add(duration(t, "FRESHET_SIM_DURATION", 20*time.Second)); time.Now().Before(end); {
		a := actions[x.rng.IntN(len(actions))]
		counts[a.name]++
		c.logger.Warn("action: " + a.name)
		a.do(x)
		<-time.After(time.Duration(100+x.rng.IntN(800)) * time.Millisecond)
	}
	t.Logf("done: %v", counts)
	c.objects.Clear()
	from := load.book.count(kept)
	c.await("transactions after all that", func() bool { return load.book.count(kept) > from+20 })
	load.stop()
}

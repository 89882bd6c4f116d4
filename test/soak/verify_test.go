package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

const (
	// Between two kills, and how long what was killed stays away at most.
	leastCalm, mostCalm = 10 * time.Second, 40 * time.Second
	mostAway            = 10 * time.Second
	// finishing is how long the verification may take after its duration: reading all again, with a patience of 2 minutes
	// for each step.
	finishing = 15 * time.Minute
)

// TestVerify runs the checker while agents and owners are killed with kill -9 and started again. FRESHET_SOAK is how
// long, FRESHET_SOAK_SEED the seed of the kills, FRESHET_SOAK_ARGS further arguments of the checker.
func TestVerify(t *testing.T) {
	duration, killing := 10*time.Second, false
	if d := os.Getenv("FRESHET_SOAK"); d != "" {
		var err error
		duration, err = time.ParseDuration(d)
		require.NoError(t, err)
		killing = true
	}
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 3, ControlPlanes: 2, EtcdMembers: 3})
	cmd := exec.Command(harness.FreshetBench(t), append([]string{
		"verify", "--bootstrap-server", c.Bootstrap(), "--duration", duration.String(), "--patience", "2m", "--transactions",
		"--rate", "400",
	}, strings.Fields(os.Getenv("FRESHET_SOAK_ARGS"))...)...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if killing {
		kills(t, c, ended, duration)
	}
	limit := time.NewTimer(duration + finishing)
	defer limit.Stop()
	select {
	case err := <-ended:
		require.NoError(t, err, "the run is not clean")
	case <-limit.C:
		_ = cmd.Process.Signal(syscall.SIGKILL) // it has failed already
		t.Log(<-ended)
		t.Fatal("the verification does not end")
	}
}

// kills kills an agent or the owner again and again until the duration is over or the checker ended.
func kills(t *testing.T, c *harness.Cluster, ended chan error, duration time.Duration) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FRESHET_SOAK_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	done := time.NewTimer(duration)
	defer done.Stop()
	for n := 1; ; n++ {
		calm := time.NewTimer(between(rng, leastCalm, mostCalm))
		select {
		case <-calm.C:
			kill(t, c, rng, n)
		case <-done.C:
			return
		case err := <-ended:
			ended <- err
			return
		}
	}
}

// kill kills one process and starts it again, without waiting until it is ready: on a busy machine that may take longer
// than any bound, and what follows must hold all the same.
func kill(t *testing.T, c *harness.Cluster, rng *rand.Rand, n int) {
	t.Helper()
	away, i := between(rng, 0, mostAway), rng.IntN(len(c.Agents))
	what, victim := fmt.Sprintf("agent %d", i), c.Agents[i].Process
	if rng.IntN(3) == 0 {
		for _, p := range c.ControlPlanes {
			if p.Owns() {
				what, victim = "the owner", p.Process
			}
		}
	}
	t.Logf("%s kill %d: %s, away for %s", time.Now().UTC().Format("15:04:05.000"), n, what, away.Round(time.Millisecond))
	victim.Kill()
	<-time.After(away)
	victim.Launch()
}

func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(most-least)))
}

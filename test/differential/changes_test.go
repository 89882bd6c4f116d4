package differential

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// Without FRESHET_DIFFERENTIAL_CHANGES there are so many changes of the coordinator.
const shortChanges = 3

// TestSequences_OwnerChange plays sequences in the midst of which the owner of the virtual cluster is killed, so that
// another control plane takes over, and Apache Kafka's broker is killed and started again. What each side has in memory
// alone is lost then, and what is durable goes on: the answers still agree.
func TestSequences_OwnerChange(t *testing.T) {
	t.Parallel()
	// Its controller takes a broker that was killed for alive until its session ends.
	kafka := harness.StartKafka(t, append(slices.Clone(kafkaProperties), "broker.session.timeout.ms=5000")...)
	cluster := harness.StartCluster(t, harness.ClusterConfig{
		Agents: 2, ControlPlanes: 2, ControlFlags: groupFlags, AgentFlags: writeFlags,
	})
	servers := [2]*server{
		{name: "freshet", addresses: strings.Split(cluster.Bootstrap(), ","), moves: true},
		{name: "kafka", addresses: []string{kafka.Bootstrap}, moves: true},
	}
	for _, s := range servers {
		s.prepare(t, workers)
	}
	change := func() {
		owner := cluster.Owner(t)
		owner.Kill()
		kafka.Kill()
		kafka.Launch()
		cluster.Owner(t, owner)
		owner.Restart()
		require.Eventually(t, func() bool {
			conn, err := net.DialTimeout("tcp", kafka.Bootstrap, time.Second)
			return err == nil && conn.Close() == nil
		}, settleLimit, 50*time.Millisecond)
	}
	requests, seed := 0, setting(t, "SEED", firstSeed)
	for round := range setting(t, "CHANGES", shortChanges) {
		var sequences []sequence
		for w := range workers {
			sequences = append(sequences, newSequence(uint64(seed+round*workers+w)))
		}
		failures, n := playRound(sequences, servers, change)
		requests += n
		for i, again := 0, slices.Clone(failures); i < 2 && slices.ContainsFunc(again, func(f *failure) bool { return f != nil }); i++ {
			again, _ = playRound(sequences, servers, change)
			for w, f := range failures {
				if f != nil && (again[w] == nil || again[w].kind() != f.kind()) {
					t.Logf("once: seed %d: %s", sequences[w].seed, f.kind())
					failures[w] = nil
				}
			}
		}
		for w, f := range failures {
			if f != nil {
				t.Errorf("1 times: %s\nseed %d, step %d, changed before %d\n%s", f.kind(), sequences[w].seed, f.step,
					changeAt(sequences[w]), strings.Join(f.trace, "\n"))
			}
		}
	}
	t.Logf("%d requests", requests)
}

// changeAt is the request before which the coordinators change.
func changeAt(s sequence) int { return len(s.ops) / 2 }

// playRound plays sequences side by side. All of them wait in their midst for the change.
func playRound(sequences []sequence, servers [2]*server, change func()) (failures []*failure, requests int) {
	failures = make([]*failure, len(sequences))
	arrived, changed := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w, s := range sequences {
		wg.Go(func() {
			wait := sync.OnceFunc(func() {
				arrived <- struct{}{}
				<-changed
			})
			f, p := run(s, servers, w, func(step int) bool {
				if step != changeAt(s) {
					return false
				}
				wait()
				return true
			})
			wait()
			mu.Lock()
			defer mu.Unlock()
			failures[w] = f
			requests += p.requests
		})
	}
	for range sequences {
		<-arrived
	}
	change()
	close(changed)
	wg.Wait()
	return failures, requests
}

package faults

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testproxy"
	"github.com/freshet-io/freshet/test/harness"
)

// pausedStall is how long a zone's clients may wait for a writer that stands still: 3 s of silence on its streams, and
// what a busy machine adds.
const pausedStall = 7 * time.Second

// TestPausedWriter: the agent that writes for its zone is paused while clients of another send to it, until that has given
// it up and writes itself, and goes on before its session is closed. What it finds in its memory it does not commit any
// more, and what it had sent to the owner, and comes there only now, the owner does not: the clients, which have no sequence
// numbers, never try again and use one connection each, were told that it failed, and have sent what follows (I2).
func TestPausedWriter(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can the proxies tell which agent a connection is from")
	}
	const clients, rounds, perRound = 8, 4, 1_000_000
	c := harness.StartCluster(t, harness.ClusterConfig{
		Agents: 2, ControlPlanes: 1, EtcdMembers: 1, Proxied: true, AgentFlags: []string{"--put-budget", "100"},
	})
	createTopic(t, "paused", clients, bootstraps(c)...)
	for round := range rounds {
		writer, other := zoneWriter(t, c)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		sends := make([]*plainClient, clients)
		for i := range sends {
			sends[i] = &plainClient{direct: dial(t, other.Bootstrap), topic: "paused", partition: int32(i), next: round * perRound}
			all.Go(func() { sends[i].run(ctx) })
		}
		acked := func() (n int) {
			for _, s := range sends {
				n += s.acknowledged()
			}
			return n
		}
		more := func(what string, each int) {
			from := acked()
			harness.Await(t, what, func() bool { return acked() >= from+each*clients })
		}
		began := time.Now()
		more("records acknowledged", 20)
		twenty := time.Since(began)
		comes := func() {}
		if underWay := round%2 == 1; underWay {
			comes = cutOff(c, testproxy.ToServer, writer)
			harness.Await(t, "a commit is on its way to the owner", func() bool {
				return gauge(t, writer, "freshet_writer_unsettled_bundles") > 0 && gauge(t, writer, "freshet_writer_puts_in_flight") == 0
			})
		}
		writer.Stop()
		paused := time.Now()
		more("the other agent to write itself", 3)
		stall := time.Since(paused)
		comes()
		writer.Cont()
		more("records acknowledged after the pause", 20)
		stop()
		all.Wait()
		t.Logf("paused for %v; its session was kept: %v", stall.Round(time.Millisecond), shown(t, other, writer))
		harness.Within(t, "stall", stall, pausedStall+twenty)
		for _, a := range c.Agents {
			harness.Await(t, "the agent has a stream with the owner", a.Connected)
		}
	}
	last := map[int32]int{}
	for _, r := range readAll(t, "paused", c.Agents[0].Bootstrap) {
		n, err := strconv.Atoi(r.Value)
		require.NoError(t, err)
		if before, ok := last[r.Partition]; ok {
			require.Greater(t, n, before, fmt.Sprintf("partition %d, offset %d", r.Partition, r.Offset))
		}
		last[r.Partition] = n
	}
}

func gauge(t *testing.T, a *harness.Agent, name string) float64 {
	t.Helper()
	v, err := harness.Metric(a.HTTP, name)
	require.NoError(t, err)
	return v
}

// plainClient sends one record after the other by one connection, and never one again.
type plainClient struct {
	*direct
	topic     string
	partition int32
	next      int // value of the next record

	mu    sync.Mutex
	acked int
}

func (p *plainClient) run(ctx context.Context) {
	for ; ctx.Err() == nil; p.next++ {
		if _, err := p.produce(ctx, p.topic, p.partition, strconv.Itoa(p.next)); err == nil {
			p.mu.Lock()
			p.acked++
			p.mu.Unlock()
		}
	}
}

func (p *plainClient) acknowledged() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked
}

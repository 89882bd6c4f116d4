package faults

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

const (
	// handOverStall is how much longer than otherwise a producer may wait while ownership is handed over.
	handOverStall = 500 * time.Millisecond
	// drainTime is how long a terminated agent may take to end.
	drainTime = 5 * time.Second
	// drainSlack is for the process to end after drainTime.
	drainSlack = 5 * time.Second
	handOvers  = 3
	// drainStall is how long a drained agent may keep a producer waiting: far less than its session takes to expire.
	drainStall = 3 * time.Second
)

// TestTerminate ends processes with SIGTERM while producers write.
func TestTerminate(t *testing.T) {
	if !harness.Bounded() { // else beside other tests the longest waits would be theirs
		t.Parallel()
	}
	c := harness.StartCluster(t, harness.ClusterConfig{
		Agents: 3, ControlPlanes: 2, EtcdMembers: 3,
		// Without waiting for PUT tokens what is left of a stall is the hand-over's.
		AgentFlags: []string{"--put-budget", "100"},
	})
	t.Run("the owner hands over", func(t *testing.T) { handOver(t, c) })
	t.Run("agents drain in turn", func(t *testing.T) { drainAgents(t, c) })
	_ = t.Run("an agent ends without the object store", func(t *testing.T) { endWithout(t, c, c.S3.Stop, c.S3.Cont) }) &&
		t.Run("an agent ends without an owner", func(t *testing.T) {
			owner := c.Owner(t)
			endWithout(t, c, owner.Stop, owner.Cont)
		})
}

// handOver compares the longest wait for an acknowledgement around a hand-over with that of quiet times. A machine
// that stands still for a moment makes either longer, so the shortest of several counts.
func handOver(t *testing.T, c *harness.Cluster) {
	t.Helper()
	tr := startTraffic(t, bootstraps(c)...)
	var costs []time.Duration
	for range handOvers {
		tr.load.ResetStalls()
		tr.flows()
		tr.flows()
		steady := tr.load.LongestWriterStall()
		tr.load.ResetStalls()
		owner := c.Owner(t)
		took, err := owner.Terminate(soon)
		require.NoError(t, err)
		tr.flows()
		stall := tr.load.LongestWriterStall()
		costs = append(costs, stall-steady)
		t.Logf("longest wait %s, in quiet times %s; the process ended within %s", stall.Round(time.Millisecond),
			steady.Round(time.Millisecond), took.Round(time.Millisecond))
		owner.Launch()
		owner.AwaitReady()
	}
	tr.finish()
	harness.Within(t, "longest wait above that of quiet times", slices.Min(costs), handOverStall)
}

// drainAgents terminates one agent after another, as a rolling restart does, while producers write and a consumer
// reads. One producer is not idempotent: it sees no error either, and all its records are there.
func drainAgents(t *testing.T, c *harness.Cluster) {
	t.Helper()
	tr := startTraffic(t, bootstraps(c)...)
	tail := startTail(t, tr)
	plain := startPlain(t, c)
	for _, victim := range c.Agents {
		tr.load.ResetStalls()
		took, err := victim.Terminate(soon)
		require.NoError(t, err)
		require.NotContains(t, victim.Output(), "session not closed")
		// A session that was not closed would still be a member until it expires.
		require.Len(t, brokers(t, other(c, victim).Bootstrap), len(c.Agents)-1)
		tr.flows()
		stall := tr.load.LongestWriterStall()
		harness.Within(t, victim.Name+" ended after", took, drainTime+drainSlack)
		harness.Within(t, "longest wait", stall, drainStall)
		victim.Launch()
		victim.AwaitReady()
	}
	tail.finish()
	tr.finish()
	plain.finish()
	serving(t, c)
}

// plain is a producer without idempotence.
type plain struct {
	t      *testing.T
	client *kgo.Client
	topic  string
	seed   string
	stop   context.CancelFunc
	sent   chan int
	errs   chan error // the first one
}

func startPlain(t *testing.T, c *harness.Cluster) *plain {
	t.Helper()
	topic := fmt.Sprintf("plain-%d", topics.Add(1))
	createTopic(t, topic, partitions, bootstraps(c)...)
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstraps(c)...), kgo.DefaultProduceTopic(topic), kgo.DisableIdempotentWrite())
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	p := &plain{t: t, client: client, topic: topic, seed: c.Agents[0].Bootstrap, stop: stop, sent: make(chan int, 1), errs: make(chan error, 1)}
	go p.write(ctx)
	harness.Await(t, "the producer without idempotence has records in flight", func() bool { return client.BufferedProduceRecords() > 0 })
	return p
}

// write sends a record every millisecond, so that some are in flight whenever an agent ends.
func (p *plain) write(ctx context.Context) {
	n := 0
	defer func() { p.sent <- n }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		n++
		p.client.Produce(context.WithoutCancel(ctx), kgo.StringRecord("x"), func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case p.errs <- err:
				default:
				}
			}
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// finish checks that the producer saw no error and that every record is there.
func (p *plain) finish() {
	p.t.Helper()
	p.stop()
	n := <-p.sent
	ctx, cancel := context.WithTimeout(p.t.Context(), drain)
	defer cancel()
	require.NoError(p.t, p.client.Flush(ctx))
	select {
	case err := <-p.errs:
		require.NoError(p.t, err, "a producer without idempotence")
	default:
	}
	require.GreaterOrEqual(p.t, len(readAll(p.t, p.topic, p.seed)), n, "every acknowledged record is there")
	require.Greater(p.t, n, 100)
}

// endWithout terminates an agent that can neither flush nor take leave: it ends in time all the same, and what it had
// taken in goes to the others.
func endWithout(t *testing.T, c *harness.Cluster, away, back func()) {
	t.Helper()
	tr := startTrafficWith(t, impatient(), bootstraps(c)...)
	victim := c.Agents[1]
	away()
	took, err := victim.Terminate(soon) // without a limit it would wait for a minute
	back()
	require.NoError(t, err)
	harness.Within(t, victim.Name+" ended after", took, drainTime+drainSlack)
	tr.flows()
	victim.Launch()
	victim.AwaitReady()
	tr.finish()
	serving(t, c)
}

// other gives an agent that is not the one given.
func other(c *harness.Cluster, not *harness.Agent) *harness.Agent {
	if c.Agents[0] != not {
		return c.Agents[0]
	}
	return c.Agents[1]
}

// tail is a consumer at the end of a traffic's topic.
type tail struct {
	t     *testing.T
	stop  context.CancelFunc
	ended chan struct{}
	errs  []error // after ended
	read  int     // after ended
}

func startTail(t *testing.T, tr *traffic) *tail {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(tr.bootstrap), kgo.ConsumeTopics(tr.load.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	tl := &tail{t: t, stop: stop, ended: make(chan struct{})}
	t.Cleanup(stop)
	go func() {
		defer close(tl.ended)
		defer client.Close()
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			tl.read += fetches.NumRecords()
			if ctx.Err() == nil {
				fetches.EachError(func(_ string, _ int32, err error) { tl.errs = append(tl.errs, err) })
			}
		}
	}()
	return tl
}

// finish checks that the consumer saw records and no error.
func (tl *tail) finish() {
	tl.t.Helper()
	tl.stop()
	<-tl.ended
	require.Empty(tl.t, tl.errs)
	require.NotZero(tl.t, tl.read)
}

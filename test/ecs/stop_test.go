package ecs

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// stopTimeout is ECS's default time between SIGTERM and SIGKILL.
const stopTimeout = 30 * time.Second

// rackOf returns the rack of the agent that a client reaches.
func rackOf(t *testing.T, a *harness.Agent) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(a.Bootstrap))
	require.NoError(t, err)
	defer client.Close()
	brokers, err := kadm.NewClient(client).ListBrokers(t.Context())
	require.NoError(t, err)
	for _, b := range brokers {
		if fmt.Sprintf("%s:%d", b.Host, b.Port) == a.Bootstrap {
			require.NotNil(t, b.Rack)
			return *b.Rack
		}
	}
	require.Fail(t, "the agent does not show itself", "%v", brokers)
	return ""
}

// healthy runs the container's health check.
func healthy(t *testing.T, a *harness.Agent, path string) (ok bool, said string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), harness.Freshet(t), "health", a.HTTP+path).CombinedOutput()
	return err == nil, string(out)
}

// TestStop_OfATask: a task that ECS stops drains and is gone before the stop timeout, while an idempotent producer writes on without an
// error. The container's health check passes from readiness on.
func TestStop_OfATask(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 1})
	c.ControlPlanes[0].Launch()
	task := endpoint(t, says(taskOf))
	for _, a := range c.Agents {
		a.UseBinary(t, inTask(t, task))
		a.Launch()
	}
	for _, a := range c.Agents {
		a.AwaitReady()
		ok, said := healthy(t, a, "/readyz")
		require.True(t, ok, said)
	}
	harness.CLI(t, c.Agents[0].Bootstrap, nil, "topic", "create", "t", "--partitions", "6")
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Agents[0].Bootstrap, c.Agents[1].Bootstrap), kgo.DefaultProduceTopic("t"),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	require.NoError(t, err)
	defer client.Close()
	acknowledged, longest := 0, time.Duration(0)
	write := func() {
		t.Helper()
		began := time.Now()
		for range 12 {
			require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(acknowledged))).FirstErr())
			acknowledged++
		}
		longest = max(longest, time.Since(began))
	}
	write()
	gone := make(chan error, 1)
	go func() {
		took, err := c.Agents[0].Terminate(stopTimeout)
		t.Logf("gone %v after SIGTERM, aim 2s, stop timeout %v", took.Round(time.Millisecond), stopTimeout)
		gone <- err
	}()
	for ended := false; !ended; {
		write()
		select {
		case err := <-gone:
			require.NoError(t, err)
			ended = true
		default:
		}
	}
	write()
	ok, said := healthy(t, c.Agents[0], "/livez")
	require.False(t, ok)
	require.Contains(t, said, "connection refused")
	t.Logf("longest time of 12 records %v, %d records", longest.Round(time.Millisecond), acknowledged)
	require.Len(t, read(t, c.Agents[1], acknowledged), acknowledged)
}

// TestStop_KilledAtTheTimeout: ECS kills a task whose drain does not end, because its object store stands still. No acknowledged record is
// lost, and the producer's records that were in flight are there once.
func TestStop_KilledAtTheTimeout(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 1})
	c.ControlPlanes[0].Launch()
	for _, a := range c.Agents {
		a.UseBinary(t, inTask(t, endpoint(t, says(taskOf))))
	}
	stopped, next := c.Agents[0], c.Agents[1]
	stopped.Launch()
	stopped.AwaitReady()
	harness.CLI(t, stopped.Bootstrap, nil, "topic", "create", "t", "--partitions", "6")
	client, err := kgo.NewClient(kgo.SeedBrokers(stopped.Bootstrap, next.Bootstrap), kgo.DefaultProduceTopic("t"),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	acknowledged := make(chan error, 60)
	produce := func(from, to int) {
		for i := from; i < to; i++ {
			client.Produce(t.Context(), kgo.StringRecord(fmt.Sprint(i)), func(_ *kgo.Record, err error) { acknowledged <- err })
		}
	}
	produce(0, 30)
	for range 30 {
		require.NoError(t, <-acknowledged)
	}
	c.S3.Stop()
	produce(30, 60)
	harness.Await(t, "the agent has records that are not in the store", func() bool {
		waiting, err := stopped.Metric("freshet_writer_puts_in_flight")
		return err == nil && waiting > 0
	})
	const timeout = 2 * time.Second // of this task
	_, err = stopped.Terminate(timeout)
	require.Error(t, err, "the drain waits for the store")
	stopped.Kill()
	c.S3.Cont()
	next.Launch()
	next.AwaitReady()
	for range 30 {
		require.NoError(t, <-acknowledged)
	}
	require.Len(t, read(t, next, 60), 60)
}

// read returns the values of a topic's records, each once.
func read(t *testing.T, a *harness.Agent, want int) map[string]bool {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(a.Bootstrap), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer client.Close()
	values := map[string]bool{}
	for len(values) < want {
		fetches := client.PollFetches(t.Context())
		require.Empty(t, fetches.Errors())
		for _, r := range fetches.Records() {
			require.False(t, values[string(r.Value)], "record %s twice", strings.TrimSpace(string(r.Value)))
			values[string(r.Value)] = true
		}
	}
	return values
}

package elastic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestMoves_Librdkafka: an idempotent producer of librdkafka, which asks for Metadata every 5 minutes, goes to an agent that comes,
// and back when it goes.
func TestMoves_Librdkafka(t *testing.T) {
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 1, EtcdMembers: 1, Ports: 2})
	c.ControlPlanes[0].Launch()
	c.ControlPlanes[0].AwaitReady()
	c.Agents[0].Launch()
	c.Agents[0].AwaitReady()
	s := &scene{t: t, fleet: &fleet{Cluster: c, t: t, drain: finishing}}
	s.topics()
	producer := foreign{harness.PythonWorker(t, "elastic.py")}
	s.families, s.marked = map[string]family{"librdkafka": producer}, make(map[string][]int64)
	producer.write(t, job{Name: "writer", Topic: topic, Partitions: partitions, IntervalMs: intervalMs, Config: map[string]string{
		"bootstrap.servers": c.Agents[0].Bootstrap, "enable.idempotence": "true",
	}})
	s.flows()
	s.fleet.start(1)
	s.fleet.serves(1)
	sentOn, err := c.Agents[0].Metric("freshet_produce_sent_on_total")
	require.NoError(t, err)
	require.Positive(t, sentOn)
	s.fleet.stop(1)
	s.flows() // in all partitions
	written := producer.finish(t)
	require.Empty(t, written.Failures)
	for p, offsets := range written.Offsets {
		require.NotEmpty(t, offsets)
		for i, o := range offsets {
			require.EqualValues(t, i, o, "partition %d", p)
		}
	}
}

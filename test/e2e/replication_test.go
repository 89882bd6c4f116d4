package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// TestReplicationFactor_ReadsBack: clients with and without zone read back the factor that a topic was created with, by Metadata and by
// DescribeTopicPartitions, while agents come and go, and after the owner was killed. In three zones, Metadata shows a client of a known
// zone at least one replica per zone.
func TestReplicationFactor_ReadsBack(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 3, ControlPlanes: 2, Zones: []string{"a", "b", "c"}, Ports: 4})
	for _, p := range c.ControlPlanes {
		p.Launch()
	}
	first := c.Agents[0]
	first.Launch()
	first.AwaitReady()
	connect := func(clientID string, a *harness.Agent) *kgo.Client {
		client, err := kgo.NewClient(kgo.SeedBrokers(a.Bootstrap), kgo.ClientID(clientID), kgo.MetadataMinAge(10*time.Millisecond))
		require.NoError(t, err)
		t.Cleanup(client.Close)
		return client
	}
	admin := kadm.NewClient(connect("tool", first))
	factors := map[string]int{"default": 3}
	created, err := admin.CreateTopics(t.Context(), 6, -1, nil, "default")
	require.NoError(t, err)
	require.NoError(t, created.Error())
	require.EqualValues(t, 3, created["default"].ReplicationFactor)
	for factor := 1; factor <= 4; factor++ {
		name := fmt.Sprint("factor-", factor)
		factors[name] = factor
		created, err := admin.CreateTopic(t.Context(), 6, int16(factor), nil, name)
		require.NoError(t, err)
		require.EqualValues(t, factor, created.ReplicationFactor)
	}
	_, err = admin.CreateTopic(t.Context(), 6, 5, nil, "factor-5")
	require.ErrorIs(t, err, kerr.InvalidReplicationFactor)

	read := func(a *harness.Agent, zones int) {
		t.Helper()
		for clientID, least := range map[string]int{"tool": 1, "tool,zone=" + a.Zone: zones} {
			client := connect(clientID, a)
			for name, factor := range factors {
				harness.Await(t, fmt.Sprintf("%s has factor %d at %s, as %s", name, factor, a.Bootstrap, clientID), func() bool {
					shown, ok := byMetadata(t.Context(), client, name)
					described := byDescription(t, client, name)
					return ok && shown == max(factor, least) && described == factor
				})
			}
		}
	}
	read(first, 1)
	for _, a := range c.Agents[1:] {
		a.Launch()
		a.AwaitReady()
	}
	for _, a := range c.Agents {
		read(a, 3)
	}
	for _, a := range c.Agents[1:] {
		_, err := a.Terminate(time.Minute)
		require.NoError(t, err)
	}
	read(first, 1)
	c.Owner(t).Kill()
	read(first, 1)

	// All partitions with another number of replicas are another factor.
	var req kadm.AlterPartitionAssignmentsReq
	for p := range int32(6) {
		req.Assign("factor-1", p, []int32{1, 2})
	}
	answers, err := admin.AlterPartitionAssignments(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, answers.Error())
	factors["factor-1"] = 2
	read(first, 1)
}

// byMetadata returns the replicas of each partition of a topic, false if they differ.
func byMetadata(ctx context.Context, client *kgo.Client, topic string) (replicas int, same bool) {
	m, err := kadm.NewClient(client).Metadata(ctx, topic)
	if err != nil || m.Topics[topic].Err != nil {
		return 0, false
	}
	for _, p := range m.Topics[topic].Partitions {
		if replicas != 0 && replicas != len(p.Replicas) {
			return 0, false
		}
		replicas = len(p.Replicas)
	}
	return replicas, replicas > 0
}

// byDescription returns the replicas of the first partition of a topic.
func byDescription(t *testing.T, client *kgo.Client, topic string) int {
	t.Helper()
	in := kmsg.NewPtrDescribeTopicPartitionsRequest()
	in.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: topic}}
	out, err := in.RequestWith(t.Context(), client)
	if err != nil || out.Topics[0].ErrorCode != 0 {
		return 0
	}
	return len(out.Topics[0].Partitions[0].Replicas)
}

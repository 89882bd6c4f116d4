package zones

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// twoZones is a Metadata answer with two partitions, led by an agent of the first zone and an agent of the second.
func twoZones() *kmsg.MetadataResponse {
	return &kmsg.MetadataResponse{
		Brokers: []kmsg.MetadataResponseBroker{{NodeID: 4, Host: address(zones[0], 1)}, {NodeID: 5, Host: address(zones[1], 1)}},
		Topics:  []kmsg.MetadataResponseTopic{{Partitions: []kmsg.MetadataResponseTopicPartition{{Partition: 0, Leader: 4}, {Partition: 1, Leader: 5}}}},
	}
}

func TestForeignLeaders(t *testing.T) {
	t.Parallel()
	m := twoZones()
	require.Equal(t, []string{`leader of partition 1: node 5 at "10.200.2.1"`}, foreignLeaders(zones[0], m))
	require.Equal(t, []string{`leader of partition 0: node 4 at "10.200.1.1"`}, foreignLeaders(zones[1], m))
	m.Topics[0].Partitions[1].Leader = 4
	require.Empty(t, foreignLeaders(zones[0], m))
	m.Topics[0].Partitions[1].Leader = -1
	require.Len(t, foreignLeaders(zones[0], m), 1, "no leader")
	require.Equal(t, []string{"no partition at all"}, foreignLeaders(zones[0], &kmsg.MetadataResponse{}))
}

func TestForeignCoordinators(t *testing.T) {
	t.Parallel()
	f := &kmsg.FindCoordinatorResponse{Coordinators: []kmsg.FindCoordinatorResponseCoordinator{{Key: "g", NodeID: 5, Host: address(zones[1], 2)}}}
	require.Empty(t, foreignCoordinators(zones[1], f))
	require.Equal(t, []string{`coordinator of "g": node 5 at "10.200.2.2", error code 0`}, foreignCoordinators(zones[0], f))
	require.Len(t, foreignCoordinators(zones[0], &kmsg.FindCoordinatorResponse{ErrorCode: 15}), 1)
}

func TestCheckAnswers(t *testing.T) {
	t.Parallel()
	agents := []*harness.Agent{{Name: "agent-0"}, {Name: "agent-1"}}
	answers := []answer{{zone: zones[0], agent: "agent-0"}}
	require.ErrorContains(t, checkAnswers(answers, agents), "no answer of agent-1")
	answers = append(answers, answer{zone: zones[0], agent: "agent-1"})
	require.NoError(t, checkAnswers(answers, agents))
	answers[1].foreign = []string{"leader of partition 1"}
	require.ErrorContains(t, checkAnswers(answers, agents), "port of zone-a at agent-1: 1 leaders and coordinators of other zones, first the leader of partition 1")
}

func TestParseSockets(t *testing.T) {
	t.Parallel()
	const lines = `ESTAB 0      0      10.200.1.100:55930 10.200.3.1:9194  users:(("program",pid=20439,fd=9))
	 cubic wscale:7,7 rto:204 bytes_sent:80 bytes_acked:81 bytes_received:1821 segs_out:4
ESTAB 0      0      10.200.1.100:55940 10.200.1.1:9192  users:(("program",pid=20439,fd=10))
	 cubic bytes_acked:9000 bytes_received:9000
ESTAB 0      0      10.200.1.2:9202 10.200.3.100:54060 users:(("freshet",pid=20321,fd=30))
	 cubic bytes_acked:1668 bytes_received:58
TIME-WAIT 0  0      10.200.1.100:55942 10.200.3.1:9194
`
	flows := parseSockets(zones[0], []byte(lines))
	require.Equal(t, map[socket]flow{{20439, "10.200.1.100:55930", "10.200.3.1:9194"}: {81, 1821}}, flows)
	require.NoError(t, checkFlows(flows, nil, time.Second))
	flows[socket{pid: 7, remote: "10.200.2.1:9192"}] = flow{sent: portRecordBytes + requestChatter}
	require.ErrorContains(t, checkFlows(flows, nil, time.Second), "process 7 sent 4352 bytes to 10.200.2.1:9192")
}

package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata"
)

// TestPlacement_ByKnownZone: nodes and the zones of replicas depend on the zone, on whether every agent knows it and on the client's
// software. Zones a and b have agents with nodes 1, 2 and 3. Zone c has lost its agent. The topic has replication factor 3.
func TestPlacement_ByKnownZone(t *testing.T) {
	known, unknown := true, false
	const standIn = int32(assign.FirstStandIn)
	for _, tc := range []struct {
		name    string
		from    *api.Forward
		nodes   []int32
		leaders string // zones
		zones   int    // of a partition's replicas
	}{
		{"known", &api.Forward{Zone: "b", ZoneKnown: &known}, []int32{3, 1, 2}, "b", 2},
		{"known, with stand-ins", &api.Forward{Zone: "b", ZoneKnown: &known, StandIns: true}, []int32{3, 1, 2, standIn}, "b", 3},
		{"known, without agents", &api.Forward{Zone: "c", ZoneKnown: &known}, []int32{1, 2, 3}, "ab", 2},
		{"known, without agents, with stand-ins", &api.Forward{Zone: "c", ZoneKnown: &known, StandIns: true}, []int32{1, 2, 3, standIn}, "ab", 3},
		{"unknown", &api.Forward{Zone: "b", ZoneKnown: &unknown}, []int32{3}, "b", 1},
		{"unknown, with the zone's name in the client ID", &api.Forward{Zone: "b", ZoneKnown: &unknown, ClientId: "run=b"}, []int32{3}, "b", 1},
		{"older agent, zone in the client ID", &api.Forward{Zone: "b", ClientId: "zone=b"}, []int32{3, 1, 2, standIn}, "b", 3},
		{"older agent, zone elsewhere", &api.Forward{Zone: "b", ClientId: "billing"}, []int32{3}, "b", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run(t, func(c *cluster) {
					c.propose(&metadata.OpenSession{Instance: "c", Zone: "c", Endpoints: []metadata.Endpoint{{Host: "c", Port: 4}}})
					c.propose(&metadata.CloseSession{Session: 3})
					c.create("t", 12)
					c.from = tc.from

					cluster := ask[*kmsg.DescribeClusterResponse](c, kmsg.NewPtrDescribeClusterRequest(), 1)
					var nodes []int32
					zoneOf := map[int32]string{}
					for _, b := range cluster.Brokers {
						nodes, zoneOf[b.NodeID] = append(nodes, b.NodeID), *b.Rack
					}
					require.Equal(t, tc.nodes, nodes)
					require.Equal(t, nodes[0], cluster.ControllerID)

					topics := kmsg.NewPtrDescribeTopicPartitionsRequest()
					topics.Topics, topics.ResponsePartitionLimit = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}, 100
					for _, p := range ask[*kmsg.DescribeTopicPartitionsResponse](c, topics, 0).Topics[0].Partitions {
						require.Contains(t, strings.Split(tc.leaders, ""), zoneOf[p.LeaderID])
						require.Equal(t, p.LeaderID, p.Replicas[0])
						require.Len(t, p.Replicas, min(3, len(nodes)))
						racks := map[string]bool{}
						for _, r := range p.Replicas {
							racks[zoneOf[r]] = true
						}
						require.Len(t, racks, tc.zones, "%v", p.Replicas)
					}

					create := kmsg.NewPtrCreateTopicsRequest()
					create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "new", NumPartitions: -1, ReplicationFactor: -1}}
					require.EqualValues(t, 3, ask[*kmsg.CreateTopicsResponse](c, create, 7).Topics[0].ReplicationFactor)

					resources := kmsg.NewPtrListConfigResourcesRequest()
					resources.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeBroker)}
					var listed []string
					for _, r := range ask[*kmsg.ListConfigResourcesResponse](c, resources, 1).ConfigResources {
						listed = append(listed, r.Name)
					}
					require.Equal(t, fmt.Sprint(nodes), "["+strings.Join(listed, " ")+"]")
				})
			})
		})
	}
}

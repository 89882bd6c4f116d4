package e2e

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// viewPlace is the place of a zone's agent, with a loopback address of its own.
func viewPlace(process string) testservers.Place {
	zone, ok := strings.CutPrefix(process, "zone-")
	if !ok {
		return testservers.Place{}
	}
	return testservers.Place{Address: fmt.Sprintf("127.0.91.%d", 1+slices.Index(listenerZones, zone))}
}

// TestZone_OneViewInEveryAnswer: Metadata is answered by agents, the other APIs by the owner. Both show a client the same nodes,
// leaders and replicas, however the client's zone is known, while zones a and b have an agent and zone c has lost its agent.
func TestZone_OneViewInEveryAnswer(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1, Place: viewPlace})
	c.ControlPlanes[0].Launch()
	agents := map[string]*harness.Agent{}
	for _, zone := range listenerZones {
		listeners := fmt.Sprintf("%s:%d=%s", viewPlace("zone-"+zone).Host(), zonePort, strings.Join(listenerZones, ","))
		agents[zone] = c.NewAgentWith(t, "zone-"+zone, "--zone", zone, "--zone-listeners", listeners, "--client-zones", "127.0.92.0/24=b")
		agents[zone].Launch()
	}
	for _, a := range agents {
		a.AwaitReady()
	}
	harness.CLI(t, agents["a"].Bootstrap, nil, "topic", "create", "t", "--partitions", "6")
	agents["c"].Kill()
	const java, franz = "apache-kafka-java", "kgo"
	for _, own := range []string{"a", "b"} {
		ports := func(zone string) string { // the ports of a zone, at the agent of zone own
			port := zonePort + 4*slices.Index(listenerZones, zone)
			return net.JoinHostPort(viewPlace("zone-"+own).Host(), strconv.Itoa(port))
		}
		gone := viewClient(t, agents[own].Bootstrap, "127.0.0.1", "zone=a", java)
		harness.Await(t, "zone c has no agent", func() bool {
			return !slices.ContainsFunc(shownByMetadata(t, gone).nodes, func(n shownNode) bool { return n.host == viewPlace("zone-c").Host() })
		})
		for _, tc := range []struct {
			name, seed, host, clientID string
			software                   string
			nodes                      int // zones of the nodes, stand-ins included
		}{
			{"client ID", agents[own].Bootstrap, "127.0.0.1", "billing,zone=b", franz, 2},
			{"client ID, with stand-ins", agents[own].Bootstrap, "127.0.0.1", "billing,zone=b", java, 3},
			{"client ID of a zone without agents", agents[own].Bootstrap, "127.0.0.1", "billing,zone=c", java, 3},
			{"listener", ports("b"), "127.0.0.1", "billing", franz, 2},
			{"listener, with stand-ins", ports("b"), "127.0.0.1", "billing", java, 3},
			{"listener of a zone without agents", ports("c"), "127.0.0.1", "billing", franz, 2},
			{"network", agents[own].Bootstrap, "127.0.92.1", "billing", franz, 2},
			{"network, with stand-ins", agents[own].Bootstrap, "127.0.92.1", "billing", java, 3},
			{"unknown", agents[own].Bootstrap, "127.0.0.1", "billing", java, 1},
			{"unknown, though the client ID has the zone's name", agents[own].Bootstrap, "127.0.0.1", "run=" + own, java, 1},
		} {
			t.Run(tc.name+", at zone "+own, func(t *testing.T) {
				client := viewClient(t, tc.seed, tc.host, tc.clientID, tc.software)
				shown := shownByMetadata(t, client)
				racks := map[string]bool{}
				for _, n := range shown.nodes {
					racks[n.rack] = true
				}
				require.Len(t, racks, tc.nodes)
				requireOwnerShows(t, client, shown)
			})
		}
	}
}

// viewClient returns the connection of a client from a host to one address.
func viewClient(t *testing.T, seed, host, clientID, software string) *kgo.Broker {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	client, err := kgo.NewClient(kgo.SeedBrokers(seed), kgo.ClientID(clientID), kgo.SoftwareNameAndVersion(software, "4.1.0"),
		kgo.Dialer(dialer.DialContext))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client.SeedBrokers()[0]
}

// askBroker sends one request, and returns the answer.
func askBroker[R kmsg.Response](t *testing.T, to *kgo.Broker, in kmsg.Request) R {
	t.Helper()
	out, err := to.RetriableRequest(t.Context(), in)
	require.NoError(t, err)
	return out.(R)
}

// shownNode is a broker as a client sees it.
type shownNode struct {
	id   int32
	host string
	port int32
	rack string
}

// shownPartition is the leader and the replicas of a partition.
type shownPartition struct {
	leader   int32
	replicas []int32
}

// shownCluster is the cluster as a client sees it.
type shownCluster struct {
	controller int32
	nodes      []shownNode
	partitions []shownPartition // of topic t
}

func (s *shownCluster) add(id int32, host string, port int32, rack *string) {
	n := shownNode{id: id, host: host, port: port}
	if rack != nil {
		n.rack = *rack
	}
	s.nodes = append(s.nodes, n)
}

// shownByMetadata asks an agent.
func shownByMetadata(t *testing.T, to *kgo.Broker) (shown shownCluster) {
	t.Helper()
	in := kmsg.NewPtrMetadataRequest()
	in.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}}
	out := askBroker[*kmsg.MetadataResponse](t, to, in)
	shown.controller = out.ControllerID
	for _, b := range out.Brokers {
		shown.add(b.NodeID, b.Host, b.Port, b.Rack)
	}
	for _, p := range out.Topics[0].Partitions {
		require.Equal(t, p.Replicas, p.ISR)
		shown.partitions = append(shown.partitions, shownPartition{p.Leader, p.Replicas})
	}
	require.Len(t, shown.partitions, 6)
	return shown
}

// requireOwnerShows checks each API of the owner that names nodes.
func requireOwnerShows(t *testing.T, to *kgo.Broker, want shownCluster) {
	t.Helper()
	cluster := askBroker[*kmsg.DescribeClusterResponse](t, to, kmsg.NewPtrDescribeClusterRequest())
	got := shownCluster{controller: cluster.ControllerID}
	for _, b := range cluster.Brokers {
		got.add(b.NodeID, b.Host, b.Port, b.Rack)
	}
	topics := kmsg.NewPtrDescribeTopicPartitionsRequest()
	topics.Topics, topics.ResponsePartitionLimit = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}, 100
	for _, p := range askBroker[*kmsg.DescribeTopicPartitionsResponse](t, to, topics).Topics[0].Partitions {
		require.Equal(t, p.Replicas, p.ISR)
		got.partitions = append(got.partitions, shownPartition{p.LeaderID, p.Replicas})
	}
	require.Equal(t, want, got, "DescribeCluster, DescribeTopicPartitions")

	ids := make([]int32, len(want.nodes))
	for i, n := range want.nodes {
		ids[i] = n.id
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	p := askBroker[*kmsg.DescribeQuorumResponse](t, to, quorum).Topics[0].Partitions[0]
	members := []int32{p.LeaderID}
	for _, o := range p.Observers {
		members = append(members, o.ReplicaID)
	}
	require.Equal(t, ids, members, "DescribeQuorum")

	resources := kmsg.NewPtrListConfigResourcesRequest()
	resources.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeBroker)}
	var listed []int32
	for _, r := range askBroker[*kmsg.ListConfigResourcesResponse](t, to, resources).ConfigResources {
		id, err := strconv.ParseInt(r.Name, 10, 32)
		require.NoError(t, err)
		listed = append(listed, int32(id))
	}
	require.Equal(t, ids, listed, "ListConfigResources")

	reassign := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	reassign.AllowReplicationFactorChange = false
	reassign.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{
		{Partition: 0, Replicas: want.partitions[0].replicas},
	}}}
	require.Zero(t, askBroker[*kmsg.AlterPartitionAssignmentsResponse](t, to, reassign).Topics[0].Partitions[0].ErrorCode, "AlterPartitionReassignments")

	create := kmsg.NewPtrCreateTopicsRequest()
	create.ValidateOnly = true
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "new", NumPartitions: -1, ReplicationFactor: -1}}
	topic := askBroker[*kmsg.CreateTopicsResponse](t, to, create).Topics[0]
	require.Zero(t, topic.ErrorCode)
	require.EqualValues(t, 3, topic.ReplicationFactor, "CreateTopics")
}

package kafka

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
)

// sharedFirst is the first node of a zone in sharedViews.
func sharedFirst(t *testing.T, zone string) int32 {
	t.Helper()
	return sharedViews(t, zone, "a", "b").shared["main"].zones[zone].Nodes[0][0].ID
}

// sharedForward asks an agent in zone a by the second port of its shared listener. owner answers as if it knew agents alone.
func sharedForward[R kmsg.Response](t *testing.T, version int16, in kmsg.Request, owner func(client.Forward) kmsg.Response) R {
	t.Helper()
	to := forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
		out := owner(f)
		out.SetVersion(version)
		return out.AppendTo(nil), nil
	})
	cfg := Config{Forwarder: to, Zones: zonesOf(t, "a"), Catalogue: catalogueOf(t), Views: sharedViews(t, "a", "a", "b")}
	cfg.ApplyDefaults()
	return call[R](t, newForwarded(in.Key(), cfg), version, in, "")
}

func TestFindCoordinator_Shared(t *testing.T) {
	f := NewFindCoordinator(catalogueOf(t), sharedViews(t, "a", "a", "b"))
	for clientID, zone := range map[string]string{"": "a", "zone=b": "b"} {
		in := kmsg.NewPtrFindCoordinatorRequest()
		in.CoordinatorKeys = []string{"g"}
		got := call[*kmsg.FindCoordinatorResponse](t, f, 6, in, clientID).Coordinators[0]
		require.Equal(t, sharedFirst(t, zone), got.NodeID)
		require.Equal(t, "lb-"+zone, got.Host)
	}
}

func TestForward_SharedDescribeCluster(t *testing.T) {
	agents := func(client.Forward) kmsg.Response {
		out := kmsg.NewPtrDescribeClusterResponse()
		out.EndpointType, out.ClusterID, out.ControllerID = 1, "the-cluster", 10
		out.Brokers = []kmsg.DescribeClusterResponseBroker{{NodeID: 10, Host: "lb-a"}, {NodeID: 20, Host: "lb-a"}}
		return out
	}
	got := sharedForward[*kmsg.DescribeClusterResponse](t, 1, kmsg.NewPtrDescribeClusterRequest(), agents)
	require.Equal(t, "the-cluster", got.ClusterID)
	require.Equal(t, sharedFirst(t, "a"), got.ControllerID)
	require.Len(t, got.Brokers, 2)
	for i, b := range got.Brokers {
		require.Equal(t, sharedFirst(t, "a")+int32(i), b.NodeID)
		require.EqualValues(t, 30000+i, b.Port)
		require.Equal(t, "a", *b.Rack)
	}
	refused := sharedForward[*kmsg.DescribeClusterResponse](t, 1, kmsg.NewPtrDescribeClusterRequest(), func(client.Forward) kmsg.Response {
		out := kmsg.NewPtrDescribeClusterResponse()
		out.ErrorCode = kerr.MismatchedEndpointType.Code
		return out
	})
	require.Empty(t, refused.Brokers)
}

func TestForward_SharedDescribeTopicPartitions(t *testing.T) {
	views, c := sharedViews(t, "a", "a", "b"), catalogueOf(t)
	shown := sharedMetadata(t, c, views, "").Topics[0]
	got := sharedForward[*kmsg.DescribeTopicPartitionsResponse](t, 0, kmsg.NewPtrDescribeTopicPartitionsRequest(), func(client.Forward) kmsg.Response {
		out := kmsg.NewPtrDescribeTopicPartitionsResponse()
		for id, name := range map[byte]string{1: "alpha", 9: "created since"} {
			topic := kmsg.NewDescribeTopicPartitionsResponseTopic()
			topic.Topic, topic.TopicID = &name, [16]byte(topicID(id))
			for p := range int32(12) {
				partition := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
				partition.Partition, partition.LeaderID, partition.LeaderEpoch, partition.Replicas = p, 10, 7, []int32{10}
				topic.Partitions = append(topic.Partitions, partition)
			}
			out.Topics = append(out.Topics, topic)
		}
		return out
	})
	for _, topic := range got.Topics {
		for i, p := range topic.Partitions {
			if *topic.Topic != "alpha" {
				require.Equal(t, kerr.LeaderNotAvailable.Code, p.ErrorCode)
				require.Empty(t, p.Replicas)
				continue
			}
			require.Equal(t, shown.Partitions[i].Leader, p.LeaderID)
			require.Equal(t, shown.Partitions[i].LeaderEpoch, p.LeaderEpoch)
			require.Equal(t, shown.Partitions[i].Replicas[:1], p.Replicas, "the factor is 1")
			require.Equal(t, p.Replicas, p.ISR)
		}
	}
}

// TestForward_SharedCoordinatorLists: each node lists the transactions that FindCoordinator names it for. Node noNode, which clients do not
// see, lists all.
func TestForward_SharedCoordinatorLists(t *testing.T) {
	const names, noNode = 20, 5
	cfg := Config{Forwarder: forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
		require.Equal(t, -1, f.Node, "the owner lists all")
		out := kmsg.NewPtrListTransactionsResponse()
		for i := range names {
			out.TransactionStates = append(out.TransactionStates, kmsg.ListTransactionsResponseTransactionState{TransactionalID: fmt.Sprint("t", i)})
		}
		return out.AppendTo(nil), nil
	}), Zones: zonesOf(t, "a"), Catalogue: catalogueOf(t), Views: sharedViews(t, "a", "a", "b")}
	cfg.ApplyDefaults()
	in := kmsg.NewPtrListTransactionsRequest()
	for port, want := range map[int]int{0: names, 1: 0, noNode: names} {
		from := &edge.Client{Listener: "main", PortIndex: port}
		reply := newForwarded(in.Key(), cfg).Start(t.Context(), &edge.Request{Key: in.Key(), Body: in.AppendTo(nil), Client: from})()
		out := kmsg.NewPtrListTransactionsResponse()
		require.NoError(t, out.ReadFrom(reply.Head))
		require.Len(t, out.TransactionStates, want, "port %d", port)
	}
}

// TestForward_SharedDescribeLogDirs: the nodes together have each partition once.
func TestForward_SharedDescribeLogDirs(t *testing.T) {
	led := map[int32]bool{}
	for _, p := range sharedMetadata(t, catalogueOf(t), sharedViews(t, "a", "a", "b"), "").Topics[0].Partitions {
		if p.Leader == sharedFirst(t, "a")+1 {
			led[p.Partition] = true
		}
	}
	got := sharedForward[*kmsg.DescribeLogDirsResponse](t, 4, kmsg.NewPtrDescribeLogDirsRequest(), func(f client.Forward) kmsg.Response {
		require.Equal(t, noListener, f.Listener)
		out, dir := kmsg.NewPtrDescribeLogDirsResponse(), kmsg.NewDescribeLogDirsResponseDir()
		for _, name := range []string{"alpha", "created since"} {
			topic := kmsg.DescribeLogDirsResponseDirTopic{Topic: name}
			for p := range int32(12) {
				topic.Partitions = append(topic.Partitions, kmsg.DescribeLogDirsResponseDirTopicPartition{Partition: p, Size: 5})
			}
			dir.Topics = append(dir.Topics, topic)
		}
		out.Dirs = append(out.Dirs, dir)
		return out
	})
	require.Len(t, got.Dirs[0].Topics, 1)
	require.Len(t, got.Dirs[0].Topics[0].Partitions, len(led))
	require.Len(t, led, 6)
	for _, p := range got.Dirs[0].Topics[0].Partitions {
		require.True(t, led[p.Partition])
	}
}

func TestForward_SharedDescribeQuorum(t *testing.T) {
	got := sharedForward[*kmsg.DescribeQuorumResponse](t, 2, kmsg.NewPtrDescribeQuorumRequest(), func(client.Forward) kmsg.Response {
		out, topic := kmsg.NewPtrDescribeQuorumResponse(), kmsg.NewDescribeQuorumResponseTopic()
		p := kmsg.NewDescribeQuorumResponseTopicPartition()
		p.LeaderID = 10
		for _, node := range []int32{10, 11, 20, 21} {
			state := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
			state.ReplicaID, state.LogEndOffset = node, 77
			if node == 10 {
				p.CurrentVoters = append(p.CurrentVoters, state)
			} else {
				p.Observers = append(p.Observers, state)
			}
		}
		topic.Partitions = append(topic.Partitions, p)
		out.Topics = append(out.Topics, topic)
		out.Nodes = []kmsg.DescribeQuorumResponseNode{{NodeID: 10, Listeners: []kmsg.DescribeQuorumResponseNodeListener{{Name: "main"}}}}
		return out
	})
	p, first := got.Topics[0].Partitions[0], sharedFirst(t, "a")
	require.Equal(t, first, p.LeaderID)
	require.Equal(t, first, p.CurrentVoters[0].ReplicaID)
	require.Len(t, p.Observers, 1)
	require.Equal(t, first+1, p.Observers[0].ReplicaID)
	require.EqualValues(t, 77, p.Observers[0].LogEndOffset)
	require.Equal(t, first, got.Nodes[0].NodeID)
	require.Equal(t, "lb-a", got.Nodes[0].Listeners[0].Host)
}

// TestForward_SharedConfigs: nodes that are shown can be described, and are listed.
func TestForward_SharedConfigs(t *testing.T) {
	shared := nodeName(sharedFirst(t, "b") + 1)
	in := kmsg.NewPtrDescribeConfigsRequest()
	for kind, name := range map[kmsg.ConfigResourceType]string{kmsg.ConfigResourceTypeBroker: shared, kmsg.ConfigResourceTypeTopic: "31"} {
		in.Resources = append(in.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kind, ResourceName: name})
	}
	got := sharedForward[*kmsg.DescribeConfigsResponse](t, 4, in, func(f client.Forward) kmsg.Response {
		asked, out := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewPtrDescribeConfigsResponse()
		asked.SetVersion(4)
		require.NoError(t, asked.ReadFrom(f.Body))
		for _, r := range asked.Resources {
			require.Equal(t, "31", r.ResourceName, "an agent of zone b, the same port")
			value := r.ResourceName
			out.Resources = append(out.Resources, kmsg.DescribeConfigsResponseResource{
				ResourceType: r.ResourceType, ResourceName: r.ResourceName,
				Configs: []kmsg.DescribeConfigsResponseResourceConfig{
					{Name: "node.id", Value: &value, ConfigSynonyms: []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{{Name: "node.id", Value: &value}}},
					{Name: "num.partitions", Value: &value},
				},
			})
		}
		return out
	})
	require.Len(t, got.Resources, 2)
	for _, r := range got.Resources {
		want := "31"
		if r.ResourceType == kmsg.ConfigResourceTypeBroker {
			want = shared
		}
		require.Equal(t, want, r.ResourceName)
		require.Equal(t, want, *r.Configs[0].Value)
		require.Equal(t, want, *r.Configs[0].ConfigSynonyms[0].Value)
		require.Equal(t, "31", *r.Configs[1].Value)
	}

	listed := sharedForward[*kmsg.ListConfigResourcesResponse](t, 1, kmsg.NewPtrListConfigResourcesRequest(), func(client.Forward) kmsg.Response {
		out := kmsg.NewPtrListConfigResourcesResponse()
		for _, name := range []string{"10", "11", "20", "21"} {
			out.ConfigResources = append(out.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: int8(kmsg.ConfigResourceTypeBroker)})
		}
		out.ConfigResources = append(out.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: "alpha", Type: int8(kmsg.ConfigResourceTypeTopic)})
		return out
	})
	var names []string
	for _, r := range listed.ConfigResources {
		names = append(names, r.Name)
	}
	require.Equal(t, []string{nodeName(sharedFirst(t, "a")), nodeName(sharedFirst(t, "a") + 1), "alpha"}, names)
}

// TestForward_SharedDraining: a member of a group is sent on only where the load balancer has no other agent for it.
func TestForward_SharedDraining(t *testing.T) {
	for zone, sentOn := range map[string]bool{"a": false, "b": true} {
		forwarded := 0
		to := forwarderFunc(func(context.Context, client.Forward) ([]byte, error) {
			forwarded++
			return nil, client.ErrInvalid
		})
		c := catalogueOf(t)
		c.OnWelcome(&api.Welcome{Session: 1})
		c.OnCatalogue(&api.Catalogue{Index: 9, Membership: &api.Membership{Version: 8, Members: []*api.Member{member(2, zone)}}})
		cfg := Config{Forwarder: to, Catalogue: c, Views: sharedViews(t, "a", "a", "b"), Left: func() bool { return true }}
		cfg.ApplyDefaults()
		require.Equal(t, !sentOn, cfg.Views.HasSibling(c.Load(), "main"))
		require.False(t, cfg.Views.HasSibling(c.Load(), "other"), "is not shared")
		reply := start(t, newForwarded(int16(kmsg.Heartbeat), cfg), 4, anyRequest(int16(kmsg.Heartbeat)), "")()
		if sentOn {
			require.Equal(t, []int16{kerr.NotCoordinator.Code}, reply.Errors)
		}
		require.Equal(t, sentOn, forwarded == 0)
	}
}

// TestViews_RemainsCountsOthers: an agent that could not be taken out of the membership does not count itself.
func TestViews_RemainsCountsOthers(t *testing.T) {
	c := catalogueOf(t)
	c.OnWelcome(&api.Welcome{Session: 1})
	c.OnCatalogue(&api.Catalogue{Index: 9, Membership: &api.Membership{Version: 8, Members: []*api.Member{member(1, "a")}}})
	require.False(t, sharedViews(t, "a", "a").HasSibling(c.Load(), "main"))
}

// sharedDefault are the views of an agent in zone a whose default listener is shared.
func sharedDefault(t *testing.T) *Views {
	t.Helper()
	v, l := NewViews(zonesOf(t, "a")), SharedListener{Zones: make(map[string][]view.Endpoint), Ports: []int{0}}
	for _, zone := range []string{"a", "b"} {
		l.Zones[zone] = []view.Endpoint{{Host: "lb-" + zone, Port: 30000}}
	}
	v.Share(SharedListeners{"": l})
	return v
}

// TestFetch_SharedDraining: a fetch is served to the end where the load balancer would bring it back, and else sent to another's.
func TestFetch_SharedDraining(t *testing.T) {
	for zone, redirected := range map[string]bool{"a": false, "b": true} {
		synctest.Test(t, func(t *testing.T) {
			r := newReaders(t)
			r.produce(t, 0, 1, 2)
			r.leave(t, plainMember(2, zone))
			r.fetch.cfg.Departure.views = sharedDefault(t)
			out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, fetchRequest(17, 5000, knowing(fetchPartition(0, 0), 3)))
			p := out.Topics[0].Partitions[0]
			if !redirected {
				require.Zero(t, p.ErrorCode)
				require.NotEmpty(t, p.RecordBatches)
				require.Empty(t, out.Brokers)
				return
			}
			require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode)
			require.Len(t, out.Brokers, 1)
			require.Equal(t, "lb-b", out.Brokers[0].Host)
			require.Equal(t, out.Brokers[0].NodeID, p.CurrentLeader.LeaderID)
		})
	}
}

// TestProduce_SharedDraining: the hints are shared nodes.
func TestProduce_SharedDraining(t *testing.T) {
	for _, zone := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			r := newProduceRig(t)
			r.Produce.cfg.Views = sharedViews(t, "a", "a", "b")
			require.NoError(t, r.writer.Drain(t.Context()))
			r.catalogue.OnCatalogue(&api.Catalogue{Index: 9, Membership: &api.Membership{Version: 8, Members: []*api.Member{member(2, zone)}}})
			got := r.send(12, produceOf(-1, to{1, 0, recordBatch("a")}))
			require.Equal(t, kerr.NotLeaderForPartition.Code, got[0].ErrorCode)
			require.EqualValues(t, 8, got[0].CurrentLeader.LeaderEpoch)
			require.Equal(t, sharedFirst(t, zone), got[0].CurrentLeader.LeaderID&^1)
		})
	}
}

// A client of a shared listener sees load balancers instead of agents, also in advertised.listeners ("The node's address for clients of
// this listener"). The owner knows agents alone.
func TestForward_SharedConfigsShowNoAddressOfAnAgent(t *testing.T) {
	shared := nodeName(sharedFirst(t, "b") + 1)
	in := kmsg.NewPtrDescribeConfigsRequest()
	in.Resources = append(in.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: shared})
	got := sharedForward[*kmsg.DescribeConfigsResponse](t, 4, in, func(client.Forward) kmsg.Response {
		out, address := kmsg.NewPtrDescribeConfigsResponse(), "main://agent-31.private:9093"
		out.Resources = append(out.Resources, kmsg.DescribeConfigsResponseResource{
			ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "31",
			Configs: []kmsg.DescribeConfigsResponseResourceConfig{{Name: "advertised.listeners", Value: &address}},
		})
		return out
	})
	for _, c := range got.Resources[0].Configs {
		if c.Value != nil {
			require.NotContains(t, *c.Value, "agent-31.private", c.Name)
		}
	}
}

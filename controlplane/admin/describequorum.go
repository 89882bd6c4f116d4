package admin

import (
	"cmp"
	"context"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata"
)

// DescribeQuorum, key 55, versions 0-2 (KIP-595). All are flexible.
//
//	1  answers times (KIP-836)
//	2  answers directory ids, error messages and nodes (KIP-853)
//
// There is no KRaft quorum: the metadata log is in etcd, and the owner alone appends to it. Tools see a quorum of one
// voter, which is the node that DescribeCluster shows as controller, at the end of the metadata log, and the other
// nodes as observers, which follow it by their sessions.

func (c *call) describeQuorum(_ context.Context, in *kmsg.DescribeQuorumRequest) (*kmsg.DescribeQuorumResponse, error) {
	out := kmsg.NewPtrDescribeQuorumResponse()
	out.ErrorMessage = kmsg.StringPtr("")
	if !asksMetadataLog(in) {
		out.Topics = notHosted(in)
		return out, nil
	}
	_, err := c.owner.Read(func(s *metadata.State) {
		v := viewOf(s, c.forward)
		p := kmsg.NewDescribeQuorumResponseTopicPartition()
		p.ErrorMessage = kmsg.StringPtr("")
		p.LeaderID, p.LeaderEpoch, p.HighWatermark = -1, v.epoch, logEnd(s)
		for i, n := range v.brokers() {
			replica := quorumReplica(n.ID, s)
			if i == 0 {
				p.LeaderID, p.CurrentVoters = n.ID, append(p.CurrentVoters, replica)
				out.Nodes = append(out.Nodes, quorumNode(n, c.forward))
				continue
			}
			p.Observers = append(p.Observers, replica)
		}
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic, t.Partitions = clusterMetadataTopic, append(t.Partitions, p)
		out.Topics = append(out.Topics, t)
	})
	return out, err
}

// asksMetadataLog: the request names the one partition that there is (DescribeQuorumRequest).
func asksMetadataLog(in *kmsg.DescribeQuorumRequest) bool {
	return len(in.Topics) == 1 && in.Topics[0].Topic == clusterMetadataTopic &&
		len(in.Topics[0].Partitions) == 1 && in.Topics[0].Partitions[0].Partition == 0
}

func notHosted(in *kmsg.DescribeQuorumRequest) []kmsg.DescribeQuorumResponseTopic {
	var topics []kmsg.DescribeQuorumResponseTopic
	for _, asked := range in.Topics {
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic = asked.Topic
		for _, partition := range asked.Partitions {
			fault := plain(kerr.UnknownTopicOrPartition)
			p := kmsg.NewDescribeQuorumResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = partition.Partition, fault.code(), fault.text()
			t.Partitions = append(t.Partitions, p)
		}
		topics = append(topics, t)
	}
	return topics
}

func logEnd(s *metadata.State) int64 { return int64(min(s.Index(), math.MaxInt64-1)) + 1 }

func quorumReplica(node int32, s *metadata.State) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	r := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	r.ReplicaID, r.LogEndOffset = node, logEnd(s)
	r.LastFetchTimestamp, r.LastCaughtUpTimestamp = s.Now(), s.Now()
	return r
}

func quorumNode(n assign.Node, f *api.Forward) kmsg.DescribeQuorumResponseNode {
	at := kmsg.NewDescribeQuorumResponseNodeListener()
	at.Name, at.Host, at.Port = f.Listener, n.Host, uint16(n.Port)
	at.Name = cmp.Or(at.Name, "CONTROLLER")
	out := kmsg.NewDescribeQuorumResponseNode()
	out.NodeID, out.Listeners = n.ID, append(out.Listeners, at)
	return out
}

package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the group and offset APIs answer while the control plane cannot be reached. NOT_COORDINATOR is the one code on
// which the Java clients, librdkafka and franz-go all look for the coordinator again and then repeat the request,
// whatever its API; the Java consumer takes COORDINATOR_LOAD_IN_PROGRESS in an answer to SyncGroup for a fatal error.
// ListGroups goes to every broker: there it is COORDINATOR_NOT_AVAILABLE that the admin client repeats on.

func unavailableJoinGroup(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrJoinGroupResponse()
	out.ErrorCode, out.MemberID = kerr.NotCoordinator.Code, in.(*kmsg.JoinGroupRequest).MemberID
	if in.GetVersion() < 7 { // not nullable
		out.Protocol = kmsg.StringPtr("")
	}
	return out
}

func unavailableSyncGroup(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrSyncGroupResponse()
	out.ErrorCode = kerr.NotCoordinator.Code
	return out
}

func unavailableHeartbeat(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrHeartbeatResponse()
	out.ErrorCode = kerr.NotCoordinator.Code
	return out
}

func unavailableLeaveGroup(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrLeaveGroupResponse()
	out.ErrorCode = kerr.NotCoordinator.Code
	return out
}

func unavailableConsumerGroupHeartbeat(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	out.ErrorCode, out.ErrorMessage = kerr.NotCoordinator.Code, kmsg.StringPtr(unavailableMessage)
	return out
}

func unavailableConsumerGroupDescribe(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrConsumerGroupDescribeResponse()
	for _, group := range in.(*kmsg.ConsumerGroupDescribeRequest).Groups {
		g := kmsg.NewConsumerGroupDescribeResponseGroup()
		g.Group, g.ErrorCode, g.ErrorMessage = group, kerr.NotCoordinator.Code, kmsg.StringPtr(unavailableMessage)
		out.Groups = append(out.Groups, g)
	}
	return out
}

func unavailableDescribeGroups(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDescribeGroupsResponse()
	for _, group := range in.(*kmsg.DescribeGroupsRequest).Groups {
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.ErrorCode, g.ErrorMessage = group, kerr.NotCoordinator.Code, kmsg.StringPtr(unavailableMessage)
		out.Groups = append(out.Groups, g)
	}
	return out
}

func unavailableListGroups(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrListGroupsResponse()
	out.ErrorCode = kerr.CoordinatorNotAvailable.Code
	return out
}

func unavailableDeleteGroups(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDeleteGroupsResponse()
	for _, group := range in.(*kmsg.DeleteGroupsRequest).Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group, g.ErrorCode = group, kerr.NotCoordinator.Code
		out.Groups = append(out.Groups, g)
	}
	return out
}

func unavailableOffsetCommit(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrOffsetCommitResponse()
	for _, topic := range in.(*kmsg.OffsetCommitRequest).Topics {
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, kerr.NotCoordinator.Code
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	return out
}

func unavailableTxnOffsetCommit(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrTxnOffsetCommitResponse()
	for _, topic := range in.(*kmsg.TxnOffsetCommitRequest).Topics {
		t := kmsg.NewTxnOffsetCommitResponseTopic()
		t.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, kerr.NotCoordinator.Code
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	return out
}

func unavailableOffsetDelete(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrOffsetDeleteResponse()
	out.ErrorCode = kerr.NotCoordinator.Code
	return out
}

// unavailableOffsetFetch has the error where a version has room for it: per group, at the top, or (version 1) in each
// partition, where the Java client looks in every version before 8.
func unavailableOffsetFetch(in kmsg.Request) kmsg.Response {
	req, out := in.(*kmsg.OffsetFetchRequest), kmsg.NewPtrOffsetFetchResponse()
	for _, group := range req.Groups {
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.ErrorCode = group.Group, kerr.NotCoordinator.Code
		out.Groups = append(out.Groups, g)
	}
	if req.Version >= 8 {
		return out
	}
	out.ErrorCode = kerr.NotCoordinator.Code
	for _, topic := range req.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.Metadata, p.ErrorCode = partition, -1, kmsg.StringPtr(""), kerr.NotCoordinator.Code
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	return out
}

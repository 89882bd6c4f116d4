package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the admin APIs answer while the control plane cannot be reached. The codes are those on which the Java admin
// client asks again by itself: NOT_CONTROLLER where it looks for the controller, NOT_LEADER_OR_FOLLOWER where it looks
// for leaders, REQUEST_TIMED_OUT elsewhere.

func unavailableDeleteRecords(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDeleteRecordsResponse()
	for _, topic := range in.(*kmsg.DeleteRecordsRequest).Topics {
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark, p.ErrorCode = partition.Partition, -1, kerr.NotLeaderForPartition.Code
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	return out
}

func unavailableElectLeaders(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrElectLeadersResponse()
	out.ErrorCode = kerr.NotController.Code // version 1 on
	for _, topic := range in.(*kmsg.ElectLeadersRequest).Topics {
		t := kmsg.NewElectLeadersResponseTopic()
		t.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = partition, kerr.NotController.Code, kmsg.StringPtr(unavailableMessage)
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	return out
}

func unavailableAlterPartitionAssignments(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	out.ErrorCode, out.ErrorMessage = kerr.NotController.Code, kmsg.StringPtr(unavailableMessage)
	return out
}

func unavailableListPartitionReassignments(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrListPartitionReassignmentsResponse()
	out.ErrorCode, out.ErrorMessage = kerr.NotController.Code, kmsg.StringPtr(unavailableMessage)
	return out
}

func unavailableAlterReplicaLogDirs(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrAlterReplicaLogDirsResponse()
	for _, dir := range in.(*kmsg.AlterReplicaLogDirsRequest).Dirs {
		for _, topic := range dir.Topics {
			t := kmsg.NewAlterReplicaLogDirsResponseTopic()
			t.Topic = topic.Topic
			for _, partition := range topic.Partitions {
				p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				p.Partition, p.ErrorCode = partition, kerr.RequestTimedOut.Code
				t.Partitions = append(t.Partitions, p)
			}
			out.Topics = append(out.Topics, t)
		}
	}
	return out
}

func unavailableDescribeQuorum(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDescribeQuorumResponse()
	out.ErrorCode, out.ErrorMessage = kerr.RequestTimedOut.Code, kmsg.StringPtr(unavailableMessage)
	return out
}

func unavailableUpdateFeatures(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrUpdateFeaturesResponse()
	out.ErrorCode, out.ErrorMessage = kerr.NotController.Code, kmsg.StringPtr(unavailableMessage)
	return out
}

func unavailableUnregisterBroker(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrUnregisterBrokerResponse()
	out.ErrorCode, out.ErrorMessage = kerr.RequestTimedOut.Code, kmsg.StringPtr(unavailableMessage)
	return out
}

func unavailableListConfigResources(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrListConfigResourcesResponse()
	out.ErrorCode = kerr.RequestTimedOut.Code
	return out
}

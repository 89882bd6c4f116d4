package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// AlterPartitionReassignments, key 45, versions 0-1 (KIP-455). All are flexible.
//
//	1  may ask that the replication factor stays (KIP-860)
//
// There is nothing to move: any agent serves any partition. Assignments are checked for form, as when topics are
// created, and are done at once; cancelling finds nothing under way.

func (c *call) alterPartitionAssignments(_ context.Context, in *kmsg.AlterPartitionAssignmentsRequest) (*kmsg.AlterPartitionAssignmentsResponse, error) {
	out := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	out.AllowReplicationFactorChange = in.AllowReplicationFactorChange
	_, err := c.owner.Read(func(s *metadata.State) {
		view := viewOf(s, c.forward)
		for _, t := range in.Topics {
			topic, _ := s.TopicByName(t.Topic)
			answer := kmsg.NewAlterPartitionAssignmentsResponseTopic()
			answer.Topic = t.Topic
			for _, p := range t.Partitions {
				fault := reassign(&view, topic, t.Topic, p, in.AllowReplicationFactorChange)
				partition := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
				partition.Partition, partition.ErrorCode, partition.ErrorMessage = p.Partition, fault.code(), fault.text()
				answer.Partitions = append(answer.Partitions, partition)
			}
			out.Topics = append(out.Topics, answer)
		}
	})
	return out, err
}

// reassign checks one partition's new replicas (ReplicationControlManager.alterPartitionReassignment).
func reassign(v *clientView, topic *metadata.Topic, name string, p kmsg.AlterPartitionAssignmentsRequestTopicPartition, otherFactor bool) *apiError {
	switch {
	case topic == nil:
		return failed(kerr.UnknownTopicOrPartition, "Unable to find a topic named "+name+".")
	case p.Partition < 0 || p.Partition >= topic.Partitions:
		return failed(kerr.UnknownTopicOrPartition, fmt.Sprintf("Unable to find partition %s:%d.", name, p.Partition))
	case p.Replicas == nil:
		return plain(kerr.NoReassignmentInProgress)
	}
	if fault := checkReplicas(p.Replicas, len(p.Replicas)); fault != nil {
		return fault
	}
	if now := v.factor(); !otherFactor && len(p.Replicas) != now {
		return failed(kerr.InvalidReplicationFactor, fmt.Sprintf("The replication factor is changed from %d to %d", now, len(p.Replicas)))
	}
	return nil
}

package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata"
)

// AlterPartitionReassignments, key 45, versions 0-1 (KIP-455). All are flexible.
//
//	1  may ask that the replication factor stays (KIP-860)
//
// Any agent serves any partition, so nothing moves: a checked assignment is done at once, and there is none to cancel. An assignment of all
// partitions of a topic may change their number of replicas, and so the topic's replication factor.

func (c *call) alterPartitionAssignments(ctx context.Context, in *kmsg.AlterPartitionAssignmentsRequest) (*kmsg.AlterPartitionAssignmentsResponse, error) {
	out := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	out.AllowReplicationFactorChange = in.AllowReplicationFactorChange
	err := c.change(ctx, func() error {
		var commands []metadata.Command
		var places []int // in the answer, by command
		_, err := c.owner.Read(func(s *metadata.State) {
			view, nodes := viewOf(s, c.forward), nodesAt(s, c.forward.Listener)
			for i, t := range in.Topics {
				r := reassignment{name: t.Topic, nodes: nodes, otherFactor: in.AllowReplicationFactorChange}
				if topic, ok := s.TopicByName(t.Topic); ok {
					r.topic, r.shown = topic, view.replicas(topic)
					r.factor = r.newFactor(t.Partitions)
				}
				answer := kmsg.NewAlterPartitionAssignmentsResponseTopic()
				answer.Topic = t.Topic
				sound := true
				for _, p := range t.Partitions {
					fault := r.check(p)
					sound = sound && fault == nil
					partition := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
					partition.Partition, partition.ErrorCode, partition.ErrorMessage = p.Partition, fault.code(), fault.text()
					answer.Partitions = append(answer.Partitions, partition)
				}
				out.Topics = append(out.Topics, answer)
				if sound && r.topic != nil && r.factor != int(r.topic.ReplicationFactor) {
					commands, places = append(commands, &metadata.SetReplicationFactor{ID: r.topic.ID, Factor: int16(r.factor)}), append(places, i)
				}
			}
		})
		if err != nil || len(commands) == 0 {
			return err
		}
		results, err := c.propose(ctx, commands...)
		for i, r := range results {
			fault := commandError(r.Err)
			for k := range out.Topics[places[i]].Partitions {
				p := &out.Topics[places[i]].Partitions[k]
				p.ErrorCode, p.ErrorMessage = fault.code(), fault.text()
			}
		}
		return err
	})
	return out, err
}

// reassignment is the part of a request about one topic.
type reassignment struct {
	name        string
	topic       *metadata.Topic // nil if there is none
	shown       assign.Replicas // to the client
	factor      int             // replication factor afterwards
	nodes       int             // of the cluster
	otherFactor bool            // whether the request may change the factor
}

// newFactor returns the replication factor after the reassignment. The factor changes if the request names every partition, with the
// same number of replicas.
func (r *reassignment) newFactor(partitions []kmsg.AlterPartitionAssignmentsRequestTopicPartition) int {
	now, named := int(r.topic.ReplicationFactor), map[int32]bool{}
	for _, p := range partitions {
		if p.Partition < 0 || p.Partition >= r.topic.Partitions || len(p.Replicas) != len(partitions[0].Replicas) || r.stays(p) {
			return now
		}
		named[p.Partition] = true
	}
	if len(named) == 0 || len(named) != len(partitions) || len(named) != int(r.topic.Partitions) {
		return now
	}
	return len(partitions[0].Replicas)
}

// stays reports whether a partition keeps its number of replicas: the factor, or the replicas that DescribeTopicPartitions shows, which
// are fewer in a view with fewer nodes.
func (r *reassignment) stays(p kmsg.AlterPartitionAssignmentsRequestTopicPartition) bool {
	factor, shown := int(r.topic.ReplicationFactor), r.shown.Of(p.Partition)
	return len(p.Replicas) == factor ||
		slices.Equal(slices.Sorted(slices.Values(p.Replicas)), slices.Sorted(slices.Values(shown[:min(factor, len(shown))])))
}

// check checks one partition's new replicas (ReplicationControlManager.alterPartitionReassignment).
func (r *reassignment) check(p kmsg.AlterPartitionAssignmentsRequestTopicPartition) *apiError {
	switch {
	case r.topic == nil:
		return failed(kerr.UnknownTopicOrPartition, "Unable to find a topic named "+r.name+".")
	case p.Partition < 0 || p.Partition >= r.topic.Partitions:
		return failed(kerr.UnknownTopicOrPartition, fmt.Sprintf("Unable to find partition %s:%d.", r.name, p.Partition))
	case p.Replicas == nil:
		return plain(kerr.NoReassignmentInProgress)
	}
	if fault := checkReplicas(p.Replicas, len(p.Replicas)); fault != nil {
		return fault
	}
	switch now := int(r.topic.ReplicationFactor); {
	case r.stays(p):
		return nil
	case !r.otherFactor:
		return failed(kerr.InvalidReplicationFactor, fmt.Sprintf("The replication factor is changed from %d to %d", now, len(p.Replicas)))
	case len(p.Replicas) != r.factor:
		return failed(kerr.InvalidReplicationFactor, fmt.Sprintf("All partitions of topic %s have replication factor %d. A change must name "+
			"all of them with the same number of replicas.", r.name, now))
	}
	return checkFactor(r.factor, r.nodes)
}

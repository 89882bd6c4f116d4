package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/session"
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
		err := c.read(func(s *metadata.State) error {
			size := session.AnswerOf(ctx)
			view, nodes, named := viewOf(s, c.forward), nodesAt(s, c.forward.Listener), map[string]bool{}
			for i, t := range in.Topics {
				r := reassignment{name: t.Topic, twice: named[t.Topic], nodes: nodes, otherFactor: in.AllowReplicationFactorChange}
				named[t.Topic] = true
				if topic, ok := s.TopicByName(t.Topic); ok {
					r.topic, r.factor = topic, int(topic.ReplicationFactor)
					r.shown = view.shownReplicas(topic)
					r.wanted = r.newFactor(t.Partitions)
				}
				answer, err := r.answer(t.Partitions, size)
				if err != nil {
					return err
				}
				out.Topics = append(out.Topics, answer)
				if r.wanted != r.factor && answer.Partitions[0].ErrorCode == 0 {
					commands, places = append(commands, &metadata.SetReplicationFactor{ID: r.topic.ID, Factor: int16(r.wanted)}), append(places, i)
				}
			}
			return nil
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
	twice       bool            // whether the request has named the topic before
	topic       *metadata.Topic // nil if there is none
	factor      int             // the topic's replication factor
	wanted      int             // the topic's replication factor afterwards
	shown       int             // replicas of a partition that DescribeTopicPartitions shows: fewer than the factor if the view has fewer nodes
	nodes       int             // of the cluster
	otherFactor bool            // whether the request may change the factor
}

// newFactor returns the replication factor after the reassignment. The factor changes if the request names every partition once, with the
// same number of replicas.
func (r *reassignment) newFactor(partitions []kmsg.AlterPartitionAssignmentsRequestTopicPartition) int {
	named := map[int32]bool{}
	for _, p := range partitions {
		if p.Partition < 0 || p.Partition >= r.topic.Partitions || len(p.Replicas) != len(partitions[0].Replicas) {
			return r.factor
		}
		named[p.Partition] = true
	}
	if len(named) == 0 || len(named) != len(partitions) || len(named) != int(r.topic.Partitions) || r.stays(partitions[0].Replicas) {
		return r.factor
	}
	return len(partitions[0].Replicas)
}

// stays reports whether a partition with these replicas keeps its number of replicas.
func (r *reassignment) stays(replicas []int32) bool {
	return len(replicas) == r.factor || len(replicas) == r.shown
}

// answer checks every partition. A fault of one refuses a change of the factor for all. size counts the names and messages.
func (r *reassignment) answer(
	partitions []kmsg.AlterPartitionAssignmentsRequestTopicPartition, size *session.Answer,
) (kmsg.AlterPartitionAssignmentsResponseTopic, error) {
	out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
	out.Topic = r.name
	faults, refused := make([]*apiError, len(partitions)), false
	for i, p := range partitions {
		faults[i] = r.check(p)
		if err := size.Add(faults[i].bytes()); err != nil {
			return out, err
		}
		refused = refused || faults[i] != nil
	}
	for i, p := range partitions {
		if refused && r.wanted != r.factor && faults[i] == nil {
			faults[i] = failed(kerr.InvalidReplicationFactor, "The replication factor stays, since another partition of the topic was refused.")
		}
		partition := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
		partition.Partition, partition.ErrorCode, partition.ErrorMessage = p.Partition, faults[i].code(), faults[i].text()
		out.Partitions = append(out.Partitions, partition)
	}
	return out, nil
}

// check checks one partition's new replicas (ReplicationControlManager.alterPartitionReassignment).
func (r *reassignment) check(p kmsg.AlterPartitionAssignmentsRequestTopicPartition) *apiError {
	switch {
	case r.topic == nil:
		return failed(kerr.UnknownTopicOrPartition, "Unable to find a topic named "+r.name+".")
	case r.twice:
		return failed(kerr.InvalidRequest, "Duplicate topic name.")
	case p.Partition < 0 || p.Partition >= r.topic.Partitions:
		return failed(kerr.UnknownTopicOrPartition, fmt.Sprintf("Unable to find partition %s:%d.", r.name, p.Partition))
	case p.Replicas == nil:
		return plain(kerr.NoReassignmentInProgress)
	}
	if fault := checkReplicas(p.Replicas, len(p.Replicas)); fault != nil {
		return fault
	}
	switch {
	case r.stays(p.Replicas):
		return nil
	case !r.otherFactor:
		return failed(kerr.InvalidReplicationFactor, fmt.Sprintf("The replication factor is changed from %d to %d", r.factor, len(p.Replicas)))
	case len(p.Replicas) != r.wanted:
		return failed(kerr.InvalidReplicationFactor, fmt.Sprintf("All partitions of topic %s have replication factor %d. A change must name "+
			"all of them with the same number of replicas.", r.name, r.factor))
	}
	return checkFactor(r.wanted, r.nodes)
}

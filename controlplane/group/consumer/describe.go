package consumer

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata/id"
)

// Member types of ConsumerGroupDescribe v1.
const (
	memberTypeClassic  int8 = 0
	memberTypeConsumer int8 = 1
)

// Describe returns the group's entry of a ConsumerGroupDescribe response, with the members in the order of their ids. Deleted
// topics are left out. (ConsumerGroup.asDescribedGroup)
func (g *Group) Describe(cat Catalogue) kmsg.ConsumerGroupDescribeResponseGroup {
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	out.Group, out.State, out.Epoch, out.AssignmentEpoch = g.id, g.State(), g.epoch, g.assignmentEpoch
	out.AssignorName = g.preferredAssignor()
	out.Members = []kmsg.ConsumerGroupDescribeResponseGroupMember{}
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		out.Members = append(out.Members, g.members[name].describe(cat))
	}
	return out
}

func (m *member) describe(cat Catalogue) kmsg.ConsumerGroupDescribeResponseGroupMember {
	out := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	out.MemberID, out.MemberEpoch, out.ClientID, out.ClientHost = m.id, m.epoch, m.clientID, m.clientHost
	out.InstanceID, out.RackID = optional(m.instance), optional(m.rack)
	out.SubscribedTopics, out.SubscribedTopicRegex = append([]string{}, m.topics...), &m.regex
	owned := append(m.assigned.sorted(), m.revoking.sorted()...)
	slices.SortFunc(owned, id.TopicPartition.Compare)
	out.Assignment, out.TargetAssignment = describePartitions(owned, cat), describePartitions(m.target, cat)
	out.MemberType = memberTypeConsumer
	if m.classic != nil {
		out.MemberType = memberTypeClassic
	}
	return out
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func describePartitions(partitions []id.TopicPartition, cat Catalogue) kmsg.Assignment {
	out := kmsg.Assignment{TopicPartitions: []kmsg.AssignmentTopicPartition{}}
	byTopic(partitions, func(t id.Topic, numbers []int32) {
		if name, ok := cat.TopicName(t); ok {
			out.TopicPartitions = append(out.TopicPartitions,
				kmsg.AssignmentTopicPartition{TopicID: t, Topic: name, Partitions: numbers})
		}
	})
	return out
}

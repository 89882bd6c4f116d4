package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// OffsetDelete, key 47, version 0 (KIP-496). Offsets of topics that a member subscribes to stay. Those that a
// transaction has pending go too. An error of the group comes before those of partitions
// (KafkaApis.handleOffsetDeleteRequest, OffsetDeleteResponse.Builder.merge).

func (c *call) offsetDelete(in *kmsg.OffsetDeleteRequest) {
	topics := c.topics.Load()
	var all items
	for i := range in.Topics {
		t := &in.Topics[i]
		for _, p := range t.Partitions {
			x := offsetItem{topic: t.Topic, commit: metadata.OffsetCommit{Partition: id.TopicPartition{Partition: p.Partition}}}
			x.resolve(topics, false, p.Partition)
			all = append(all, x)
		}
	}
	if in.Group == "" {
		c.refuseOffsetDelete(kerr.InvalidGroupID.Code)
		return
	}
	c.with(in.Group, func(g *group, _ time.Time) step.Step {
		if code := g.checkDeleteOffsets(); code != 0 {
			return step.Step{Answers: []func(){func() { c.refuseOffsetDelete(code) }}}
		}
		cmd := &metadata.DeleteOffsets{Group: in.Group}
		for i := range all {
			x := &all[i]
			switch {
			case x.early:
			case g.subscribed(x.topic):
				x.code = kerr.GroupSubscribedToTopic.Code
			default:
				cmd.Partitions = append(cmd.Partitions, x.partition)
			}
		}
		if len(cmd.Partitions) == 0 {
			return step.Step{Answers: []func(){func() { c.answer(offsetDeleteAnswer(all)) }}}
		}
		if err := c.enqueue(cmd, c.offsetsDeleted(all)); err != nil {
			c.fail(err)
		}
		return step.Step{}
	})
}

// offsetsDeleted takes the outcome of the command. A group or partition that went meanwhile has no
// offset either.
func (c *call) offsetsDeleted(all items) func(metadata.Result, error) {
	return func(_ metadata.Result, err error) {
		if err != nil {
			c.fail(err)
			return
		}
		c.answer(offsetDeleteAnswer(all))
	}
}

func (c *call) refuseOffsetDelete(code int16) {
	out := kmsg.NewPtrOffsetDeleteResponse()
	out.ErrorCode = code
	c.answer(out)
}

// checkDeleteOffsets tells whether offsets of the group may be deleted.
func (g *group) checkDeleteOffsets() int16 {
	switch {
	case !g.stored():
		return kerr.GroupIDNotFound.Code
	case g.consumer != nil:
		return 0
	default:
		return g.classic.CheckDeleteOffsets()
	}
}

func offsetDeleteAnswer(all items) *kmsg.OffsetDeleteResponse {
	out := kmsg.NewPtrOffsetDeleteResponse()
	places := map[string]int{}
	all.inAnswerOrder(func(x *offsetItem) {
		at, ok := places[x.topic]
		if !ok {
			at = len(out.Topics)
			places[x.topic] = at
			t := kmsg.NewOffsetDeleteResponseTopic()
			t.Topic = x.topic
			out.Topics = append(out.Topics, t)
		}
		p := kmsg.NewOffsetDeleteResponseTopicPartition()
		p.Partition, p.ErrorCode = x.commit.Partition.Partition, x.code
		out.Topics[at].Partitions = append(out.Topics[at].Partitions, p)
	})
	return out
}

package group

import (
	"cmp"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// OffsetFetch, key 9, versions 1-10.
//
//	2   has an error code, and null for all topics
//	5   has leader epochs
//	6   is flexible
//	7   can require stable offsets (KIP-447)
//	8   has several groups
//	9   names the member (KIP-848)
//	10  has topic ids
//
// A partition of which a transaction has an offset pending is UNSTABLE_OFFSET_COMMIT where stable ones are required.
// A commit that was enqueued before the request may not be applied yet. Its client has no answer yet either.

const (
	fetchGroupsSince   = 8
	fetchTopicIDsSince = 10
)

func (c *call) offsetFetch(in *kmsg.OffsetFetchRequest) {
	out := kmsg.NewPtrOffsetFetchResponse()
	if in.Version >= fetchGroupsSince {
		if err := c.fetchGroups(in, out); err != nil {
			c.fail(err)
			return
		}
		c.answer(out)
		return
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = in.Group
	if in.Topics != nil {
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range in.Topics {
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = t.Topic, t.Partitions
		one.Topics = append(one.Topics, topic)
	}
	g, err := c.fetchGroup(&one, in.RequireStable, false, session.AnswerOf(c.ctx), make(map[string][]kmsg.OffsetFetchResponseGroupTopic))
	if err != nil {
		c.fail(err)
		return
	}
	out.ErrorCode = g.ErrorCode
	for _, t := range g.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewOffsetFetchResponseTopicPartition()
			partition.Partition, partition.Offset, partition.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			partition.Metadata, partition.ErrorCode = p.Metadata, p.ErrorCode
			topic.Partitions = append(topic.Partitions, partition)
		}
		out.Topics = append(out.Topics, topic)
	}
	c.answer(out)
}

// fetchGroups answers for several groups. All offsets of a group are read once, however often the request asks for them.
func (c *call) fetchGroups(in *kmsg.OffsetFetchRequest, out *kmsg.OffsetFetchResponse) error {
	size := session.AnswerOf(c.ctx)
	known := make(map[string][]kmsg.OffsetFetchResponseGroupTopic)
	for i := range in.Groups {
		g := &in.Groups[i]
		answer, err := c.fetchGroup(g, in.RequireStable, in.Version >= fetchTopicIDsSince, size, known)
		if err != nil {
			return err
		}
		out.Groups = append(out.Groups, answer)
	}
	return nil
}

// fetchGroup answers for one group, whose bytes it adds to size. known has all offsets of groups that were read before, by name.
func (c *call) fetchGroup(
	in *kmsg.OffsetFetchRequestGroup, stable, byID bool, size *session.Answer, known map[string][]kmsg.OffsetFetchResponseGroupTopic,
) (kmsg.OffsetFetchResponseGroup, error) {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = in.Group
	if err := size.Add(answerField + len(in.Group)); err != nil {
		return out, err
	}
	var readErr error
	err := c.Coordinator.with(in.Group, func(g *group) step.Step {
		if out.ErrorCode = checkFetch(g, in); out.ErrorCode != 0 {
			return step.Step{}
		}
		if topics, read := known[in.Group]; read && in.Topics == nil {
			out.Topics = topics
			readErr = size.Add(sizeOfOffsets(topics))
			return step.Step{}
		}
		f := fetch{group: in.Group, stable: stable, byID: byID, topics: c.topics.Load(), size: size}
		var tooLarge error
		_, readErr = c.owner.Read(func(s *metadata.State) {
			f.state = s
			if in.Topics == nil {
				out.Topics, tooLarge = f.all()
				known[in.Group] = out.Topics
			} else {
				out.Topics, tooLarge = f.named(in.Topics)
			}
		})
		readErr = cmp.Or(tooLarge, readErr)
		return step.Step{}
	})
	return out, errors.Join(err, readErr)
}

// checkFetch asks the group (OffsetMetadataManager.validateOffsetFetch). A group that does not exist has no offsets.
func checkFetch(g *group, in *kmsg.OffsetFetchRequestGroup) int16 {
	if g.consumer != nil && g.consumer.Stored() {
		return g.consumer.CheckFetch(in.MemberID, in.MemberEpoch)
	}
	if g.stored() {
		if code := g.classic.CheckFetch(); code != kerr.GroupIDNotFound.Code {
			return code
		}
	}
	return 0
}

// fetch reads one group's offsets at one index of the state.
type fetch struct {
	state  *metadata.State
	topics *catalogue
	group  string
	stable bool
	byID   bool
	size   *session.Answer
}

// named returns the partitions asked for. Its error is that of session.Answer.Add.
func (f *fetch) named(in []kmsg.OffsetFetchRequestGroupTopic) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	out := make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(in))
	for i := range in {
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic, t.TopicID = in[i].Topic, in[i].TopicID
		topic, known := id.Topic(in[i].TopicID), true
		if f.byID {
			_, known = f.topics.TopicName(topic)
		} else {
			topic, _, _ = f.topics.Topic(in[i].Topic)
		}
		if err := f.size.Add(answerField + len(in[i].Topic)); err != nil {
			return nil, err
		}
		for _, n := range in[i].Partitions {
			p := f.partition(id.TopicPartition{Topic: topic, Partition: n})
			if !known {
				p.ErrorCode = kerr.UnknownTopicID.Code
			}
			if err := f.size.Add(sizeOfOffset(&p)); err != nil {
				return nil, err
			}
			t.Partitions = append(t.Partitions, p)
		}
		out = append(out, t)
	}
	return out, nil
}

// partition gives one partition's offset, -1 if there is none.
func (f *fetch) partition(tp id.TopicPartition) kmsg.OffsetFetchResponseGroupTopicPartition {
	if f.unstable(tp) {
		return unstableOffset(tp.Partition)
	}
	o, ok := f.state.Offset(f.group, tp)
	if !ok {
		return noOffset(tp.Partition)
	}
	return storedOffset(tp.Partition, o)
}

// all returns every offset of the group. Its error is that of session.Answer.Add.
func (f *fetch) all() (out []kmsg.OffsetFetchResponseGroupTopic, err error) {
	var last id.Topic
	for tp, o := range f.state.Offsets(f.group) {
		name, ok := f.topics.TopicName(tp.Topic)
		if !ok {
			continue // came or went just now
		}
		if len(out) == 0 || tp.Topic != last {
			last = tp.Topic
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic, t.TopicID = name, tp.Topic
			if err := f.size.Add(answerField + len(name)); err != nil {
				return nil, err
			}
			out = append(out, t)
		}
		p := storedOffset(tp.Partition, o)
		if f.unstable(tp) {
			p = unstableOffset(tp.Partition)
		}
		if err := f.size.Add(sizeOfOffset(&p)); err != nil {
			return nil, err
		}
		t := &out[len(out)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return out, nil
}

func (f *fetch) unstable(tp id.TopicPartition) bool {
	return f.stable && f.state.PendingOffset(f.group, tp)
}

func noOffset(n int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = n, -1, -1, kmsg.StringPtr("")
	return p
}

func unstableOffset(n int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := noOffset(n)
	p.ErrorCode = kerr.UnstableOffsetCommit.Code
	return p
}

func storedOffset(n int32, o metadata.Offset) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = n, o.Offset, o.LeaderEpoch, kmsg.StringPtr(o.Metadata)
	return p
}

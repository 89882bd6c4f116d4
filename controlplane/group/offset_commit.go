package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/consumer"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// OffsetCommit, key 8, versions 2-10.
//
//	2-4  have a retention time
//	6    has leader epochs
//	7    has static members (KIP-345)
//	8    is flexible
//	9    is for consumer groups too (KIP-848); an unknown group is GROUP_ID_NOT_FOUND, before ILLEGAL_GENERATION
//	10   has topic ids
//
// The empty group id is a group like others here, as in Kafka. Clients without membership commit with generation -1.

// Versions that change something.
const (
	commitNotFoundSince = 9
	commitTopicIDsSince = 10
)

func (c *call) offsetCommit(in *kmsg.OffsetCommitRequest) {
	byID := in.Version >= commitTopicIDsSince
	expires := int64(-1)
	if in.RetentionTimeMillis >= 0 {
		expires = time.Now().UnixMilli() + in.RetentionTimeMillis
	}
	topics := c.topics.Load()
	var all items
	for i := range in.Topics {
		t := &in.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			x := offsetItem{topic: t.Topic, topicID: t.TopicID, commit: metadata.OffsetCommit{
				Partition: id.TopicPartition{Partition: p.Partition}, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
				Metadata: text(p.Metadata), ExpiresMs: expires,
			}}
			x.resolve(topics, byID, p.Partition)
			all = append(all, x)
		}
	}
	c.commitOffsets(in.Group, all, nil, func(g *group, now time.Time) verdict { return checkOffsetCommit(g, now, in) },
		func() { c.answer(offsetCommitAnswer(all, byID)) })
}

// text is a nullable string's value; Kafka stores no difference.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// checkOffsetCommit asks the group (OffsetMetadataManager.validateOffsetCommit).
func checkOffsetCommit(g *group, now time.Time, in *kmsg.OffsetCommitRequest) verdict {
	switch {
	case g.consumer != nil && g.consumer.Stored():
		check, code := g.consumer.CheckCommit(consumer.Commit{
			Member: in.MemberID, Instance: in.InstanceID, Epoch: in.Generation, Version: in.Version,
		})
		return verdict{code, check}
	case g.stored():
		return verdict{code: g.classic.CheckCommit(now, in.MemberID, in.InstanceID, in.Generation)}
	case in.Generation < 0:
		return verdict{} // nobody's group yet: the commit makes it one of offsets only
	case in.Version >= commitNotFoundSince:
		return verdict{code: kerr.GroupIDNotFound.Code}
	default:
		return verdict{code: kerr.IllegalGeneration.Code}
	}
}

func offsetCommitAnswer(all items, byID bool) *kmsg.OffsetCommitResponse {
	out := kmsg.NewPtrOffsetCommitResponse()
	places := map[string]int{}
	all.inAnswerOrder(func(x *offsetItem) {
		key := x.topic
		if byID {
			key = string(x.topicID[:])
		}
		at, ok := places[key]
		if !ok {
			at = len(out.Topics)
			places[key] = at
			t := kmsg.NewOffsetCommitResponseTopic()
			t.Topic, t.TopicID = x.topic, x.topicID
			out.Topics = append(out.Topics, t)
		}
		p := kmsg.NewOffsetCommitResponseTopicPartition()
		p.Partition, p.ErrorCode = x.commit.Partition.Partition, x.code
		out.Topics[at].Partitions = append(out.Topics[at].Partitions, p)
	})
	return out
}

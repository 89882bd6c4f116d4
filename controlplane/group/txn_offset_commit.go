package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/consumer"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// TxnOffsetCommit, key 28, versions 0-6.
//
//	2  has leader epochs
//	3  is flexible, and names the member (KIP-447)
//	5  begins the transaction or makes the group part of it (protocol 2, KIP-890)
//	6  has topic ids, and the errors GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)
//
// The group is checked here, the transaction where the command is applied. The offsets are pending until it ends.

// Versions that change something.
const (
	txnProtocolTwoSince    = 5
	txnCommitTopicIDsSince = 6
)

func (c *call) txnOffsetCommit(in *kmsg.TxnOffsetCommitRequest) {
	txn := &metadata.TransactionRef{
		TransactionalID: in.TransactionalID, ProducerID: in.ProducerID, Epoch: in.ProducerEpoch,
		Version: metadata.ProtocolOne, AsOf: c.forward.AsOf,
	}
	if in.Version >= txnProtocolTwoSince {
		txn.Version = metadata.ProtocolTwo
	}
	byID := in.Version >= txnCommitTopicIDsSince
	topics := c.topics.Load()
	var all items
	for i := range in.Topics {
		t := &in.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			x := offsetItem{topic: t.Topic, topicID: t.TopicID, commit: metadata.OffsetCommit{
				Partition: id.TopicPartition{Partition: p.Partition}, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
				Metadata: text(p.Metadata), ExpiresMs: -1,
			}}
			x.resolve(topics, byID, p.Partition)
			all = append(all, x)
		}
	}
	answer := func() { c.answer(txnOffsetCommitAnswer(all, byID)) }
	if in.Group == "" {
		all.decide(kerr.InvalidGroupID.Code)
		answer()
		return
	}
	c.commitOffsets(in.Group, all, txn, func(g *group, _ time.Time) verdict { return checkTxnOffsetCommit(g, in) }, answer)
}

// checkTxnOffsetCommit asks the group (OffsetMetadataManager.validateTransactionalOffsetCommit).
func checkTxnOffsetCommit(g *group, in *kmsg.TxnOffsetCommitRequest) verdict {
	switch {
	case g.consumer != nil && g.consumer.Stored():
		check, code := g.consumer.CheckCommit(consumer.Commit{
			Member: in.MemberID, Instance: in.InstanceID, Epoch: in.Generation, Version: in.Version, Transactional: true,
		})
		return verdict{code, check}
	case g.stored():
		return verdict{code: g.classic.CheckTxnCommit(in.MemberID, in.InstanceID, in.Generation)}
	case in.Generation < 0:
		return verdict{}
	case in.Version >= consumer.TxnErrorsSince:
		return verdict{code: kerr.GroupIDNotFound.Code}
	default:
		return verdict{code: kerr.IllegalGeneration.Code}
	}
}

func txnOffsetCommitAnswer(all items, byID bool) *kmsg.TxnOffsetCommitResponse {
	out := kmsg.NewPtrTxnOffsetCommitResponse()
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
			t := kmsg.NewTxnOffsetCommitResponseTopic()
			t.Topic, t.TopicID = x.topic, x.topicID
			out.Topics = append(out.Topics, t)
		}
		p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
		p.Partition, p.ErrorCode = x.commit.Partition.Partition, x.code
		out.Topics[at].Partitions = append(out.Topics[at].Partitions, p)
	})
	return out
}

package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/consumer"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// TxnOffsetCommit, key 28, versions 0-5.
//
//	2  has leader epochs
//	3  is flexible, and names the member (KIP-447)
//	5  begins the transaction or makes the group part of it (protocol 2, KIP-890)
//
// The group is checked here, the transaction where the command is applied. The offsets are pending until it ends.

// txnProtocolTwoSince is the first version of transactions of protocol 2.
const txnProtocolTwoSince = 5

func (c *call) txnOffsetCommit(in *kmsg.TxnOffsetCommitRequest) {
	txn := &metadata.TransactionRef{
		TransactionalID: in.TransactionalID, ProducerID: in.ProducerID, Epoch: in.ProducerEpoch,
		Version: metadata.ProtocolOne, AsOf: c.forward.AsOf,
	}
	if in.Version >= txnProtocolTwoSince {
		txn.Version = metadata.ProtocolTwo
	}
	topics := c.topics.Load()
	var all items
	for i := range in.Topics {
		t := &in.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			x := offsetItem{topic: t.Topic, commit: metadata.OffsetCommit{
				Partition: id.TopicPartition{Partition: p.Partition}, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch,
				Metadata: text(p.Metadata), ExpiresMs: -1,
			}}
			x.resolve(topics, false, p.Partition)
			all = append(all, x)
		}
	}
	answer := func() { c.answer(txnOffsetCommitAnswer(all)) }
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
	default:
		return verdict{code: kerr.IllegalGeneration.Code}
	}
}

func txnOffsetCommitAnswer(all items) *kmsg.TxnOffsetCommitResponse {
	out := kmsg.NewPtrTxnOffsetCommitResponse()
	places := map[string]int{}
	all.inAnswerOrder(func(x *offsetItem) {
		at, ok := places[x.topic]
		if !ok {
			at = len(out.Topics)
			places[x.topic] = at
			t := kmsg.NewTxnOffsetCommitResponseTopic()
			t.Topic = x.topic
			out.Topics = append(out.Topics, t)
		}
		p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
		p.Partition, p.ErrorCode = x.commit.Partition.Partition, x.code
		out.Topics[at].Partitions = append(out.Topics[at].Partitions, p)
	})
	return out
}

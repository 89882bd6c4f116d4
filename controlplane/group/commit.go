package group

import (
	"errors"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// offsetItem is one partition of a request that commits or deletes offsets.
type offsetItem struct {
	topic     string
	topicID   id.Topic // as the request has it; zero if it names the topic
	partition id.TopicPartition
	commit    metadata.OffsetCommit
	code      int16
	early     bool // code was decided before the group was asked: Kafka's broker puts these first
}

// items are a request's partitions in its order.
type items []offsetItem

// refuse decides an item before the group is asked.
func (x *offsetItem) refuse(code int16) { x.code, x.early = code, true }

// resolve finds an item's partition as the broker does before it asks the coordinator (KafkaApis.handleOffsetCommit).
func (x *offsetItem) resolve(topics *catalogue, byID bool, n int32) {
	if byID {
		name, ok := topics.TopicName(x.topicID)
		if !ok {
			x.refuse(kerr.UnknownTopicID.Code)
			return
		}
		x.topic = name
	}
	tp, ok := topics.partition(x.topic, n)
	if !ok {
		x.refuse(kerr.UnknownTopicOrPartition.Code)
		return
	}
	x.partition = tp
}

// undecided tells whether there is an item to ask the group for.
func (all items) undecided() bool {
	for i := range all {
		if !all[i].early {
			return true
		}
	}
	return false
}

// decide gives every item that was not refused early a code.
func (all items) decide(code int16) {
	for i := range all {
		if !all[i].early {
			all[i].code = code
		}
	}
}

// inAnswerOrder visits the items in the order of Kafka's answers: those refused early, then the others.
func (all items) inAnswerOrder(visit func(x *offsetItem)) {
	for _, early := range []bool{true, false} {
		for i := range all {
			if all[i].early == early {
				visit(&all[i])
			}
		}
	}
}

// verdict is what a group says of a commit: a code for all of it, or a check of each partition.
type verdict struct {
	code  int16
	check func(id.TopicPartition) int16 // nil if all may
}

// commitOffsets has a group check the items, logs those that may be committed, and calls answer when every item has its
// code. check is called with the group's mutex held.
func (c *call) commitOffsets(name string, all items, txn *metadata.TransactionRef, check func(*group, time.Time) verdict, answer func()) {
	if !all.undecided() {
		answer()
		return
	}
	c.with(name, func(g *group, now time.Time) step.Step {
		v := check(g, now)
		cmd := &metadata.CommitOffsets{Group: name, Transaction: txn}
		if v.code != 0 {
			all.decide(v.code)
			return c.refuseCommit(g, cmd, all, answer)
		}
		var places []int
		for i := range all {
			if x := &all[i]; !x.early {
				if x.code = c.checkItem(x, v); x.code == 0 {
					cmd.Offsets, places = append(cmd.Offsets, x.commit), append(places, i)
				}
			}
		}
		if len(places) == 0 {
			return c.refuseCommit(g, cmd, all, answer)
		}
		c.logCommit(g, cmd, all, places, answer)
		return step.Step{}
	})
}

// refuseCommit answers a commit of which no offset is taken. In a transaction, the command goes to the log without
// offsets: Kafka asks the transaction before it asks the group, so errors of the transaction come first, and in the
// second protocol the group becomes part of it all the same (CoordinatorRuntime.scheduleTransactionalWriteOperation).
func (c *call) refuseCommit(g *group, cmd *metadata.CommitOffsets, all items, answer func()) step.Step {
	if cmd.Transaction == nil {
		return step.Step{Answers: []func(){answer}}
	}
	c.logCommit(g, cmd, all, nil, answer)
	return step.Step{}
}

func (c *call) checkItem(x *offsetItem, v verdict) int16 {
	x.commit.Partition = x.partition
	if javaLength(x.commit.Metadata) > c.cfg.Settings.OffsetMetadataMaxBytes {
		return kerr.OffsetMetadataTooLarge.Code
	}
	if v.check != nil {
		return v.check(x.partition)
	}
	return 0
}

// javaLength is the length of a string as Java counts it, which is what the bound is on: in UTF-16 units.
func javaLength(s string) int {
	n := 0
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// logCommit hands a commit to the log. It goes by the group's own writes: what these hold up is only their answers.
func (c *call) logCommit(g *group, cmd *metadata.CommitOffsets, all items, places []int, answer func()) {
	refuse := func(code int16) {
		for _, i := range places {
			all[i].code = code
		}
		answer()
	}
	refused := func(err error) {
		switch {
		case errors.Is(err, owner.ErrTooLarge):
			refuse(kerr.InvalidCommitOffsetSize.Code)
		case errors.Is(err, owner.ErrOverloaded):
			refuse(groupLimited.Code)
		default:
			c.fail(err)
		}
	}
	err := c.enqueue(cmd, func(result metadata.Result, err error) {
		g.committed()
		switch {
		case err != nil:
			refused(err)
		case result.Err != nil:
			all.decide(transactionCode(result.Err, c.forward.ApiVersion))
			answer()
		default:
			for k, err := range result.Value.([]error) {
				var limit *metadata.LimitError
				switch {
				case errors.As(err, &limit):
					all[places[k]].code = commitLimited(limit)
				case err != nil:
					all[places[k]].code = kerr.UnknownTopicOrPartition.Code
				}
			}
			c.metrics.committed.Add(float64(len(places)))
			answer()
		}
	})
	if err != nil {
		refused(err)
		return
	}
	g.commits++
}

// committed notes that a commit is through the log.
func (g *group) committed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commits--
	if g.classic != nil && !g.classic.Stored() && g.pipe.idle() && g.classic.Deadline().IsZero() {
		g.classic = nil // it was loaded before there was an offset: now there is a group
	}
	g.leaveIfIdle()
}

// abortableCommitVersion is the TxnOffsetCommit version whose clients abort on TRANSACTION_ABORTABLE; those before know
// INVALID_TXN_STATE only (AddPartitionsToTxnManager.txnOffsetCommitRequestVersionToTransactionSupportedOperation).
const abortableCommitVersion = 4

// transactionCode translates what a TxnOffsetCommit of a version ended in.
func transactionCode(err error, version int32) int16 {
	switch {
	case errors.Is(err, metadata.ErrFencedProducer):
		return kerr.InvalidProducerEpoch.Code
	case errors.Is(err, metadata.ErrUnknownTransaction):
		return kerr.InvalidProducerIDMapping.Code
	case errors.Is(err, metadata.ErrInvalidTransactionState) && version >= abortableCommitVersion,
		errors.Is(err, metadata.ErrTransactionTooLarge) && version >= abortableCommitVersion:
		return kerr.TransactionAbortable.Code
	case errors.Is(err, metadata.ErrTransactionTooLarge):
		return kerr.InvalidCommitOffsetSize.Code
	case errors.Is(err, metadata.ErrInvalidTransactionState):
		return kerr.InvalidTxnState.Code
	default:
		return kerr.UnknownServerError.Code
	}
}

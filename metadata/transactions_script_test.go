package metadata

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// runTransaction runs the commands of transactions; false if it is none of them.
func (w *world) runTransaction(t *testing.T, d *datadriven.TestData) (string, bool) {
	t.Helper()
	var c Command
	switch d.Cmd {
	case "init":
		c = &InitTransaction{
			TransactionalID: arg(d, "id"), TimeoutMs: int32(num(t, d, "timeout", 60_000)), ProducerID: num(t, d, "pid", -1),
			ProducerEpoch: int16(num(t, d, "epoch", -1)),
		}
	case "add":
		c = &AddPartitions{TransactionRef: w.ref(t, d), Partitions: partitionList(t, d)}
	case "add-offsets":
		c = &AddOffsets{TransactionRef: w.ref(t, d), Group: arg(d, "group")}
	case "txn-offsets":
		r := w.ref(t, d)
		c = &CommitOffsets{Group: arg(d, "group"), Transaction: &r, Offsets: []OffsetCommit{{
			Partition: partitionList(t, d)[0], Offset: num(t, d, "offset", 0), LeaderEpoch: -1, ExpiresMs: -1,
		}}}
	case "end":
		c = &EndTransaction{TransactionRef: w.ref(t, d), Commit: d.HasArg("commit")}
	case "write-markers":
		c = &WriteMarkers{
			ProducerID: num(t, d, "pid", 0), Epoch: int16(num(t, d, "epoch", 0)), Commit: d.HasArg("commit"),
			CoordinatorEpoch: int32(num(t, d, "coordinator", 0)), Partitions: partitionList(t, d),
		}
	case "verify":
		r := w.ref(t, d)
		errs, err := w.state.VerifyPartitions(&r, partitionList(t, d))
		return describe(w.state, Result{Value: errs, Err: err}, new(Effects)), true
	case "set-epoch": // so that scripts need not end 32,767 transactions
		return w.setEpoch(t, d), true
	case "show-transactions":
		return w.showTransactions(), true
	case "show-aborted":
		var b strings.Builder
		tp := partitionID(t, d.CmdArgs[0].Key)
		for _, a := range w.state.snapshot().AbortedTransactions(tp, num(t, d, "from", 0), num(t, d, "to", 1<<40)) {
			fmt.Fprintf(&b, "%s\n", describeAborted(a))
		}
		return b.String(), true
	case "show-active":
		return w.showActive(t, d), true
	case "show-offset":
		tp := partitionID(t, d.CmdArgs[0].Key)
		o, ok := w.state.Offset(arg(d, "group"), tp)
		return fmt.Sprintf("%d known %t pending %t\n", o.Offset, ok, w.state.PendingOffset(arg(d, "group"), tp)), true
	default:
		return "", false
	}
	return w.apply(t, c), true
}

// ref reads id, pid, epoch, v2 and as-of; the last is a log index, or "now" if it is missing.
func (w *world) ref(t *testing.T, d *datadriven.TestData) TransactionRef {
	t.Helper()
	r := TransactionRef{
		TransactionalID: arg(d, "id"), ProducerID: num(t, d, "pid", 0), Epoch: int16(num(t, d, "epoch", 0)),
		Version: ProtocolOne, AsOf: uint64(num(t, d, "as-of", int64(w.index))),
	}
	if d.HasArg("v2") {
		r.Version, r.AsOf = ProtocolTwo, 0
	}
	return r
}

func partitionList(t *testing.T, d *datadriven.TestData) (list []id.TopicPartition) {
	t.Helper()
	for _, v := range d.CmdArgs {
		if v.Key == "partitions" {
			for _, p := range v.Vals {
				list = append(list, partitionID(t, p))
			}
		}
	}
	return list
}

// setEpoch changes a transactional id's epoch everywhere, as a long history would have.
func (w *world) setEpoch(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	for _, s := range []*machine{w.state, w.replica} {
		s.changeTransaction(s.transaction(arg(d, "id")), func(x *transaction) { x.epoch = int16(num(t, d, "epoch", 0)) })
	}
	return ""
}

func (w *world) showTransactions() string {
	var b strings.Builder
	for x := range w.state.snapshot().Transactions() {
		fmt.Fprintf(&b, "%s: producer %d epoch %d %s version %d timeout %d started %d updated %d",
			x.TransactionalID, x.ProducerID, x.Epoch, x.State, x.Version, x.TimeoutMs, x.StartedMs, x.UpdatedMs)
		for _, tp := range x.Partitions {
			fmt.Fprintf(&b, " %s/%d", topicName(tp.Topic), tp.Partition)
		}
		fmt.Fprintf(&b, " groups %v\n", x.Groups)
	}
	return b.String()
}

func (w *world) showActive(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	producers, ok := w.state.snapshot().Producers(partitionID(t, d.CmdArgs[0].Key))
	if !ok {
		return "no such partition\n"
	}
	var b strings.Builder
	for p := range producers {
		fmt.Fprintf(&b, "%d epoch %d last sequence %d at %d coordinator %d open since %d\n",
			p.ProducerID, p.Epoch, p.LastSequence, p.LastTimestampMs, p.CoordinatorEpoch, p.TransactionStart)
	}
	return b.String()
}

func describeAborted(a extent.Aborted) string {
	return fmt.Sprintf("aborted %d [%d, %d]", a.ProducerID, a.First, a.Last)
}

func describeMarker(x *extent.Extent) string {
	m, kind := x.EndMarker(), "abort"
	if m.Commit {
		kind = "commit"
	}
	return fmt.Sprintf("{%d %s of %d epoch %d coordinator %d time %d}", x.Base, kind, m.ProducerID, m.Epoch, m.CoordinatorEpoch, x.MaxTimestamp)
}

// describeValue describes the answer of a command of transactions; false if it is none.
func describeValue(b *strings.Builder, v any) bool {
	switch v := v.(type) {
	case InitTransactionResult:
		fmt.Fprintf(b, "producer %d epoch %d\n", v.ProducerID, v.Epoch)
	case EndTransactionResult:
		fmt.Fprintf(b, "producer %d epoch %d\n", v.ProducerID, v.Epoch)
	case []error:
		for _, err := range v {
			if err == nil {
				b.WriteString("ok\n")
			} else {
				fmt.Fprintf(b, "%v\n", err)
			}
		}
	default:
		return false
	}
	return true
}

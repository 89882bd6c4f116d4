package metadata

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// limited is a state with one topic, one transaction and one agent session.
type limited struct {
	*machine
	t   *testing.T
	ref TransactionRef
	tp  id.TopicPartition
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	l := &limited{machine: newMachine(), t: t, tp: id.TopicPartition{Topic: id.Topic{1}}}
	l.apply(&CreateTopic{ID: l.tp.Topic, Name: "t", Partitions: 1000})
	l.apply(&OpenSession{Instance: "a"})
	l.ref = l.transaction("x")
	return l
}

func (l *limited) apply(c Command) Result {
	l.t.Helper()
	return l.Apply(l.index+1, &Batch{Now: 1, Commands: []Command{c}}, nil, nil)[0]
}

func (l *limited) transaction(name string) TransactionRef {
	l.t.Helper()
	r := l.apply(&InitTransaction{TransactionalID: name, TimeoutMs: 1000, ProducerID: -1, ProducerEpoch: -1})
	require.NoError(l.t, r.Err)
	p := r.Value.(InitTransactionResult)
	return TransactionRef{TransactionalID: name, ProducerID: p.ProducerID, Epoch: p.Epoch, Version: ProtocolTwo}
}

func (l *limited) addGroup(name string) error {
	return l.apply(&AddOffsets{TransactionRef: l.ref, Group: name}).Err
}

func (l *limited) commit(ref TransactionRef, group string, partition int32, metadata string) error {
	tp := l.tp
	tp.Partition = partition
	return l.apply(&CommitOffsets{Group: group, Transaction: &ref, Offsets: []OffsetCommit{
		{Partition: tp, LeaderEpoch: -1, Metadata: metadata, ExpiresMs: -1},
	}}).Err
}

func TestApply_BoundsGroupsOfATransaction(t *testing.T) {
	l := newLimited(t)
	for n := range MaxTransactionGroups {
		require.NoError(t, l.addGroup(fmt.Sprint("g", n)))
	}
	require.ErrorIs(t, l.addGroup("one more"), ErrTransactionTooLarge)
	require.ErrorIs(t, l.commit(l.ref, "one more", 0, ""), ErrTransactionTooLarge)
	_, ok := l.Group("one more")
	require.False(t, ok)
	require.NoError(t, l.addGroup("g0"), "is in it")
	require.NoError(t, l.commit(l.ref, "g0", 0, ""))
	require.NoError(t, l.apply(&EndTransaction{TransactionRef: l.ref}).Err)

	l = newLimited(t)
	name := func(n int) string { return fmt.Sprintf("%06d", n) + strings.Repeat("x", 32768-6) }
	for n := range MaxTransactionGroupBytes / 32768 {
		require.NoError(t, l.addGroup(name(n)))
	}
	require.ErrorIs(t, l.addGroup("y"), ErrTransactionTooLarge)
}

func TestApply_BoundsPendingOffsetsOfAGroup(t *testing.T) {
	const each = 1 << 20
	l := newLimited(t)
	note := strings.Repeat("x", each-pendingOverhead)
	for n := range int32(MaxPendingBytes / each) {
		require.NoError(t, l.commit(l.ref, "g", n, note))
	}
	other := l.transaction("y")
	require.ErrorIs(t, l.commit(other, "g", 0, ""), ErrTransactionTooLarge)
	info, _ := l.Transaction("y")
	require.Equal(t, TransactionEmpty, info.State, "a refused commit begins nothing")
	require.NoError(t, l.commit(other, "h", 0, ""), "another group")

	restored := &limited{machine: restore(t, l.machine), t: t, tp: l.tp}
	require.ErrorIs(t, restored.commit(other, "g", 0, ""), ErrTransactionTooLarge)
	requireGroupsTidy(t, restored.machine)
	require.NoError(t, restored.apply(&EndTransaction{TransactionRef: l.ref, Commit: true}).Err)
	require.NoError(t, restored.commit(other, "g", 0, ""), "the end of a transaction makes room")
	requireGroupsTidy(t, restored.machine)
}

func TestApply_BoundsConfigsOfAResource(t *testing.T) {
	set := func(l *limited, resource ConfigResource, key string, bytes int) error {
		return l.apply(&SetConfigs{
			Resource: resource, Topic: l.tp.Topic, Set: map[string]string{key: strings.Repeat("x", bytes-len(key))},
		}).Err
	}
	for _, resource := range []ConfigResource{ConfigBroker, ConfigTopic} {
		l := newLimited(t)
		require.NoError(t, set(l, resource, "k", MaxConfigBytes))
		require.ErrorIs(t, set(l, resource, "l", 1), ErrConfigsTooLarge)
		require.NoError(t, set(l, resource, "k", MaxConfigBytes))
	}
	create := &CreateTopic{ID: id.Topic{2}, Name: "u", Partitions: 1, Configs: map[string]string{"k": strings.Repeat("x", MaxConfigBytes)}}
	require.ErrorIs(t, newLimited(t).apply(create).Err, ErrConfigsTooLarge)
}

// The result of a submission is a record of the snapshot, and can take far more bytes than the commit.
func TestApply_BoundsRunsOfACommit(t *testing.T) {
	wants := map[int]error{MaxCommitRuns + 1: commit.ErrMalformed}
	if nightly.On() { // under the race detector, 12 s
		wants[MaxCommitRuns] = nil
	}
	for runs, want := range wants {
		l := newLimited(t)
		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 1 << 30})
		b.Section(commit.Section{Partition: l.tp})
		for n := range runs {
			b.Batch(commit.Batch{Records: 1, Bytes: commit.MinBatchBytes, MaxTimestamp: -1, ProducerID: 1, BaseSequence: int32(2 * n)})
		}
		r := l.apply(&CommitBundle{Encoded: b.AppendTo(nil)})
		require.ErrorIs(t, r.Err, want)
		if want == nil {
			_, err := l.Encodable()
			require.NoError(t, err)
		}
	}
}

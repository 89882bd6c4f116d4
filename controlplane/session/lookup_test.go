package session

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// transactions is a state with one topic, and producers of transactions in its partition 0.
type transactions struct {
	t       *testing.T
	state   *metadata.State
	session id.Session
	n       uint32
	tp      id.TopicPartition
	aborted []extent.Aborted                    // all that notices told of
	refs    map[string]*metadata.TransactionRef // by transactional id
	next    map[string]int32                    // sequence
}

func newTransactions(t *testing.T, producers ...string) *transactions {
	t.Helper()
	x := &transactions{
		t: t, state: metadata.New(), tp: id.TopicPartition{Topic: id.Topic{1}},
		refs: map[string]*metadata.TransactionRef{}, next: map[string]int32{},
	}
	x.apply(&metadata.CreateTopic{ID: x.tp.Topic, Name: "t", Partitions: 1})
	x.session = x.apply(&metadata.OpenSession{Instance: "i"}).Value.(metadata.OpenSessionResult).Session
	for _, name := range producers {
		got := x.apply(&metadata.InitTransaction{TransactionalID: name, TimeoutMs: 1 << 30, ProducerID: -1, ProducerEpoch: -1}).
			Value.(metadata.InitTransactionResult)
		x.refs[name] = &metadata.TransactionRef{
			TransactionalID: name, ProducerID: got.ProducerID, Epoch: got.Epoch, Version: metadata.ProtocolTwo,
		}
	}
	return x
}

// apply applies a command and collects what its notices say of aborted transactions.
func (x *transactions) apply(c metadata.Command) metadata.Result {
	x.t.Helper()
	var fx metadata.Effects
	results := x.state.Apply(x.state.Index()+1, &metadata.Batch{Now: int64(x.state.Index()), Commands: []metadata.Command{c}}, &fx, nil)
	require.NoError(x.t, results[0].Err)
	for i := range fx.Partitions {
		n := partitionNotice(&fx.Partitions[i])
		for _, a := range n.Aborted {
			x.aborted = append(x.aborted, extent.Aborted{ProducerID: a.ProducerId, First: a.First, Last: a.Last})
		}
	}
	return results[0]
}

// produce writes one batch of some records in a producer's transaction.
func (x *transactions) produce(name string, records int32) {
	x.t.Helper()
	ref := x.refs[name]
	x.n++
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: x.session, N: x.n}, Bytes: 1000})
	b.Section(commit.Section{Partition: x.tp})
	b.Batch(commit.Batch{
		Records: records, Bytes: 100, MaxTimestamp: 5, ProducerID: ref.ProducerID, ProducerEpoch: ref.Epoch,
		BaseSequence: x.next[name], Transactional: true, TransactionVersion: metadata.ProtocolTwo,
	})
	x.next[name] += records
	result := x.apply(&metadata.CommitBundle{Encoded: b.AppendTo(nil)}).Value.(*commit.Result)
	require.Equal(x.t, commit.Accepted, result.Sections[0].Spans[0].Outcome)
}

// end ends a producer's transaction, which raises its epoch.
func (x *transactions) end(name string, commits bool) {
	x.t.Helper()
	ref := x.refs[name]
	got := x.apply(&metadata.EndTransaction{TransactionRef: *ref, Commit: commits}).Value.(metadata.EndTransactionResult)
	ref.ProducerID, ref.Epoch, x.next[name] = got.ProducerID, got.Epoch, 0
}

func (x *transactions) lookUp(from int64, maxExtents uint32, left *room) *api.PartitionAnswer {
	return lookUpPartition(x.state, x.tp, &api.PartitionLookup{
		Want: &api.PartitionLookup_ExtentsFrom{ExtentsFrom: from}, MaxExtents: maxExtents,
	}, left)
}

// TestLookUp_Aborted: whatever was looked up, a reader of its extents knows of every aborted transaction that reaches
// into what it may read, and of no other; and what notices told is what look-ups say.
func TestLookUp_Aborted(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		x := newTransactions(t, names...)
		open := map[string]bool{}
		for range 120 {
			name := names[rng.IntN(len(names))]
			if open[name] && rng.IntN(3) == 0 {
				x.end(name, rng.IntN(2) == 0)
				open[name] = false
				continue
			}
			x.produce(name, 1+rng.Int32N(3))
			open[name] = true
		}
		marks, _ := x.state.Watermarks(x.tp)
		for range 200 {
			left := room{extents: 1000, aborted: 1 + rng.IntN(20)}
			before := left
			got := x.lookUp(rng.Int64N(marks.HighWatermark), uint32(rng.IntN(30)), &left)
			exts, err := extent.ParseList(got.Extents)
			require.NoError(t, err)
			require.NotEmpty(t, exts)
			end := exts[len(exts)-1].Last + 1
			require.Equal(t, got.More, end < marks.HighWatermark)
			if got.More {
				end = min(end, got.LastStable)
			}
			var want []*api.AbortedTransaction
			for _, a := range x.aborted {
				if a.Last >= exts[0].Base && a.First < end && end > exts[0].Base {
					want = append(want, &api.AbortedTransaction{ProducerId: a.ProducerID, First: a.First, Last: a.Last})
				}
			}
			require.Equal(t, want, got.Aborted)
			require.True(t, len(want) <= before.aborted || len(exts) == 1)
			require.Equal(t, before.extents-len(exts), left.extents)
			require.Equal(t, before.aborted-len(want), left.aborted)
		}
	}
}

// TestLookUp_ManyAborted: an answer's bound leaves extents off, never aborted transactions.
func TestLookUp_ManyAborted(t *testing.T) {
	x := newTransactions(t, "a")
	for range 100 {
		x.produce("a", 1)
		x.end("a", false)
	}
	answers := lookUp(x.state, []*api.PartitionLookup{
		{Topic: x.tp.Topic[:], Want: &api.PartitionLookup_ExtentsFrom{}},
		{Topic: x.tp.Topic[:], Want: &api.PartitionLookup_ExtentsFrom{ExtentsFrom: 100}},
	})
	require.Len(t, answers[0].Aborted, 100)
	require.Len(t, answers[1].Aborted, 50)
	left := room{extents: 1000, aborted: -5} // spent by other partitions
	one := x.lookUp(0, 0, &left)
	require.True(t, one.More)
	exts, err := extent.ParseList(one.Extents)
	require.NoError(t, err)
	require.Len(t, exts, 1)
	require.Len(t, one.Aborted, 1)
}

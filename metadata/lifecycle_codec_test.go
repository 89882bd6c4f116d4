package metadata

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// everyLifecycleCommand has the commands of sweeping and of deleted topics.
func everyLifecycleCommand() []Command {
	return []Command{
		&RecordSweep{Writers: []id.Session{1, 2, 300}},
		&DeleteTopic{ID: topicID("t"), KeepMs: 86_400_000},
		&UndeleteTopic{ID: topicID("t"), Name: "u"},
		&PurgeTopics{Topics: []PurgedTopic{{ID: topicID("t"), Index: 7}}},
	}
}

// lifecycleState has writers of every sort, and deleted topics of which one has an open transaction.
func lifecycleState(t testing.TB) *machine {
	t.Helper()
	s := newMachine()
	for i, c := range []Command{
		&OpenSession{Instance: "a"},
		&OpenSession{Instance: "b"},
		&OpenSession{Instance: "c"},
		&StartJob{Kind: job.Compact, Level: 1, Runner: 1},
		&StartJob{Kind: job.Compact, Level: 1, Runner: 2},
		&CloseSession{Session: 2},
		&CloseSession{Session: 3},
		&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 2, Configs: map[string]string{"a": "1"}},
		&InitTransaction{TransactionalID: "x", TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1},
		commitOf(1, 1, 0, section{"t", 1, []commit.Batch{
			{Records: 5, Bytes: 61, ProducerID: 0, Transactional: true, TransactionVersion: ProtocolTwo},
			{Records: 2, Bytes: 61, ProducerID: 7},
		}}),
		&DeleteTopic{ID: topicID("t"), KeepMs: 86_400_000},
		&CreateTopic{ID: topicID("u"), Name: "t", Partitions: 1},
		&DeleteTopic{ID: topicID("u"), KeepMs: 5},
		&CreateTopic{ID: topicID("v"), Name: "t", Partitions: 1},
	} {
		r := s.Apply(s.index+1, &Batch{Now: 1000 + int64(i), Commands: []Command{c}}, nil, nil)
		require.NoError(t, r[0].Err, "command %d", i)
	}
	return s
}

func TestSnapshot_LifecycleGoldenAndRoundTrip(t *testing.T) {
	s := lifecycleState(t)
	require.Equal(t, 2, s.deletions.Len())
	require.Equal(t, 3, s.ended.Len())
	var buf bytes.Buffer
	require.NoError(t, s.snapshot().Encode(&buf))
	golden(t, "snapshot-lifecycle.hex", buf.Bytes())
	got, err := decode(bytes.NewReader(buf.Bytes()))
	require.NoError(t, err)
	require.Equal(t, s.Hash(), got.Hash())
	require.Equal(t, s.Load(), got.Load())
	requireDerived(t, got)
	// The restored one ends the transaction in the deleted topic, as the other does.
	for _, x := range []*machine{s, got} {
		x.Apply(20, &Batch{Now: 100_000, Commands: []Command{&Tick{}, &UndeleteTopic{ID: topicID("t"), Name: "w"}}}, nil, nil)
		w, _ := x.Watermarks(id.TopicPartition{Topic: topicID("t"), Partition: 1})
		require.EqualValues(t, 8, w.LastStable)
	}
	require.Equal(t, s.Hash(), got.Hash())
}

// Topics are deleted faster than they are purged: the number kept is bounded, and those deleted first go.
func TestDeletedTopics_Bounded(t *testing.T) {
	s := newMachine()
	topic := func(i int) id.Topic { return id.Topic{1, byte(i >> 16), byte(i >> 8), byte(i)} }
	var list []Command
	for i := range maxDeletedTopics + 3 {
		list = append(list, &CreateTopic{ID: topic(i), Name: "t", Partitions: 1}, &DeleteTopic{ID: topic(i), KeepMs: 1})
	}
	s.Apply(1, &Batch{Commands: list}, nil, nil)
	require.Equal(t, maxDeletedTopics, s.deletions.Len())
	require.Equal(t, maxDeletedTopics, s.topics.Len())
	results := s.Apply(2, &Batch{Commands: []Command{&UndeleteTopic{ID: topic(2)}, &UndeleteTopic{ID: topic(3)}}}, nil, nil)
	require.ErrorIs(t, results[0].Err, ErrUnknownTopic)
	require.NoError(t, results[1].Err)
}

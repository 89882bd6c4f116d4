package metadata

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// everyTransactionCommand has one command of each kind of transactions, with every field set.
func everyTransactionCommand() *Batch {
	one, two := id.TopicPartition{Topic: topicID("t"), Partition: 3}, id.TopicPartition{Topic: topicID("u")}
	ref := TransactionRef{TransactionalID: "x", ProducerID: 5, Epoch: 2, Version: ProtocolOne, AsOf: 300}
	return &Batch{Now: 1_700_000_000_000, Commands: []Command{
		&InitTransaction{TransactionalID: "x", TimeoutMs: 60_000, ProducerID: 5, ProducerEpoch: 1},
		&InitTransaction{TransactionalID: "y", TimeoutMs: 1, ProducerID: -1, ProducerEpoch: -1},
		&AddPartitions{TransactionRef: ref, Partitions: []id.TopicPartition{one, two}},
		&AddPartitions{TransactionRef: TransactionRef{Version: ProtocolTwo}},
		&AddOffsets{TransactionRef: ref, Group: "g"},
		&EndTransaction{TransactionRef: ref, Commit: true},
		&WriteMarkers{ProducerID: 6, Epoch: 7, Commit: true, CoordinatorEpoch: -8, Partitions: []id.TopicPartition{two}},
	}}
}

// transactionalState has transactions in every state, open and aborted ones in partitions, some of them trimmed.
func transactionalState(t testing.TB) *machine {
	t.Helper()
	s := newMachine()
	batch := func(producer int64, epoch int16, sequence int32) commit.Batch {
		return commit.Batch{
			Records: 2, Bytes: 61, ProducerID: producer, ProducerEpoch: epoch, BaseSequence: sequence, Transactional: true,
			TransactionVersion: ProtocolTwo,
		}
	}
	ref := func(id string, producer int64, epoch int16) TransactionRef {
		return TransactionRef{TransactionalID: id, ProducerID: producer, Epoch: epoch, Version: ProtocolTwo}
	}
	begin := func(id string) Command {
		return &InitTransaction{TransactionalID: id, TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1}
	}
	one := id.TopicPartition{Topic: topicID("t")}
	s.Apply(1, &Batch{Now: 5000, Commands: []Command{
		&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 3},
		&OpenSession{Instance: "a"},
		begin("v"), begin("w"), begin("x"), begin("y"), begin("z"),
		commitOf(1, 1, 0,
			section{"t", 0, []commit.Batch{batch(0, 0, 0), batch(1, 0, 0), batch(2, 0, 0), batch(3, 0, 0)}},
			section{"t", 1, []commit.Batch{batch(0, 0, 0), batch(3, 0, 0)}}),
	}}, nil, nil)
	s.Apply(2, &Batch{Now: 6000, Commands: []Command{
		&EndTransaction{TransactionRef: ref("w", 1, 0)},
		&EndTransaction{TransactionRef: ref("x", 2, 0), Commit: true},
		commitOf(1, 2, 1, section{"t", 0, []commit.Batch{batch(1, 1, 0)}}),
		&EndTransaction{TransactionRef: ref("w", 1, 1)},
	}}, nil, nil)
	s.Apply(3, &Batch{Now: 7000, Commands: []Command{
		&AddPartitions{TransactionRef: TransactionRef{TransactionalID: "v", Version: ProtocolOne, AsOf: 2}, Partitions: []id.TopicPartition{{Topic: topicID("t"), Partition: 2}}},
		&AddOffsets{TransactionRef: ref("v", 0, 0), Group: "g"},
		&AddOffsets{TransactionRef: ref("v", 0, 0), Group: "f"},
		&CommitOffsets{Group: "g", Transaction: &TransactionRef{TransactionalID: "v", Version: ProtocolTwo}, Offsets: []OffsetCommit{{Partition: one, Offset: 3}}},
		&TrimPartitions{Trims: []Trim{{one, 3}}},
	}}, nil, nil)
	return s
}

func TestSnapshot_TransactionsGoldenAndRoundTrip(t *testing.T) {
	s := transactionalState(t)
	tp := id.TopicPartition{Topic: topicID("t")}
	require.Len(t, s.AbortedTransactions(tp, 0, 100), 2)
	w, _ := s.Watermarks(tp)
	require.Equal(t, Watermarks{LogStart: 3, HighWatermark: 13, LastStable: 3}, w)
	var buf bytes.Buffer
	require.NoError(t, s.snapshot().Encode(&buf))
	golden(t, "snapshot-transactions.hex", buf.Bytes())
	got, err := decode(bytes.NewReader(buf.Bytes()))
	require.NoError(t, err)
	require.Equal(t, s.Hash(), got.Hash())
	requireDerived(t, s)
	requireDerived(t, got)
	require.Equal(t, s.AbortedTransactions(tp, 0, 100), got.AbortedTransactions(tp, 0, 100))
	for x := range s.Transactions() {
		y, ok := got.Transaction(x.TransactionalID)
		require.True(t, ok)
		require.Equal(t, x, y)
	}
}

// TestDecode_RefusesWrongTransactions changes one field of a good record each time.
func TestDecode_RefusesWrongTransactions(t *testing.T) {
	broken := map[string]func(s *machine, p *partition, x *transaction){
		"two producers of a name": func(s *machine, _ *partition, x *transaction) {
			y := *x
			y.producerID = 2
			s.transactions.byProducer.Set(2, &y)
		},
		"producer id not given yet": func(s *machine, _ *partition, _ *transaction) { s.nextProducerID = 1 },
		"state":                     func(_ *machine, _ *partition, x *transaction) { x.state = 2 },
		"partitions of none":        func(_ *machine, _ *partition, x *transaction) { x.state = TransactionCompleteAbort },
		"epoch":                     func(_ *machine, _ *partition, x *transaction) { x.epoch = -1 },
		"last epoch":                func(_ *machine, _ *partition, x *transaction) { x.lastEpoch = -2 },
		"previous producer":         func(_ *machine, _ *partition, x *transaction) { x.previous = -2 },
		"open above":                func(_ *machine, p *partition, _ *transaction) { p.transactions.open.Set(p.high, 77) },
		"open twice":                func(_ *machine, p *partition, _ *transaction) { p.transactions.open.Set(7, 0) },
		"aborted above": func(_ *machine, p *partition, _ *transaction) {
			p.transactions.aborted.Set(p.high, abortedTransaction{})
		},
		"aborted before it began": func(_ *machine, p *partition, _ *transaction) {
			p.transactions.aborted.Set(8, abortedTransaction{first: 8})
		},
		"aborted, stable above": func(_ *machine, p *partition, _ *transaction) {
			p.transactions.aborted.Set(8, abortedTransaction{stable: p.high + 1})
		},
	}
	for name, change := range broken {
		s := transactionalState(t)
		p, _ := s.partitionEntry(id.TopicPartition{Topic: topicID("t")})
		change(s, p, s.transaction("v"))
		var buf bytes.Buffer
		require.NoError(t, s.Encode(&buf))
		_, err := decode(&buf)
		require.ErrorIs(t, err, ErrMalformedSnapshot, name)
	}
}

// requireDerived compares what is derived in a state with what it is derived from.
func requireDerived(t *testing.T, s *machine) {
	t.Helper()
	x := &s.transactions
	require.Equal(t, x.byProducer.Len(), x.names.Len())
	require.Equal(t, x.byProducer.Len(), x.due.Len())
	x.byProducer.Scan(func(producerID int64, c *transaction) bool {
		require.Equal(t, producerID, c.producerID)
		named, ok := x.names.Get(c.id)
		require.True(t, ok)
		require.Equal(t, producerID, named)
		_, ok = x.due.Get(c.dueKey())
		require.True(t, ok, "%s is due", c.id)
		if c.state != TransactionOngoing {
			require.Nil(t, c.partitions)
			require.Nil(t, c.groups)
		}
		return true
	})
	entry := func(e *topicEntry) {
		e.partitions.Scan(func(_ int32, p *partition) bool {
			if p.transactions != nil {
				requirePartitionDerived(t, p)
			}
			return true
		})
	}
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		entry(e)
		return true
	})
	deletions := 0
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		named, _ := s.names.Get(e.topic.Name)
		require.Equal(t, e.deletion == nil, named == e.topic.ID)
		if e.deletion != nil {
			deletions++
			of, _ := s.deletions.Get(e.deletion.order)
			require.Equal(t, e.topic.ID, of)
		}
		return true
	})
	require.Equal(t, deletions, s.deletions.Len())
}

func requirePartitionDerived(t *testing.T, p *partition) {
	t.Helper()
	require.Equal(t, p.transactions.open.Len(), p.transactions.first.Len())
	p.transactions.open.Scan(func(first, producerID int64) bool {
		got, ok := p.transactions.first.Get(producerID)
		require.True(t, ok)
		require.Equal(t, first, got)
		require.Less(t, first, p.high)
		return true
	})
	p.transactions.aborted.Scan(func(marker int64, a abortedTransaction) bool {
		require.Less(t, a.first, marker)
		return true
	})
}

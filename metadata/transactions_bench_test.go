package metadata

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// transactionLoad has producers that each write to some partitions in every transaction.
type transactionLoad struct {
	*machine
	index      uint64
	n          uint32
	partitions int
	ids        []int64
	epochs     []int16
}

func newTransactionLoad(producers, partitions int) *transactionLoad {
	l := &transactionLoad{machine: newMachine(), partitions: partitions}
	commands := []Command{&OpenSession{Instance: "a"}}
	for i := range benchTopics {
		name := fmt.Sprint(i)
		commands = append(commands, &CreateTopic{ID: topicID(name), Name: name, Partitions: int32((partitions + benchTopics - 1) / benchTopics)})
	}
	for i := range producers {
		commands = append(commands, &InitTransaction{TransactionalID: fmt.Sprint(i), TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
		l.ids, l.epochs = append(l.ids, int64(i)), append(l.epochs, 0)
	}
	l.apply(l.entry(commands...))
	return l
}

func (l *transactionLoad) apply(encoded []byte) {
	l.index++
	b, err := ParseBatch(encoded)
	if err != nil {
		panic(err)
	}
	var fx Effects
	for _, r := range l.Apply(l.index, b, &fx, nil) {
		if r.Err != nil {
			panic(r.Err)
		}
		if c, ok := r.Value.(*commit.Result); ok && c.Sections[0].Spans[0].Outcome != commit.Accepted {
			panic(fmt.Sprintf("%+v", c.Sections[0]))
		}
	}
}

// entry encodes one log entry.
func (l *transactionLoad) entry(c ...Command) []byte {
	return AppendBatch(nil, &Batch{Now: 1_700_000_000_000 + int64(l.index), Commands: c})
}

// write makes the first batches of a producer's transaction, one in each of count partitions.
func (l *transactionLoad) write(b *commit.Builder, producer, count int) *CommitBundle {
	l.n++
	b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: l.n}, Acked: l.n - 1, Bytes: 1 << 31})
	for i := range count {
		l.section(b, producer, i)
	}
	return &CommitBundle{Encoded: b.AppendTo(nil)}
}

func (l *transactionLoad) section(b *commit.Builder, producer, i int) {
	at := (producer*7919 + i) % l.partitions
	b.Section(commit.Section{Partition: id.TopicPartition{Topic: topicID(fmt.Sprint(at % benchTopics)), Partition: int32(at / benchTopics)}, Position: uint32(i) * 2000})
	b.Batch(commit.Batch{
		Records: 50, Bytes: 2000, MaxTimestamp: 1_700_000_000_000, ProducerID: l.ids[producer], ProducerEpoch: l.epochs[producer],
		Transactional: true, TransactionVersion: ProtocolTwo,
	})
}

func (l *transactionLoad) end(producer int, doCommit bool) *EndTransaction {
	c := &EndTransaction{TransactionRef: TransactionRef{
		TransactionalID: fmt.Sprint(producer), ProducerID: l.ids[producer], Epoch: l.epochs[producer], Version: ProtocolTwo,
	}, Commit: doCommit}
	l.epochs[producer]++
	return c
}

// BenchmarkApplyTransactional measures batches that each begin a transaction of their own, 512 in a commit, and the
// ends of these transactions, one log entry for all: the least favourable shape.
func BenchmarkApplyTransactional(b *testing.B) {
	const sections = 512
	l := newTransactionLoad(10_000, 10_000)
	var builder commit.Builder
	b.ReportAllocs()
	at := 0
	for range b.N {
		b.StopTimer()
		l.n++
		builder.Reset(commit.Header{Submission: id.Submission{Session: 1, N: l.n}, Acked: l.n - 1, Bytes: 1 << 31})
		var ends []Command
		for i := range sections {
			l.section(&builder, at, i)
			ends = append(ends, l.end(at, i%2 == 0))
			at = (at + 1) % len(l.ids)
		}
		begin, end := l.entry(&CommitBundle{Encoded: builder.AppendTo(nil)}), l.entry(ends...)
		b.StartTimer()
		l.apply(begin)
		l.apply(end)
	}
	b.ReportMetric(float64(b.N*sections)/b.Elapsed().Seconds(), "transactions/s")
}

// BenchmarkEndTransaction measures one command that ends a transaction of 100 partitions.
func BenchmarkEndTransaction(b *testing.B) {
	const partitions = 100
	l := newTransactionLoad(100, 10_000)
	var builder commit.Builder
	b.ReportAllocs()
	for i := range b.N {
		b.StopTimer()
		producer := i % len(l.ids)
		l.apply(l.entry(l.write(&builder, producer, partitions)))
		end := l.entry(l.end(producer, i/100%2 == 0))
		b.StartTimer()
		l.apply(end)
	}
	b.ReportMetric(float64(b.N*partitions)/b.Elapsed().Seconds(), "markers/s")
}

// TestSnapshot_TransactionsReadWhileApplying reads snapshots in another goroutine while transactions begin and end: the
// race detector must stay silent, and a snapshot must not change.
func TestSnapshot_TransactionsReadWhileApplying(t *testing.T) {
	l := newTransactionLoad(50, 60)
	snapshots := make(chan *machine)
	result := make(chan error)
	go func() {
		var err error
		for frozen := range snapshots {
			if a, b := frozen.Hash(), frozen.Hash(); a != b {
				err = fmt.Errorf("snapshot of %d changed from %x to %x", frozen.Index(), a, b)
			}
			for x := range frozen.Transactions() {
				for _, tp := range x.Partitions {
					frozen.AbortedTransactions(tp, 0, 1000)
					frozen.Watermarks(tp)
					frozen.Producers(tp)
					if _, e := frozen.VerifyPartitions(&TransactionRef{TransactionalID: x.TransactionalID, ProducerID: x.ProducerID, Epoch: x.Epoch}, x.Partitions); e != nil {
						err = e
					}
				}
			}
		}
		result <- err
	}()
	var builder commit.Builder
	for i := range 400 {
		producer := i % len(l.ids)
		l.apply(l.entry(l.write(&builder, producer, 20)))
		if i%3 == 0 {
			l.apply(l.entry(&AddOffsets{TransactionRef: l.end(producer, true).TransactionRef, Group: "g"}))
			l.epochs[producer]--
		}
		l.apply(l.entry(l.end(producer, i%2 == 0), &Tick{}))
		select {
		case snapshots <- l.snapshot():
		default:
		}
	}
	close(snapshots)
	require.NoError(t, <-result)
}

package upgrade

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/ledger"
)

// abortEvery is the period of aborts: a teller aborts every fourth transaction.
const abortEvery = 4

// teller is a transactional producer. Each transaction writes one record to every partition. The ledger has the records of committed ones.
type teller struct {
	name      string
	wrong     *faults
	ledger    *ledger.Ledger
	client    *kgo.Client
	committed atomic.Int64 // transactions
}

// startTeller starts a teller.
func (l *load) startTeller(name, zone string, more ...kgo.Opt) {
	l.t.Helper()
	client, err := kgo.NewClient(append(append(l.options(zone), kgo.TransactionalID(name), kgo.DefaultProduceTopic(told),
		kgo.RecordPartitioner(kgo.ManualPartitioner())), more...)...)
	require.NoError(l.t, err)
	x := &teller{name: name, wrong: l.wrong, ledger: l.told, client: client}
	l.tellers = append(l.tellers, x)
	l.telling.Go(func() {
		for n := 1; l.ctx.Err() == nil; n++ {
			if err := x.transaction(l.life, n); err != nil {
				l.wrong.add("%s: transaction %d: %w", name, n, err)
				return
			}
		}
	})
}

// transaction produces one transaction to its end.
func (x *teller) transaction(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, finishing)
	defer cancel()
	if err := x.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	commit := n%abortEvery != 0
	seqs, records := make([]int, partitions), make([]*kgo.Record, partitions)
	for p := range int32(partitions) {
		value := fmt.Sprintf("%s-aborted/%d/%d", x.name, p, n) // not in the ledger
		if commit {
			seqs[p], value = x.ledger.Send(ledger.Writer{Name: x.name, Partition: p})
		}
		records[p] = &kgo.Record{Partition: p, Value: []byte(value)}
	}
	if err := x.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	if err := x.client.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		return fmt.Errorf("end, commit %t: %w", commit, err)
	}
	if commit {
		for p, r := range records {
			x.ledger.Ack(ledger.Writer{Name: x.name, Partition: int32(p)}, seqs[p], r.Offset)
		}
		x.committed.Add(1)
	}
	return nil
}

// startPassers starts a group that copies each partition of a topic to the same partition of another, in transactions.
func (l *load) startPassers(from, to string) *reader {
	l.t.Helper()
	r := l.newReader("passers", len(zones))
	for i, zone := range zones {
		session, err := kgo.NewGroupTransactSession(append(append(l.options(zone), kgo.TransactionalID("passer-"+zone), kgo.ConsumerGroup(r.name),
			kgo.ConsumeTopics(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.SessionTimeout(sessionTimeout),
			kgo.DefaultProduceTopic(to), kgo.RecordPartitioner(kgo.ManualPartitioner())), r.watch(i)...)...)
		require.NoError(l.t, err)
		r.clients = append(r.clients, session.Client())
		r.running.Go(func() {
			for r.ctx.Err() == nil {
				if err := r.pass(l.life, session); err != nil {
					l.wrong.add("passer of zone %s: %w", zone, err)
					return
				}
			}
		})
	}
	return r
}

// pass copies what one poll returns in one transaction. Once a poll has returned records, only the end of life ends it early.
func (r *reader) pass(life context.Context, session *kgo.GroupTransactSession) error {
	fetches := session.PollFetches(r.ctx)
	if r.ctx.Err() != nil {
		return nil
	}
	if err := fetches.Err(); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	if fetches.NumRecords() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(life, finishing)
	defer cancel()
	if err := session.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	fetches.EachRecord(func(record *kgo.Record) {
		session.Produce(ctx, &kgo.Record{Partition: record.Partition, Value: record.Value}, func(_ *kgo.Record, err error) {
			if err != nil {
				r.wrong.add("%s: produce: %w", r.name, err)
			}
		})
	})
	committed, err := session.End(ctx, kgo.TryCommit)
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	if !committed {
		return errAborted
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fetches.EachRecord(r.note)
	return nil
}

package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/bench/verify/oracle"
	"github.com/freshet-io/freshet/internal/wait"
)

// transactional is the kind of the topic that transactional producers write to; plain the other one's.
const (
	plain         = "records"
	transactional = "transactions"
)

const (
	mostInTransaction = 20               // records
	transactionLimit  = 30 * time.Second // transaction.timeout.ms
)

// teller is one transactional producer. A client that does not know how its transaction ended is replaced, which fences
// it and aborts what it left open.
type teller struct {
	*topic
	producer int32
	rng      *rand.Rand
	limit    *rate.Limiter
	client   *kgo.Client
}

// tell produces one transaction after the other until ctx ends.
func (t *topic) tell(ctx context.Context, producer int32, rng *rand.Rand) error {
	x := &teller{topic: t, producer: producer, rng: rng, limit: t.limiter()}
	defer func() { x.close() }()
	for ctx.Err() == nil {
		if x.client == nil {
			client, err := t.transactional(producer)
			if err != nil {
				return err
			}
			x.client = client
		}
		if !x.transaction(ctx) {
			x.close()
			_ = wait.For(ctx, 100*time.Millisecond)
		}
	}
	return nil
}

func (x *teller) close() {
	if x.client != nil {
		x.client.Close()
		x.client = nil
	}
}

func (t *topic) transactional(producer int32) (*kgo.Client, error) {
	return t.client(
		kgo.TransactionalID(fmt.Sprintf("%s-%d", t.name, producer)), kgo.TransactionTimeout(transactionLimit),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(buffered), kgo.AlwaysRetryEOF(),
		kgo.RetryTimeout(transactionLimit), kgo.RecordDeliveryTimeout(transactionLimit*2/3),
	)
}

// transaction produces one; false if the client cannot go on.
func (x *teller) transaction(ctx context.Context) bool {
	records := 1 + x.rng.IntN(min(mostInTransaction, max(1, x.limit.Burst()*4)))
	for range records {
		if x.limit.Wait(ctx) != nil {
			return true
		}
	}
	if err := x.client.BeginTransaction(); err != nil {
		x.failed("begin transaction", err)
		return false
	}
	txn := x.history.Begin(x.producer)
	abort := x.rng.Float64() < x.cfg.Aborts
	hasty := abort && x.rng.IntN(2) == 0 // while records are on their way
	var failures atomic.Int64
	for range records {
		id, record := x.record(x.producer, txn, x.rng)
		x.client.Produce(context.WithoutCancel(ctx), record, func(r *kgo.Record, err error) {
			x.answered(id, r, err)
			if err != nil {
				failures.Add(1)
			}
		})
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*transactionLimit)
	defer cancel()
	if hasty {
		_ = wait.For(ctx, time.Duration(x.rng.IntN(20))*time.Millisecond)
	} else if err := x.client.Flush(ending); err != nil {
		abort = true
	}
	if abort || failures.Load() > 0 {
		return x.abort(ending, txn)
	}
	return x.commit(ending, txn)
}

func (x *teller) abort(ctx context.Context, txn int64) bool {
	x.history.Aborted(x.producer, txn)
	err := x.client.AbortBufferedRecords(ctx)
	if err == nil {
		err = x.client.EndTransaction(ctx, kgo.TryAbort)
	}
	if err != nil {
		x.failed("abort", err)
	}
	return err == nil
}

func (x *teller) commit(ctx context.Context, txn int64) bool {
	x.history.Committing(x.producer, txn)
	if err := x.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		x.failed("commit", err)
		return false
	}
	x.history.Committed(x.producer, txn)
	return true
}

// settle ends what producers may have left open, and waits until every transaction has ended in every partition.
func (t *topic) settle(ctx context.Context) {
	if !t.txn {
		return
	}
	for producer := range int32(t.cfg.Producers) {
		client, err := t.transactional(producer)
		if err == nil {
			_, _, err = client.ProducerID(ctx) // as a successor does, which aborts
			client.Close()
		}
		if err != nil {
			t.failed("end transactions", err)
		}
	}
	for {
		all, err := t.ends(ctx, oracle.Uncommitted)
		stable, errStable := t.ends(ctx, oracle.Committed)
		if err != nil || errStable != nil {
			return // waits are bounded; what is missing is found by who reads
		}
		open := -1
		for p, end := range all {
			if stable[p] < end {
				open = int(p)
			}
		}
		if open < 0 {
			return
		}
		if wait.For(ctx, time.Second) != nil {
			t.findings.Add(oracle.Finding{
				Class: oracle.Stuck, Topic: t.name, Partition: int32(open), Offset: stable[int32(open)],
				Evidence: fmt.Sprintf("transactions are open %v after all producers were replaced (end %d)", t.cfg.Patience, all[int32(open)]),
			})
			return
		}
	}
}

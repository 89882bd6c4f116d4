package verify

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/bench/verify/oracle"
)

// buffered bounds the records of a producer that are on their way.
const buffered = 2000

// produce writes to partitions at random until ctx ends, then waits for what is on its way.
func (t *topic) produce(ctx context.Context, producer int32, rng *rand.Rand) error {
	options := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(buffered),
		kgo.AlwaysRetryEOF(), // a broker that is killed at a connection's first request is no listener that wants SASL
	}
	if t.cfg.Plain {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := t.client(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	limit := t.limiter()
	for limit.Wait(ctx) == nil {
		id, record := t.record(producer, -1, rng)
		client.Produce(context.WithoutCancel(ctx), record, func(r *kgo.Record, err error) { t.answered(id, r, err) })
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.Patience)
	defer cancel()
	if err := client.Flush(flush); err != nil {
		t.failed("flush", err) // what was not answered is of unknown outcome
	}
	return nil
}

// limiter paces one producer.
func (t *topic) limiter() *rate.Limiter {
	each := t.cfg.Rate / float64(t.cfg.Producers*len(t.topics))
	return rate.NewLimiter(rate.Limit(each), max(1, int(each/20)))
}

// record makes the next record of a producer, to a partition at random.
func (t *topic) record(producer int32, txn int64, rng *rand.Rand) (oracle.ID, *kgo.Record) {
	id, key, value := t.history.Send(producer, rng.Int32N(int32(t.cfg.Partitions)), txn, t.cfg.Size)
	return id, &kgo.Record{Topic: t.name, Partition: id.Partition, Key: key, Value: value}
}

func (t *topic) answered(id oracle.ID, r *kgo.Record, err error) {
	if err != nil {
		t.history.Failed(id)
		if !errors.Is(err, kgo.ErrAborting) { // what the producer wanted
			t.failed("produce", err)
		}
		return
	}
	t.history.Acked(id, r.Offset)
}

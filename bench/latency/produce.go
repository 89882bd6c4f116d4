package latency

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

const (
	// burstEvery is how often each producer of a load hands in records: seldom enough that five requests in flight cover
	// half a second.
	burstEvery = 100 * time.Millisecond
	// burstLinger lets the records of a burst share a request.
	burstLinger = time.Millisecond
	// idlePace is the mean time between single records, in PUTs of the budget: with more records latency would be the
	// budget's.
	idlePace = 1.6
)

// idle sends one record after the other, each when the one before is acknowledged and some time has passed. It ends with
// producing; what is under way is waited for.
func (r *run) idle(ctx, producing context.Context) error {
	client, err := r.client(kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer client.Close()
	told := r.ledger.producer()
	rng := rand.New(rand.NewPCG(r.cfg.Seed, r.cfg.Seed))
	mean := time.Duration(idlePace / r.point.Budget * float64(time.Second))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for partition := int32(0); ; partition++ {
		select {
		case <-timer.C:
		case <-producing.Done():
			return context.Cause(ctx)
		}
		timer.Reset(mean/2 + time.Duration(rng.Int64N(int64(mean))))
		if err := r.send(ctx, client, told, partition%int32(r.cfg.Partitions), 1, rng); err != nil {
			return err
		}
		if err := client.Flush(ctx); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
	}
}

// load has the producers take turns: each hands in a burst of records for one partition every burstEvery. It ends with
// producing; what is under way is waited for.
func (r *run) load(ctx, producing context.Context) error {
	var clients []*kgo.Client
	defer func() {
		for _, client := range clients {
			client.Close()
		}
	}()
	for range r.cfg.Producers {
		client, err := r.client(kgo.ProducerLinger(burstLinger))
		if err != nil {
			return err
		}
		clients = append(clients, client)
	}
	// Records a burst, with what does not divide spread over bursts.
	each := float64(r.point.Load) / float64(r.cfg.RecordBytes) * burstEvery.Seconds() / float64(r.cfg.Producers)
	var group errgroup.Group
	for i, client := range clients {
		group.Go(func() error { return r.bursts(ctx, producing, client, i, each) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return r.flush(ctx, clients)
}

// bursts are one producer's. Its turn comes at its own place in each burstEvery, whenever that is served: what comes late is
// not made up for by a longer pause.
func (r *run) bursts(ctx, producing context.Context, client *kgo.Client, i int, each float64) error {
	told := r.ledger.producer()
	rng := rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)))
	start := time.Now().Add(burstEvery * time.Duration(i) / time.Duration(r.cfg.Producers))
	timer := time.NewTimer(time.Until(start))
	defer timer.Stop()
	var owed float64
	for turn := 1; ; turn++ {
		select {
		case <-timer.C:
		case <-producing.Done():
			return context.Cause(ctx)
		}
		owed += each
		n := int(owed)
		owed -= float64(n)
		if err := r.send(ctx, client, told, int32((i+turn)%r.cfg.Partitions), n, rng); err != nil {
			return err
		}
		timer.Reset(time.Until(start.Add(time.Duration(turn) * burstEvery)))
	}
}

// send hands n records of a partition to a client, whose answers go to told.
func (r *run) send(ctx context.Context, client *kgo.Client, told *tally, partition int32, n int, rng *rand.Rand) error {
	values := make([]byte, n*r.cfg.RecordBytes)
	copy(values, noise()[rng.IntN(len(noise())/2):])
	first, err := r.ledger.number(n)
	if err != nil {
		return err
	}
	for i := range int64(n) {
		value := values[:r.cfg.RecordBytes:r.cfg.RecordBytes]
		values = values[r.cfg.RecordBytes:]
		r.ledger.head(value, first+i)
		client.Produce(ctx, &kgo.Record{Partition: partition, Value: value}, told.acknowledged)
	}
	return nil
}

// flush waits until everything is answered.
func (r *run) flush(ctx context.Context, clients []*kgo.Client) error {
	for _, client := range clients {
		if err := client.Flush(ctx); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
	}
	return nil
}

// noise is what values are made of: it does not compress.
var noise = sync.OnceValue(func() []byte {
	p := make([]byte, 4*mib)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(p) // never fails
	return p
})

package fetch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// parked bounds the memory of fetches from the decoding of the request until the client has taken the answer. A fetch that finds no room does not wait
// for records. It takes a turn, in which it is decoded and answered: turns are given in order, and have a bound of their own.
type parked struct {
	limit int64 // of fetches that may wait for records
	held  atomic.Int64

	turnLimit int64 // of fetches in turns
	turns     *semaphore.Weighted
	reclaim   func() // closes connections that do not take their answers
	shortened prometheus.Counter
}

// newParked divides the bound: a quarter is for turns.
func newParked(limit int64, reclaim func()) *parked {
	turns := max(limit/4, 1)
	return &parked{
		reclaim: reclaim, limit: limit - turns, turnLimit: turns, turns: semaphore.NewWeighted(turns), shortened: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_fetch_shortened_total", Help: "Fetches that did not wait for records because fetches that wait held too much memory.",
		}),
	}
}

// register registers the metrics.
func (p *parked) register(r prometheus.Registerer) {
	r.MustRegister(p.shortened, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshet_fetch_request_bytes", Help: "Estimated memory of fetch requests that may wait for records.",
	}, func() float64 { return float64(p.held.Load()) }))
}

// Charge is the memory that one fetch is charged for. It is not safe for concurrent use.
type Charge struct {
	p    *parked
	held int64 // of the bound for fetches that may wait
	turn int64 // of the bound for turns; 0 if the fetch has no turn
}

// Charge returns a charge of no bytes.
func (f *Fetcher) Charge() Charge { return Charge{p: f.parked} }

// Park changes the charge to so many bytes and reports whether the fetch may wait for records. If not, nothing is charged.
func (c *Charge) Park(bytes int64) bool {
	c.Release()
	if c.p.held.Add(bytes) > c.p.limit {
		c.p.held.Add(-bytes)
		return false
	}
	c.held = bytes
	return true
}

// Resize changes the charge to so many bytes. If there is no room for a fetch that waits, Resize waits for a turn, and returns
// an error if ctx ends before. A fetch above the bound of turns takes them all.
func (c *Charge) Resize(ctx context.Context, bytes int64) error {
	if c.turn == 0 {
		if c.Park(bytes) {
			return nil
		}
		c.p.shortened.Inc()
	}
	c.Release()
	turn := max(min(bytes, c.p.turnLimit), 1)
	if err := c.p.takeTurn(ctx, turn); err != nil {
		return err
	}
	c.turn = turn
	return nil
}

// takeTurn waits for a turn. Meanwhile, clients that do not take their answers lose their connections.
func (p *parked) takeTurn(ctx context.Context, turn int64) error {
	if p.turns.TryAcquire(turn) {
		return nil
	}
	taken := make(chan error, 1)
	go func() { taken <- p.turns.Acquire(ctx, turn) }()
	tick := time.NewTicker(reclaimPause)
	defer tick.Stop()
	for {
		select {
		case err := <-taken:
			return err
		case <-tick.C:
			p.reclaim()
		}
	}
}

// Waits reports whether the fetch may wait for records.
func (c *Charge) Waits() bool { return c.turn == 0 }

// Release ends the charge.
func (c *Charge) Release() {
	c.p.held.Add(-c.held)
	if c.turn > 0 {
		c.p.turns.Release(c.turn)
	}
	c.held, c.turn = 0, 0
}

// Memory of a fetch.
const (
	// BaseBytes is the memory of a fetch without partitions.
	BaseBytes = 1 << 10
	// PartitionBytes is the memory of one partition while a fetch waits: Tracked, Partition, want, plan, result and its place
	// among the waiters.
	PartitionBytes = 512
)

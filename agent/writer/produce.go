package writer

import (
	"context"
	"sync"
	"time"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// Batch is one record batch handed in. Bytes is one valid v2 batch whose stored checksum is right; it is read only
// during Add. The fields of Commit are those of the batch's header.
type Batch struct {
	Partition id.TopicPartition
	Bytes     []byte
	Commit    commit.Batch
	// Stamp becomes Commit.AsOf; nil unless the batch is of a transaction of the first protocol.
	Stamp *view.Stamp
	// Latency says how long the batch may wait for company.
	Latency Latency
	// Lease is what a batch is handed in for commit by, if it came from another agent; nil: at any time. The batches of
	// one Add have the same.
	Lease Lease
	// Window is the connection of the batch's request. It is set on the first batch of each request; nil if the client does
	// not wait for the answer.
	Window Window
}

// Window is the requests in flight of one connection: a client's, or another agent's stream. Values are compared by ==.
type Window interface {
	// Parked reports whether exactly so many requests are in flight, and the peer has sent nothing more. It must not block.
	Parked(requests int) bool
}

// Lease tells how long another agent counts on what it handed over. Thereafter that agent may have told its clients that it
// failed, and be writing what follows.
type Lease interface {
	// Until is when the lease ends as far as is known now: it may be extended. It must not block.
	Until() time.Time
}

// BatchOf describes one valid v2 batch: what the sequencer is told of it is taken from its header.
func BatchOf(tp id.TopicPartition, b kafkaproto.RecordBatch) Batch {
	c := commit.Batch{
		Records:       b.LastOffsetDelta() + 1,
		Bytes:         int32(len(b)),
		MaxTimestamp:  max(b.MaxTimestamp(), -1),
		ProducerID:    commit.NoProducer,
		Transactional: b.Transactional(),
	}
	if b.ProducerID() >= 0 {
		c.ProducerID, c.ProducerEpoch, c.BaseSequence = b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	}
	return Batch{Partition: tp, Bytes: b, Commit: c}
}

// Result says what became of a batch. Without Err, Outcome is the sequencer's, never Gap.
type Result struct {
	Outcome  commit.Outcome
	Base     int64 // base offset of an accepted batch, and of a duplicate whose offset is still known; else -1
	LogStart int64 // of the partition; -1 if not known
	Err      error // one of the package's errors, wrapped; nil if the sequencer answered
}

// Produce is the batches of one Add on their way. The results come one by one; Wait gives them all.
type Produce struct {
	arrived time.Time
	lease   Lease         // nil: none
	done    chan struct{} // closed when every batch has its result

	mu struct {
		sync.Mutex
		results []Result
		stages  []stage
		left    int
		then    func() // called when every batch has its result; may be nil

		// Room for the most frequent number of batches.
		oneResult [1]Result
		oneStage  [1]stage
	}
}

// stage is how far a batch is.
type stage uint8

const (
	onItsWay stage = iota
	handedIn       // for commit, if it has a lease: its outcome is the sequencer's to tell
	known          // it has its result
)

// NewProduce makes the Produce of so many batches, for whoever has them written somewhere else: Resolve gives it each
// batch's result. lease is that of the batches, nil if they have none.
func NewProduce(batches int, lease Lease) *Produce {
	p := &Produce{arrived: time.Now(), lease: lease, done: make(chan struct{})}
	p.mu.left = batches
	switch batches {
	case 0:
		close(p.done)
	case 1:
		p.mu.results, p.mu.stages = p.mu.oneResult[:], p.mu.oneStage[:]
	default:
		p.mu.results, p.mu.stages = make([]Result, batches), make([]stage, batches)
	}
	return p
}

// OnDone has fn called once every batch has its result: at once, or by whoever brings the last one, so that fn must be
// quick and take no lock that is held while a writer is called. Call it once.
func (p *Produce) OnDone(fn func()) {
	p.mu.Lock()
	known := p.mu.left == 0
	if !known {
		p.mu.then = fn
	}
	p.mu.Unlock()
	if known {
		fn()
	}
}

// Results gives what Wait does. Call it when Done is closed.
func (p *Produce) Results() []Result { return p.mu.results }

// Done is closed when every batch has its result.
func (p *Produce) Done() <-chan struct{} { return p.done }

// Wait gives one result per batch, in the order of Add, once all are known. When ctx ends first, those not known
// have ErrUnknownOutcome; the batches go on their way all the same.
func (p *Produce) Wait(ctx context.Context) []Result {
	select {
	case <-p.done:
		return p.mu.results // nobody writes any more
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	results := make([]Result, len(p.mu.results))
	for i := range results {
		if p.mu.stages[i] == known {
			results[i] = p.mu.results[i]
		} else {
			results[i] = Failed(ErrUnknownOutcome)
		}
	}
	return results
}

// Resolve sets the i-th batch's result, the first time; it tells whether that was the last one missing.
func (p *Produce) Resolve(i int32, r Result) (last bool) {
	p.mu.Lock()
	last, then := p.resolve(i, r)
	p.mu.Unlock()
	p.finish(last, then)
	return last
}

// resolve is called with mu held, and finish thereafter without.
func (p *Produce) resolve(i int32, r Result) (last bool, then func()) {
	if p.mu.stages[i] == known {
		return false, nil
	}
	p.mu.stages[i] = known
	p.mu.results[i] = r
	p.mu.left--
	return p.mu.left == 0, p.mu.then
}

func (p *Produce) finish(last bool, then func()) {
	if !last {
		return
	}
	close(p.done)
	if then != nil {
		then()
	}
}

// Withdraw ends, with an error, those batches that have no result and are not handed in for commit: they never will be.
// It does nothing if the batches have no lease.
func (p *Produce) Withdraw(err error) {
	if p.lease == nil {
		return
	}
	var last bool
	var then func()
	p.mu.Lock()
	for i, s := range p.mu.stages {
		if s == onItsWay {
			last, then = p.resolve(int32(i), Failed(err))
		}
	}
	p.mu.Unlock()
	p.finish(last, then)
}

// handIn tells whether the i-th batch may become part of a commit, and until when; the zero time: whenever. One whose lease
// has ended is over, also if an earlier commit with it was late.
func (p *Produce) handIn(i int32) (in bool, until time.Time) {
	if p.lease == nil {
		return true, time.Time{}
	}
	var last bool
	var then func()
	p.mu.Lock()
	until = p.lease.Until()
	switch {
	case p.mu.stages[i] == known:
	case time.Now().Before(until):
		p.mu.stages[i] = handedIn
	default:
		last, then = p.resolve(i, Failed(ErrWithdrawn))
	}
	in = p.mu.stages[i] == handedIn
	p.mu.Unlock()
	p.finish(last, then)
	return in, until
}

// Arrived is when the batches were handed in.
func (p *Produce) Arrived() time.Time { return p.arrived }

// Failed is the result of a batch that ended with one of the package's errors.
func Failed(err error) Result { return Result{Base: -1, LogStart: -1, Err: err} }

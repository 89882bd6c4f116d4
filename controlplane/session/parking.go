package session

import (
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// maxParkedBytes bounds the memory of the parked resubmissions of a virtual cluster: their commits, and parkedWaitBytes for each batch
	// that waits. Limits.Parked bounds their number.
	maxParkedBytes  = 32 << 20
	parkedWaitBytes = 128
)

// parking holds resubmissions whose batches wait for earlier ones of their producers, by the partitions that they
// wait on, and by the producers of those in transactions: when such a transaction ends, the batch is late, though
// nothing of it may ever have come to the partition. Guarded by tenure.mu.
type parking struct {
	waiting   waiters[id.TopicPartition]
	producers waiters[int64]
	parked    map[*resubmission]struct{}
	bytes     int64 // sum of their bytes
}

func newParking() parking {
	return parking{
		waiting: waiters[id.TopicPartition]{}, producers: waiters[int64]{}, parked: map[*resubmission]struct{}{},
	}
}

// waiters are resubmissions by what they wait on.
type waiters[K comparable] map[K]map[*resubmission]struct{}

func (w waiters[K]) add(on K, p *resubmission) {
	if w[on] == nil {
		w[on] = map[*resubmission]struct{}{}
	}
	w[on][p] = struct{}{}
}

func (w waiters[K]) remove(on K, p *resubmission) {
	delete(w[on], p)
	if len(w[on]) == 0 {
		delete(w, on)
	}
}

// resubmission is a commit of batches that were answered Gap. It is proposed as soon as one of its open batches can
// get a final answer, and parked again for the others: waiting for all of them at once could deadlock two agents that
// hold each other's missing batches. It belongs to the parking while parked, else to one goroutine.
type resubmission struct {
	reader   *commit.Reader
	encoded  []byte
	answer   answerFunc
	deadline time.Time
	timer    *time.Timer
	outcome  outcome // of the proposals so far
	index    uint64
	bytes    int64 // counted in maxParkedBytes while parked
}

// weigh returns the bytes that the resubmission takes while parked.
func (p *resubmission) weigh() int64 {
	waits := 0
	p.outcome.walk(p.reader, func(_ id.TopicPartition, _ *commit.Run, o commit.Outcome) {
		if o == commit.Gap {
			waits++
		}
	})
	return int64(len(p.encoded) + waits*parkedWaitBytes)
}

// resubmit takes a resubmission. answer is called once, at the latest after the park time-out.
func (t *tenure) resubmit(r *commit.Reader, encoded []byte, answer answerFunc) {
	p := &resubmission{reader: r, encoded: encoded, answer: answer, deadline: time.Now().Add(t.limits.ParkTimeout)}
	p.timer = time.AfterFunc(t.limits.ParkTimeout, func() { t.expire(p) })
	t.parkOrRun(p)
}

// parkOrRun proposes the resubmission if that can answer one of its batches, else parks it. Both are decided where
// the state does not change: an effect of a later index finds it parked.
func (t *tenure) parkOrRun(p *resubmission) {
	ready, full, ended := false, false, true
	_, err := t.owner.Read(func(s *metadata.State) {
		ended = false
		if ready = p.ready(s); !ready {
			full = !t.park(p)
		}
	})
	switch {
	case err != nil && (ended || ready || t.unpark(p)):
		t.conclude(p, commandFault(err))
	case full:
		t.metrics.parkTimes.WithLabelValues(resultOverfull).Inc()
		t.conclude(p, nil)
	case ready:
		t.spawnOr(func() { t.attempt(p) }, func() { t.conclude(p, ownerGone) })
	}
}

// ready tells whether proposing would give one of the open batches its final answer.
func (p *resubmission) ready(s *metadata.State) bool {
	ready := false
	p.outcome.walk(p.reader, func(tp id.TopicPartition, run *commit.Run, o commit.Outcome) {
		ready = ready || o == commit.Gap && !s.AheadOfSequence(tp, run)
	})
	return ready
}

// park adds the resubmission under each partition it waits on. It returns false if the parking is full, or if the deadline is over (the
// timer may have fired already). A resubmission that exceeds maxParkedBytes by itself has an empty parking for itself. Takes mu.
func (t *tenure) park(p *resubmission) bool {
	p.bytes = p.weigh()
	t.mu.Lock()
	defer t.mu.Unlock()
	full := len(t.mu.parking.parked) >= t.limits.Parked || t.mu.parking.bytes > 0 && t.mu.parking.bytes+p.bytes > maxParkedBytes
	if full || !time.Now().Before(p.deadline) {
		return false
	}
	t.mu.parking.bytes += p.bytes
	t.mu.parking.parked[p] = struct{}{}
	p.outcome.walk(p.reader, func(tp id.TopicPartition, run *commit.Run, o commit.Outcome) {
		if o != commit.Gap {
			return
		}
		t.mu.parking.waiting.add(tp, p)
		if run.Transactional {
			t.mu.parking.producers.add(run.ProducerID, p)
		}
	})
	t.metrics.parked.Inc()
	return true
}

// unpark takes the resubmission out; false if it is not parked. Takes mu.
func (t *tenure) unpark(p *resubmission) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.remove(p)
}

// remove is unpark with mu held.
func (t *tenure) remove(p *resubmission) bool {
	if _, ok := t.mu.parking.parked[p]; !ok {
		return false
	}
	delete(t.mu.parking.parked, p)
	t.mu.parking.bytes -= p.bytes
	p.outcome.walk(p.reader, func(tp id.TopicPartition, run *commit.Run, _ commit.Outcome) {
		t.mu.parking.waiting.remove(tp, p)
		t.mu.parking.producers.remove(run.ProducerID, p)
	})
	t.metrics.parked.Dec()
	return true
}

// wakeParked proposes the parked resubmissions that the effects made ready. Called from announce, with mu held.
func (t *tenure) wakeParked(s *metadata.State, fx *metadata.Effects) {
	if len(t.mu.parking.parked) == 0 {
		return
	}
	touched := map[*resubmission]struct{}{}
	for i := range fx.Partitions {
		for p := range t.mu.parking.waiting[fx.Partitions[i].Partition] {
			touched[p] = struct{}{}
		}
	}
	for _, producer := range fx.Fenced {
		for p := range t.mu.parking.producers[producer] {
			touched[p] = struct{}{}
		}
	}
	if len(fx.Topics) > 0 { // rare: what waits on a deleted topic is answered
		for p := range t.mu.parking.parked {
			touched[p] = struct{}{}
		}
	}
	for p := range touched {
		if p.ready(s) && t.remove(p) && !t.mu.stopped {
			t.work.Go(func() { t.attempt(p) })
		}
	}
}

// attempt proposes the resubmission once, and answers it, or parks it again for the batches that are still open.
func (t *tenure) attempt(p *resubmission) {
	result, index, err := t.owner.Propose(t.ctx, &metadata.CommitBundle{Encoded: p.encoded})
	if err == nil {
		err = result.Err
	}
	settled, _ := result.Value.(*commit.Result)
	if err != nil || settled == nil {
		t.conclude(p, commandFault(err))
		return
	}
	p.index = index
	if settled.Status != commit.Settled {
		p.timer.Stop()
		p.answer(settled, index, nil)
		return
	}
	before := p.outcome.open(p.reader)
	p.outcome.merge(p.reader, settled)
	after := p.outcome.open(p.reader)
	if after == 0 || after == before || !time.Now().Before(p.deadline) {
		t.conclude(p, nil)
		return
	}
	t.parkOrRun(p)
}

// expire answers a parked resubmission whose time is up. One on its way through the log answers by itself.
func (t *tenure) expire(p *resubmission) {
	if t.unpark(p) {
		t.metrics.parkTimes.WithLabelValues(resultTimeout).Inc()
		t.conclude(p, nil)
	}
}

// conclude answers with a fault, or with the known outcome of each batch, which is Gap where none is known.
func (t *tenure) conclude(p *resubmission, f *api.Error) {
	p.timer.Stop()
	if f != nil {
		p.answer(nil, 0, f)
		return
	}
	starts := map[id.TopicPartition]int64{}
	index, err := t.owner.Read(func(s *metadata.State) {
		p.outcome.walk(p.reader, func(tp id.TopicPartition, _ *commit.Run, _ commit.Outcome) {
			marks, _ := s.Watermarks(tp)
			starts[tp] = marks.LogStart
		})
	})
	if err != nil {
		p.answer(nil, 0, commandFault(err))
		return
	}
	t.metrics.parkTimes.WithLabelValues(resultSettled).Inc()
	p.answer(p.outcome.result(p.reader, starts), max(p.index, index), nil)
}

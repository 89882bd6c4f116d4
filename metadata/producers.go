package metadata

import (
	"math"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// window is the number of batches of a producer whose offsets are remembered per partition (Kafka's
	// ProducerStateEntry.NUM_BATCHES_TO_RETAIN). Clients have at most five requests in flight.
	window = 5
	// maxResting bounds the producers per partition of which only the next sequence is remembered, after they were idle
	// for too long. Beyond it the one at rest for longest is forgotten.
	maxResting = 512
	// ProducerIDExpirationMs is how long an idle producer is remembered whole (Kafka's producer.id.expiration.ms default).
	ProducerIDExpirationMs = 24 * 60 * 60 * 1000
	// sequenceHalf: sequences wrap at 2^31, so one is behind another if the distance modulo 2^31 is up to half of it.
	sequenceHalf = 1 << 30
)

const (
	// fromZero: the epoch began here with sequence 0, so every sequence below next was committed in it.
	fromZero = 1 << iota
	// wrapped: at least 2^30 sequences were committed in this epoch, so every sequence behind next was.
	wrapped
	// marked: a marker ended a transaction of the producer here.
	marked

	allFlags = fromZero | wrapped | marked
)

// producer is what a partition remembers of one idempotent producer: 56 bytes, 64 with its id. Batches of an epoch
// follow each other in sequence without gaps, so their record counts give their sequences.
type producer struct {
	base    int64  // base offset of the newest batch
	next    int32  // base sequence of the next batch
	seen    uint32 // command time of the newest batch, seconds since the epoch
	epoch   int16
	kept    uint8 // batches remembered, up to window; 0 if a marker raised the epoch
	flags   uint8
	records [window]uint32     // newest first
	back    [window - 1]uint32 // base offset of batch i minus that of batch i+1
}

// producerDegree keeps the nodes of producer tables near 1 KiB (at most 15 producers): the first commit to a partition
// after a snapshot copies one.
const producerDegree = 8

func newProducers() btree.Map[int64, producer] { return *btree.NewMap[int64, producer](producerDegree) }

// restingDegree keeps their nodes as small.
const restingDegree = 24

func newResting() *btree.Map[int64, resting] { return btree.NewMap[int64, resting](restingDegree) }

// committed is the number of sequences before next that are known to have been committed in this epoch, at most
// sequenceHalf or more.
func (p *producer) committed() int64 {
	switch {
	case p.flags&wrapped != 0:
		return sequenceHalf
	case p.flags&fromZero != 0:
		return int64(p.next)
	}
	var n int64
	for _, r := range p.records[:p.kept] {
		n += int64(r)
	}
	return n
}

// resting is what is left of a producer that was idle for too long: where it goes on. Kafka forgets it
// whole and then takes any sequence (ProducerAppendInfo.checkSequence); here that would let a batch in ahead of the one
// before it, which is on its way through another agent, and that one would then be refused for good.
type resting struct {
	next  int32
	epoch int16
	flags uint8
	seen  uint32 // command time of the newest batch, seconds since the epoch
}

// check decides on a batch of a known producer, as Kafka's ProducerAppendInfo.checkProducerEpoch and checkSequence
// and ProducerStateEntry.findDuplicateBatch do, with two exceptions. A batch ahead of its sequence is a gap that may still
// close (Kafka: OUT_OF_ORDER_SEQUENCE_NUMBER, in a new epoch too). A batch that is provably committed is a duplicate even
// if its offset is forgotten (I3).
func (p *producer) check(b *commit.Run) (outcome commit.Outcome, base int64) {
	if b.ProducerEpoch != p.epoch {
		switch {
		case b.ProducerEpoch < p.epoch:
			return commit.Fenced, -1
		case b.BaseSequence == 0:
			return commit.Accepted, -1
		default:
			return commit.Gap, -1
		}
	}
	behind := int64((uint32(p.next) - uint32(b.BaseSequence)) & math.MaxInt32)
	switch {
	case behind == 0:
		return commit.Accepted, -1
	case behind > sequenceHalf:
		return commit.Gap, -1
	}
	if base, ok := p.find(behind, b.Records); ok {
		return commit.Duplicate, base
	}
	if b.Records <= behind && behind <= p.committed() {
		return commit.Duplicate, -1
	}
	return commit.OutOfOrder, -1
}

// find gives the base offset of the remembered batch that begins the given number of sequences before next.
func (p *producer) find(behind, records int64) (base int64, ok bool) {
	base = p.base
	var from int64
	for i := range int(p.kept) {
		if i > 0 {
			base -= int64(p.back[i-1])
		}
		if from += int64(p.records[i]); from >= behind {
			return base, from == behind && int64(p.records[i]) == records
		}
	}
	return 0, false
}

// add remembers an accepted batch. A zero producer becomes that of the batch, as does one of an older epoch; one at
// rest goes on with what it knows of its epoch.
func (p *producer) add(b *commit.Run, base, nowMs int64) {
	if p.kept == 0 || p.epoch != b.ProducerEpoch {
		flags := p.flags
		if p.epoch != b.ProducerEpoch {
			flags &= marked
		}
		if b.BaseSequence == 0 {
			flags |= fromZero
		}
		*p = producer{epoch: b.ProducerEpoch, flags: flags}
	}
	if distance := base - p.base; p.kept > 0 && distance <= math.MaxUint32 {
		copy(p.back[1:], p.back[:])
		copy(p.records[1:], p.records[:])
		p.back[0] = uint32(distance)
		p.kept = min(p.kept+1, window)
	} else {
		p.kept = 1
		p.back, p.records = [window - 1]uint32{}, [window]uint32{}
	}
	p.records[0] = uint32(b.Records)
	next := commit.NextSequence(b.BaseSequence, int32(b.Records))
	if p.flags&fromZero != 0 && (next <= b.BaseSequence || next >= sequenceHalf) {
		p.flags |= wrapped
	}
	p.base, p.next, p.seen = base, next, seconds(nowMs)
}

func seconds(ms int64) uint32 { return uint32(min(max(ms/1000, 0), math.MaxUint32)) }

// checkSequence decides on an idempotent batch in a topic's partition, nil if it never had a record. known is the
// producer's state there, zero if none.
func (e *topicEntry) checkSequence(p *partition, b *commit.Run) (outcome commit.Outcome, base int64, known producer) {
	if q, ok := p.producer(b.ProducerID); ok {
		outcome, base = q.check(b)
		return outcome, base, q
	}
	if b.BaseSequence == 0 || e.mayHaveForgotten(p, b.ProducerID) {
		return commit.Accepted, -1, producer{}
	}
	return commit.Gap, -1, producer{}
}

// mayHaveForgotten tells whether a producer without state in a partition may have had some: it was dropped there, or
// went with an earlier topic of the same name, which clients do not tell apart.
func (e *topicEntry) mayHaveForgotten(p *partition, producerID int64) bool {
	if p == nil || producerID < e.earlier {
		return producerID < e.earlier
	}
	_, forgotten := p.forgottenAt(producerID)
	return forgotten
}

// producer gives a producer's state, also that of one at rest, which has no batches. p may be nil.
func (p *partition) producer(producerID int64) (producer, bool) {
	if p == nil {
		return producer{}, false
	}
	if q, ok := p.producers.Get(producerID); ok {
		return q, ok
	}
	r, ok := p.restingOf(producerID)
	return producer{next: r.next, epoch: r.epoch, flags: r.flags}, ok
}

func (p *partition) restingOf(producerID int64) (resting, bool) {
	if p.resting == nil {
		return resting{}, false
	}
	return p.resting.Get(producerID)
}

// raiseEpoch does to a known producer what a marker does to it: one of a higher epoch fences what is late, and begins
// sequences anew (Kafka's ProducerStateEntry.maybeUpdateProducerEpoch).
func (p *partition) raiseEpoch(producerID int64, epoch int16, nowMs int64) {
	q, awake := p.producers.Get(producerID)
	if awake {
		q.flags |= marked
		if q.epoch < epoch {
			q = producer{epoch: epoch, flags: fromZero | marked}
		}
		q.seen = seconds(nowMs)
		p.setProducer(producerID, q)
		return
	}
	if p.resting == nil {
		return
	}
	if r, rests := p.resting.Get(producerID); rests && r.epoch < epoch {
		p.setResting(producerID, resting{epoch: epoch, flags: fromZero | marked, seen: r.seen})
	}
}

// AheadOfSequence tells whether a batch would be answered Gap now: it waits for an earlier one.
func (s *machine) AheadOfSequence(tp id.TopicPartition, b *commit.Run) bool {
	if b.ProducerID < 0 {
		return false
	}
	p, exists := s.partitionEntry(tp)
	if !exists {
		return false
	}
	e, _ := s.topics.Get(topicKey(tp.Topic))
	outcome := s.checkTransaction(tp, p, b)
	if outcome == commit.Accepted {
		outcome, _, _ = e.checkSequence(p, b)
	}
	return outcome == commit.Gap
}

package metadata

import (
	"math"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// coordinatorEpoch is that of the markers of transactions: the log has one coordinator for ever, so none of its
	// markers can be a zombie's.
	coordinatorEpoch int32 = 0
	// expirySteps bounds the work that one Tick does for transactions: one step for each, and one for each partition
	// and group that an aborted one has. One transaction is always taken.
	expirySteps = 4096
)

// endTransaction decides as Kafka's TransactionCoordinator.endTransaction and endTransactionWithTV1 do, apart from the states
// between, which do not exist here, and from what is late (see TransactionRef.AsOf).
func (s *machine) endTransaction(c *EndTransaction, fx *Effects) Result {
	t := s.transaction(c.TransactionalID)
	if t == nil {
		return Result{Err: ErrUnknownTransaction}
	}
	var err error
	if c.Version >= ProtocolTwo {
		t, err = s.endRaising(t, c, fx)
	} else {
		t, err = s.endKeeping(t, c, fx)
	}
	if err != nil {
		return Result{Err: err}
	}
	fx.Fenced = append(fx.Fenced, c.ProducerID)
	return Result{Value: EndTransactionResult{ProducerID: t.producerID, Epoch: t.epoch}}
}

// endKeeping ends a transaction of ProtocolOne, whose epoch goes on.
func (s *machine) endKeeping(t *transaction, c *EndTransaction, fx *Effects) (*transaction, error) {
	switch {
	case t.producerID != c.ProducerID:
		return nil, ErrUnknownTransaction
	case t.epoch != c.Epoch:
		return nil, ErrFencedProducer
	case t.state == completed(c.Commit):
		return t, nil // a repetition
	case t.state != TransactionOngoing || c.AsOf < t.began:
		return nil, ErrInvalidTransactionState
	}
	s.endEverywhere(t, t.marker(t.epoch, c.Commit), fx)
	return s.changeTransaction(t, func(t *transaction) { s.complete(t, c.Commit) }), nil
}

// endRaising ends a transaction of ProtocolTwo: the epoch rises, so that nothing of it fits any more, and a repetition
// is told by the epoch before. Aborting where nothing was begun raises the epoch too.
func (s *machine) endRaising(t *transaction, c *EndTransaction, fx *Effects) (*transaction, error) {
	// The epoch before is remembered only where its producer ended a transaction or time did, not where another one fenced
	// it.
	closed := t.state == TransactionCompleteCommit || t.state == TransactionCompleteAbort
	overflowed := t.previous == c.ProducerID && t.epoch == 0
	repeated := closed && c.Epoch >= 0 && t.lastEpoch == c.Epoch && (t.producerID == c.ProducerID || overflowed)
	switch {
	case repeated && t.state == completed(c.Commit):
		return t, nil
	case repeated:
		return nil, ErrInvalidTransactionState
	case t.producerID != c.ProducerID:
		return nil, ErrUnknownTransaction
	case t.epoch != c.Epoch:
		return nil, ErrFencedProducer
	case t.state != TransactionOngoing && c.Commit:
		return nil, ErrInvalidTransactionState
	}
	fresh := noProducer
	if exhausted(t.epoch) {
		if fresh = s.freshProducerID(); fresh < 0 {
			return nil, ErrInvalidCount
		}
	}
	s.endEverywhere(t, t.marker(min(t.epoch, math.MaxInt16-1)+1, c.Commit), fx)
	return s.changeTransaction(t, func(t *transaction) {
		if t.state != TransactionOngoing {
			t.started = s.now // of an abort of nothing, as Kafka has it
		}
		t.version = c.Version
		s.complete(t, c.Commit)
		t.nextEpoch(fresh)
	}), nil
}

// completed is the state that an end leads to.
func completed(commit bool) TransactionState {
	if commit {
		return TransactionCompleteCommit
	}
	return TransactionCompleteAbort
}

// complete makes an ended transaction complete; its markers are written.
func (s *machine) complete(t *transaction, commit bool) {
	t.state, t.ended = completed(commit), s.index
	t.partitions, t.groups, t.groupBytes = nil, nil, 0
}

// endEverywhere writes the markers of a transaction and settles its offsets. Partitions of topics deleted
// for good are passed over, and so is one whose offsets are used up.
func (s *machine) endEverywhere(t *transaction, m extent.EndMarker, fx *Effects) {
	if t.partitions != nil {
		w := s.markers(m, t.partitions.Len(), fx)
		t.partitions.Scan(func(p addedPartition) bool {
			w.write(p.TopicPartition)
			return true
		})
	}
	if t.groups != nil {
		for _, group := range t.groups.Keys() {
			s.endPendingOffsets(group, t.producerID, m.Commit)
		}
	}
}

// markerWriter writes one marker to several partitions.
type markerWriter struct {
	*machine
	fx      *Effects
	marker  extent.EndMarker
	extents []extent.Extent // room for one a partition, so that effects can refer to it
	topicID id.Topic
	topic   *topicEntry // of topicID, nil if there is none
}

func (s *machine) markers(m extent.EndMarker, count int, fx *Effects) markerWriter {
	return markerWriter{machine: s, fx: fx, marker: m, extents: make([]extent.Extent, 0, count)}
}

// find gives a partition that exists, nil if it never had a record.
func (w *markerWriter) find(tp id.TopicPartition) (*partition, bool) {
	if w.topic == nil || w.topicID != tp.Topic {
		w.topic, _ = w.topics.Get(topicKey(tp.Topic))
		w.topicID = tp.Topic
	}
	if w.topic == nil {
		return nil, false
	}
	return w.topic.partition(tp.Partition)
}

// write writes the marker to a partition, if that exists. A deleted topic that can be taken back gets its markers: the
// transactions that were open in it have ended as they ended elsewhere.
func (w *markerWriter) write(tp id.TopicPartition) {
	p, ok := w.find(tp)
	if !ok || !p.hasRoom() {
		return
	}
	w.topic = w.mutableTopic(w.topic)
	p = w.mutablePartition(w.topic, tp.Partition, p)
	var x extent.Extent
	var a extent.Aborted
	var aborted bool
	w.counting(w.topic, p, func() { x, a, aborted = w.writeMarker(p, w.marker) })
	if w.topic.deletion != nil {
		return // no client sees it
	}
	n := len(w.extents)
	w.extents = append(w.extents, x)
	effect := PartitionEffect{Partition: tp, Watermarks: p.watermarks(), Extents: w.extents[n : n+1 : n+1]}
	if aborted {
		effect.Aborted = []extent.Aborted{a}
	}
	w.fx.Partitions = append(w.fx.Partitions, effect)
}

// writeMarkers does what Kafka's KafkaApis.handleWriteTxnMarkersRequest and ProducerAppendInfo.appendEndTxnMarker do, save
// that coordinator epochs do not fence: every marker is applied in the order of the log.
func (s *machine) writeMarkers(c *WriteMarkers, fx *Effects) Result {
	errs := make([]error, len(c.Partitions))
	if c.ProducerID < 0 || c.Epoch < 0 {
		for i := range errs {
			errs[i] = ErrFencedProducer
		}
		return Result{Value: errs}
	}
	m := extent.EndMarker{ProducerID: c.ProducerID, Epoch: c.Epoch, Commit: c.Commit, CoordinatorEpoch: c.CoordinatorEpoch}
	w := s.markers(m, len(c.Partitions), fx)
	for i, tp := range c.Partitions {
		p, ok := w.find(tp)
		if !ok || w.topic.deletion != nil {
			errs[i] = ErrUnknownPartition
			continue
		}
		if q, known := p.producer(c.ProducerID); known && c.Epoch < q.epoch {
			errs[i] = ErrFencedProducer
			continue
		}
		w.write(tp)
	}
	return Result{Value: errs}
}

// expireTransactions aborts transactions that are open for longer than their time-out, and forgets transactional ids
// that were not used for long, both in the order of their time.
func (s *machine) expireTransactions(fx *Effects) {
	for steps := expirySteps; steps > 0; {
		due, ok := s.transactions.due.Min()
		if !ok || due.at > s.now {
			return
		}
		t, _ := s.transactions.byProducer.Get(due.producerID)
		steps--
		if t.state != TransactionOngoing {
			s.transactions.remove(t)
			continue
		}
		if t.partitions != nil {
			steps -= t.partitions.Len()
		}
		if t.groups != nil {
			steps -= t.groups.Len()
		}
		fx.Fenced = append(fx.Fenced, t.producerID)
		s.abortLate(t, fx)
	}
}

// abortLate aborts a transaction that is open for too long, as its own producer would by ProtocolTwo (Kafka's
// TransactionCoordinator.abortTimedOutTransactions, with clients of every protocol): the epoch rises, so what it still
// sends is refused, which clients answer with an abort of their own, or with an InitTransaction that gives their epoch.
// Both are taken for repetitions, and answered with what the producer goes on with (KIP-588).
func (s *machine) abortLate(t *transaction, fx *Effects) {
	fresh := noProducer
	if exhausted(t.epoch) {
		if fresh = s.freshProducerID(); fresh < 0 {
			s.abortFencing(t, fx)
			return
		}
	}
	s.endEverywhere(t, t.marker(t.epoch+1, false), fx)
	s.changeTransaction(t, func(t *transaction) {
		s.complete(t, false)
		t.nextEpoch(fresh)
	})
}

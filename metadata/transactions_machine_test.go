package metadata

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// randomTransaction makes a command of transactions over a few names.
func randomTransaction(rng *rand.Rand, s *machine) Command {
	name := fmt.Sprint("x", rng.IntN(5))
	info, known := s.Transaction(name)
	if !known || rng.IntN(12) == 0 {
		c := &InitTransaction{
			TransactionalID: name, TimeoutMs: 1 + rng.Int32N(resultRetentionMs), ProducerID: -1, ProducerEpoch: -1,
		}
		if known && rng.IntN(2) == 0 {
			c.ProducerID, c.ProducerEpoch = info.ProducerID, info.Epoch-int16(rng.IntN(2))
		}
		return c
	}
	ref := TransactionRef{
		TransactionalID: name, ProducerID: info.ProducerID, Epoch: info.Epoch, Version: ProtocolOne + int8(rng.IntN(2)),
		AsOf: s.index - min(s.index, rng.Uint64N(4)),
	}
	if rng.IntN(10) == 0 {
		ref.Epoch--
	}
	var partitions []id.TopicPartition
	for range 1 + rng.IntN(4) {
		partitions = append(partitions, id.TopicPartition{Topic: topicID(fmt.Sprint(rng.IntN(4))), Partition: rng.Int32N(8)})
	}
	switch rng.IntN(7) {
	case 0, 1:
		return &AddPartitions{TransactionRef: ref, Partitions: partitions}
	case 2:
		return &AddOffsets{TransactionRef: ref, Group: fmt.Sprint("g", rng.IntN(3))}
	case 3:
		return &CommitOffsets{Group: fmt.Sprint("g", rng.IntN(3)), Transaction: &ref, Offsets: []OffsetCommit{{
			Partition: partitions[0], Offset: rng.Int64N(9), LeaderEpoch: -1, ExpiresMs: -1,
		}}}
	case 4:
		return &WriteMarkers{
			ProducerID: rng.Int64N(min(s.nextProducerID, math.MaxInt64-1) + 1), Epoch: int16(rng.IntN(9)), Commit: rng.IntN(2) == 0,
			CoordinatorEpoch: rng.Int32N(3), Partitions: partitions,
		}
	default:
		return &EndTransaction{TransactionRef: ref, Commit: rng.IntN(2) == 0}
	}
}

// randomTransactional makes batches that fit what producers may send now, more often than not.
func randomTransactional(rng *rand.Rand, s *machine, session id.Session, n uint32) Command {
	var sections []section
	for range 1 + rng.IntN(8) {
		info, known := s.Transaction(fmt.Sprint("x", rng.IntN(5)))
		if !known {
			continue
		}
		sec := section{topic: fmt.Sprint(rng.IntN(4)), partition: rng.Int32N(8)}
		next, _ := s.ProducerSequence(id.TopicPartition{Topic: topicID(sec.topic), Partition: sec.partition}, info.ProducerID, info.Epoch)
		sec.batches = append(sec.batches, commit.Batch{
			Records: 1 + rng.Int32N(3), Bytes: 61, ProducerID: info.ProducerID, ProducerEpoch: info.Epoch, BaseSequence: next,
			Transactional: rng.IntN(8) > 0, TransactionVersion: ProtocolOne + int8(rng.IntN(2)), AsOf: s.index - min(s.index, rng.Uint64N(2)),
		})
		sections = append(sections, sec)
	}
	return &CommitBundle{Encoded: encodeCommit(commit.Header{Submission: id.Submission{Session: session, N: n}, Bytes: 1 << 20}, sections...)}
}

// sentBatch is a batch on its way, in the transaction that its producer was in when it sent it.
type sentBatch struct {
	commit.Batch
	partition int32
	aborts    int // transactions that the producer had ended when it sent this
}

// sentRequest is a request to the coordinator on its way.
type sentRequest struct {
	command Command
	ended   int
}

// modelProducer is a producer as its client knows it, and its transactions as they should be.
type modelProducer struct {
	name     string
	protocol int8
	id       int64
	epoch    int16
	next     map[int32]int32 // sequences by partition
	added    map[int32]bool
	asOf     uint64 // index of the newest answer it had
	ended    int    // transactions it has ended
	batches  []sentBatch
	requests []sentRequest
}

// interleaving is a state, its producers, and what every transaction of them wrote where.
type interleaving struct {
	*testing.T
	rng       *rand.Rand
	state     *machine
	index     uint64
	elapsed   int64 // ms that passed besides those of the commands
	n         uint32
	producers []*modelProducer
	accepted  map[string]int           // "producer/ended" -> batches accepted
	outcome   map[string]bool          // "producer/ended" -> committed
	spans     map[int32][]acceptedSpan // by partition
	late      map[commit.Outcome]int   // refused late batches
	lateEnds  int
}

// acceptedSpan is where a batch went.
type acceptedSpan struct {
	first, last int64
	producerID  int64
	transaction string
}

func (m *interleaving) apply(c Command) Result {
	m.index++
	parsed, err := ParseBatch(AppendBatch(nil, &Batch{Now: int64(m.index) + m.elapsed, Commands: []Command{c}}))
	require.NoError(m, err)
	return m.state.Apply(m.index, parsed, nil, nil)[0]
}

func (p *modelProducer) ref() TransactionRef {
	return TransactionRef{TransactionalID: p.name, ProducerID: p.id, Epoch: p.epoch, Version: p.protocol, AsOf: p.asOf}
}

func (p *modelProducer) transaction(ended int) string { return fmt.Sprintf("%s/%d", p.name, ended) }

// send makes the next batch of a producer, adding its partition first where that takes a request.
func (m *interleaving) send(p *modelProducer) {
	partition := m.rng.Int32N(3)
	if p.protocol == ProtocolOne && !p.added[partition] {
		tp := id.TopicPartition{Topic: topicID("t"), Partition: partition}
		add := &AddPartitions{TransactionRef: p.ref(), Partitions: []id.TopicPartition{tp}}
		r := m.apply(add)
		require.NoError(m, r.Err)
		p.requests = append(p.requests, sentRequest{add, p.ended}) // a copy of it stays on its way
		p.asOf = m.index
	}
	p.added[partition] = true
	b := commit.Batch{
		Records: 1 + m.rng.Int32N(3), Bytes: 61, ProducerID: p.id, ProducerEpoch: p.epoch, BaseSequence: p.next[partition],
		Transactional: true, TransactionVersion: p.protocol, AsOf: p.asOf,
	}
	p.next[partition] += b.Records
	p.batches = append(p.batches, sentBatch{b, partition, p.ended})
}

// deliver hands a batch in, and says whether it was accepted.
func (m *interleaving) deliver(p *modelProducer, b sentBatch) commit.Outcome {
	m.n++
	r := m.apply(commitOf(1, m.n, m.n-1, section{"t", b.partition, []commit.Batch{b.Batch}}))
	require.NoError(m, r.Err)
	span := r.Value.(*commit.Result).Sections[0].Spans[0]
	if span.Outcome == commit.Accepted {
		require.Equal(m, p.ended, b.aborts, "%s: a batch of transaction %d entered another", p.name, b.aborts)
		m.accepted[p.transaction(b.aborts)]++
		m.spans[b.partition] = append(m.spans[b.partition], acceptedSpan{
			span.Base, span.Base + int64(b.Records) - 1, b.ProducerID, p.transaction(b.aborts),
		})
	}
	return span.Outcome
}

// end ends a producer's transaction: with what it sent delivered first if it commits, some of that never answered if
// it aborts. Copies of everything stay on their way.
func (m *interleaving) end(p *modelProducer) {
	doCommit := m.rng.IntN(2) == 0
	var late []sentBatch
	for _, b := range p.batches {
		if b.aborts != p.ended {
			late = append(late, b)
			continue
		}
		if doCommit || m.rng.IntN(2) == 0 {
			o := m.deliver(p, b)
			require.Contains(m, []commit.Outcome{commit.Accepted, commit.Duplicate, commit.Gap}, o)
			require.True(m, !doCommit || o != commit.Gap, "in order, nothing is missing")
		}
		late = append(late, b)
	}
	p.batches = late[max(0, len(late)-20):]
	if len(p.added) == 0 {
		return
	}
	c := &EndTransaction{TransactionRef: p.ref(), Commit: doCommit}
	if p.protocol == ProtocolTwo && m.accepted[p.transaction(p.ended)] == 0 {
		c.Commit = false // nothing of it arrived: there is nothing to commit
	}
	r := m.apply(c)
	require.NoError(m, r.Err)
	require.Equal(m, r, m.apply(c), "repeated")
	m.outcome[p.transaction(p.ended)] = c.Commit
	p.requests = append(p.requests, sentRequest{c, p.ended})
	p.requests = p.requests[max(0, len(p.requests)-10):]
	v := r.Value.(EndTransactionResult)
	if v.Epoch != p.epoch {
		p.next = map[int32]int32{}
	}
	p.id, p.epoch, p.asOf, p.added = v.ProducerID, v.Epoch, m.index-1, map[int32]bool{}
	p.ended++
	if p.protocol == ProtocolOne && !c.Commit {
		m.afterAbort(p)
	}
}

// expire lets the open transactions time out. Their producers find that out as clients do: by an abort of their own, which is
// answered, or, in protocol 1, by giving their epoch for another.
func (m *interleaving) expire() {
	m.elapsed += 60_001
	m.apply(&Tick{})
	for _, p := range m.producers {
		if info, _ := m.state.Transaction(p.name); info.Epoch == p.epoch {
			continue // nothing was open
		}
		m.outcome[p.transaction(p.ended)] = false
		if p.protocol == ProtocolOne {
			m.init(p, p.id, p.epoch)
			p.ended++
			continue
		}
		c := &EndTransaction{TransactionRef: p.ref()}
		r := m.apply(c)
		require.NoError(m, r.Err)
		p.requests = append(p.requests, sentRequest{c, p.ended})
		v := r.Value.(EndTransactionResult)
		p.id, p.epoch, p.asOf, p.added, p.next = v.ProducerID, v.Epoch, m.index-1, map[int32]bool{}, map[int32]int32{}
		p.ended++
	}
}

// afterAbort lets a producer of protocol 1 go on, of whose batches some may not have arrived: in another epoch
// (KIP-360), or, as clients did before, in the same one with what was the last to arrive.
func (m *interleaving) afterAbort(p *modelProducer) {
	if m.rng.IntN(2) == 0 {
		m.init(p, p.id, p.epoch)
		return
	}
	for partition := range p.next {
		tp := id.TopicPartition{Topic: topicID("t"), Partition: partition}
		p.next[partition], _ = m.state.ProducerSequence(tp, p.id, p.epoch)
	}
}

func (m *interleaving) init(p *modelProducer, producerID int64, epoch int16) {
	r := m.apply(&InitTransaction{TransactionalID: p.name, TimeoutMs: 60_000, ProducerID: producerID, ProducerEpoch: epoch})
	require.NoError(m, r.Err)
	v := r.Value.(InitTransactionResult)
	p.id, p.epoch, p.asOf, p.next, p.added = v.ProducerID, v.Epoch, m.index, map[int32]int32{}, map[int32]bool{}
}

// replay delivers something sent earlier once more, as an agent does that was slow.
func (m *interleaving) replay(p *modelProducer) {
	if len(p.batches) > 0 {
		b := p.batches[m.rng.IntN(len(p.batches))]
		if o := m.deliver(p, b); b.aborts != p.ended {
			m.late[o]++
		}
	}
	if len(p.requests) == 0 {
		return
	}
	r := p.requests[m.rng.IntN(len(p.requests))]
	if _, adds := r.command.(*AddPartitions); adds && r.ended == p.ended {
		return
	}
	before, _ := m.state.Transaction(p.name)
	m.apply(r.command)
	after, _ := m.state.Transaction(p.name)
	require.Equal(m, before, after, "%T of transaction %d in %d", r.command, r.ended, p.ended)
	m.lateEnds++
}

// check compares what a reader of committed records would see with the outcomes of the transactions.
func (m *interleaving) check() {
	seen := map[string]map[bool]bool{}
	for partition, spans := range m.spans {
		tp := id.TopicPartition{Topic: topicID("t"), Partition: partition}
		w, _ := m.state.Watermarks(tp)
		aborted := m.state.AbortedTransactions(tp, 0, w.LastStable)
		for _, span := range spans {
			if span.first >= w.LastStable {
				continue
			}
			committed := true
			for _, a := range aborted {
				committed = committed && (a.ProducerID != span.producerID || span.last < a.First || span.first > a.Last)
			}
			want, ended := m.outcome[span.transaction]
			require.True(m, ended, "%s is open below the last stable offset", span.transaction)
			require.Equal(m, want, committed, "%s at %d of %d", span.transaction, span.first, partition)
			if seen[span.transaction] == nil {
				seen[span.transaction] = map[bool]bool{}
			}
			seen[span.transaction][committed] = true
			require.Len(m, seen[span.transaction], 1, "%s is torn", span.transaction)
		}
	}
}

// TestTransactions_NoBatchEntersAnother lets producers of both protocols run through transactions while copies of what
// they sent keep arriving late. No batch may enter another transaction than the one it was sent in, no late request may
// change one, and what a reader of committed records sees must be what was committed.
func TestTransactions_NoBatchEntersAnother(t *testing.T) {
	late, requests := map[commit.Outcome]int{}, 0
	for seed := range uint64(12) {
		m := &interleaving{
			T: t, rng: rand.New(rand.NewPCG(seed, 11)), state: newMachine(), accepted: map[string]int{}, outcome: map[string]bool{},
			spans: map[int32][]acceptedSpan{}, late: late,
		}
		m.apply(&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 3})
		m.apply(&OpenSession{Instance: "a"})
		for i := range 4 {
			p := &modelProducer{name: fmt.Sprint("x", i), protocol: ProtocolOne + int8(i%2)}
			m.producers = append(m.producers, p)
			m.init(p, -1, -1)
		}
		for range 400 {
			p := m.producers[m.rng.IntN(len(m.producers))]
			switch m.rng.IntN(8) {
			case 0:
				if m.rng.IntN(8) == 0 {
					m.expire()
				}
				m.end(p)
			case 1, 2:
				m.replay(p)
			case 3:
				for _, b := range p.batches {
					if b.aborts == p.ended {
						m.deliver(p, b)
					}
				}
			default:
				m.send(p)
			}
		}
		m.check()
		m.state = restore(t, m.state)
		requireDerived(t, m.state)
		m.check()
		requests += m.lateEnds
	}
	require.Greater(t, late[commit.InvalidTxn], 20, "of protocol 1")
	require.Greater(t, late[commit.Fenced], 20, "of protocol 2")
	require.Zero(t, late[commit.Accepted])
	require.Greater(t, requests, 100)
}

// TestAbortedTransactions_AgainstAll compares the answers for all ranges with a walk over everything that was aborted.
func TestAbortedTransactions_AgainstAll(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := newMachine()
		p := &partition{gen: s.gen, producers: newProducers()}
		var all []extent.Aborted
		for range 60 {
			producer := rng.Int64N(6)
			if rng.IntN(2) == 0 {
				p.openTransaction(producer, p.high)
				p.high++
				continue
			}
			if _, a, aborted := s.writeMarker(p, extent.EndMarker{ProducerID: producer, Commit: rng.IntN(3) == 0}); aborted {
				all = append(all, a)
			}
		}
		e := &topicEntry{gen: s.gen, topic: &Topic{ID: topicID("t"), Partitions: 1}}
		e.partitions.Set(0, p)
		s.topics.Set(topicKey(e.topic.ID), e)
		tp := id.TopicPartition{Topic: e.topic.ID}
		stable := p.lastStable()
		for range 100 {
			from, to := rng.Int64N(p.high), rng.Int64N(stable+1)
			p.logStart = rng.Int64N(2) * rng.Int64N(p.high)
			var want []extent.Aborted
			for _, a := range all {
				if a.First < to && a.Last >= max(from, p.logStart) {
					want = append(want, a)
				}
			}
			require.Equal(t, want, s.AbortedTransactions(tp, from, to), "seed %d [%d, %d) of %v", seed, from, to, all)
		}
	}
}

// TestTick_BoundedTransactions lets more transactional ids come due than one Tick takes.
func TestTick_BoundedTransactions(t *testing.T) {
	s := newMachine()
	commands := []Command{&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 10}}
	for i := range 2*expirySteps + 10 {
		commands = append(commands, &InitTransaction{TransactionalID: fmt.Sprint(i), TimeoutMs: 1000, ProducerID: -1, ProducerEpoch: -1})
	}
	s.Apply(1, &Batch{Commands: commands}, nil, nil)
	tick := func(index uint64) {
		s.Apply(index, &Batch{Now: TransactionalIDExpirationMs, Commands: []Command{&Tick{}}}, nil, nil)
	}
	tick(2)
	require.Equal(t, expirySteps+10, s.transactions.byProducer.Len())
	tick(3)
	tick(4)
	require.Zero(t, s.transactions.byProducer.Len())
	requireDerived(t, s)
}

// TestPartition_ForgetsTrimmedAborts aborts many transactions and trims them away: they go step by step, and readers
// do not see them meanwhile.
func TestPartition_ForgetsTrimmedAborts(t *testing.T) {
	s := newMachine()
	p := &partition{gen: s.gen, producers: newProducers()}
	abort := func() {
		p.openTransaction(1, p.high)
		p.high++
		s.writeMarker(p, extent.EndMarker{ProducerID: 1})
	}
	for range 3 * trimmedPerTrim {
		abort()
	}
	e := &topicEntry{gen: s.gen, topic: &Topic{ID: topicID("t"), Partitions: 1}}
	e.partitions.Set(0, p)
	s.topics.Set(topicKey(e.topic.ID), e)
	tp := id.TopicPartition{Topic: e.topic.ID}
	require.Len(t, s.AbortedTransactions(tp, 0, p.high), 3*trimmedPerTrim)
	s.Apply(1, &Batch{Commands: []Command{&TrimPartitions{Trims: []Trim{{tp, -1}}}}}, nil, nil)
	require.Empty(t, s.AbortedTransactions(tp, 0, p.high))
	require.Equal(t, 2*trimmedPerTrim, p.transactions.aborted.Len())
	for range 2 * trimmedPerTrim / (trimmedPerMarker - 1) {
		abort()
	}
	require.LessOrEqual(t, p.transactions.aborted.Len(), 2*trimmedPerTrim/(trimmedPerMarker-1)+trimmedPerMarker)
}

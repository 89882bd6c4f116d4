package commit

import (
	"encoding/binary"
	"math"

	"github.com/freshet-io/freshet/metadata/id"
)

const (
	formatVersion = 1

	flagResubmit = 1
	flagAsOf     = 2
)

// Codes of a run's producer (see the package comment).
const (
	codePlain = iota
	codeNext
	codeContinues
	codeSame
	codeDictionary
)

// producer is one entry of the producer dictionary.
type producer struct {
	id            int64
	epoch         int16
	transactional bool
	version       int8
}

// hasAsOf tells whether the producer's runs have a value in the column as-of.
func (p *producer) hasAsOf() bool { return p.transactional && p.version < 2 }

// Builder encodes one commit. Call Reset, then for each section Section and its batches with Batch, in the order
// they lie in the object, then AppendTo. A Builder is reused for the next commit; it is not safe for concurrent use.
type Builder struct {
	header Header
	end    int64 // of the last section in the object

	topics    []id.Topic
	topicAt   map[id.Topic]int
	producers []producer
	prodAt    map[producer]int

	topic, partition, gap, runs     []uint64
	code, records, bytes, timestamp []uint64
	batches, sequence, asOf         []uint64
	scratch                         []uint64
	last                            int   // dictionary index of the last idempotent run, -1 if none
	next                            int32 // the sequence that would continue it
}

// Reset drops what was added and begins a commit.
func (b *Builder) Reset(h Header) {
	if b.topicAt == nil {
		b.topicAt, b.prodAt = make(map[id.Topic]int), make(map[producer]int)
	}
	clear(b.topicAt)
	clear(b.prodAt)
	b.header, b.end, b.last = h, 0, -1
	b.topics, b.producers = b.topics[:0], b.producers[:0]
	for _, c := range []*[]uint64{
		&b.topic, &b.partition, &b.gap, &b.runs, &b.code, &b.records, &b.bytes, &b.timestamp, &b.batches, &b.sequence, &b.asOf,
	} {
		*c = (*c)[:0]
	}
}

// Section begins a section. Sections come in ascending, not overlapping positions, and have at least one batch.
func (b *Builder) Section(s Section) {
	t, ok := b.topicAt[s.Partition.Topic]
	if !ok {
		t = len(b.topics)
		b.topicAt[s.Partition.Topic] = t
		b.topics = append(b.topics, s.Partition.Topic)
	}
	b.topic = append(b.topic, uint64(t))
	b.partition = append(b.partition, uint64(s.Partition.Partition))
	b.gap = append(b.gap, uint64(int64(s.Position)-b.end)) // below 0 becomes huge, which Parse refuses
	b.runs = append(b.runs, 0)
	b.end = int64(s.Position)
}

// Batch adds the next batch of the section begun last.
func (b *Builder) Batch(a Batch) {
	s := len(b.runs) - 1
	b.end += int64(a.Bytes)
	timestamp := uint64(max(a.MaxTimestamp, -1)) + 1
	if a.ProducerID < 0 {
		if r := len(b.code) - 1; b.runs[s] > 0 && b.code[r] == codePlain {
			b.records[r] += uint64(a.Records)
			b.bytes[r] += uint64(a.Bytes)
			b.timestamp[r] = max(b.timestamp[r], timestamp)
			b.batches[len(b.batches)-1]++
			return
		}
		b.code = append(b.code, codePlain)
		b.batches = append(b.batches, 0)
	} else {
		b.idempotent(a)
	}
	b.runs[s]++
	b.records = append(b.records, uint64(a.Records))
	b.bytes = append(b.bytes, uint64(a.Bytes))
	b.timestamp = append(b.timestamp, timestamp)
}

// idempotent adds the code of a batch with a producer id, and its sequence unless it follows from the run before.
func (b *Builder) idempotent(a Batch) {
	p := producer{a.ProducerID, a.ProducerEpoch, a.Transactional, a.TransactionVersion}
	i, known := b.prodAt[p]
	var code uint64
	switch {
	case !known:
		i = len(b.producers)
		b.prodAt[p] = i
		b.producers = append(b.producers, p)
		code = codeNext
	case i != b.last:
		code = codeDictionary + uint64(i)
	case a.BaseSequence != b.next:
		code = codeSame
	default:
		code = codeContinues
	}
	if code != codeContinues {
		b.sequence = append(b.sequence, uint64(a.BaseSequence))
	}
	if p.hasAsOf() {
		b.asOf = append(b.asOf, a.AsOf)
	}
	b.code = append(b.code, code)
	b.last, b.next = i, NextSequence(a.BaseSequence, a.Records)
}

// NextSequence gives the sequence after a batch of the given records that begins at base: sequences wrap from 2^31-1
// to 0 (Kafka's DefaultRecordBatch.incrementSequence).
func NextSequence(base, records int32) int32 {
	return int32((int64(base) + int64(records)) & math.MaxInt32)
}

// AppendTo appends the commit's bytes, which depend on what was added alone.
func (b *Builder) AppendTo(dst []byte) []byte {
	var flags byte
	if b.header.Resubmit {
		flags |= flagResubmit
	}
	if len(b.asOf) > 0 {
		flags |= flagAsOf
	}
	dst = append(dst, formatVersion, flags)
	for _, v := range []uint64{
		uint64(b.header.Submission.Session), uint64(b.header.Submission.N), uint64(b.header.Acked), uint64(b.header.Bytes),
		uint64(len(b.topics)), uint64(len(b.topic)), uint64(len(b.code)), uint64(len(b.producers)),
		uint64(len(b.batches)), uint64(len(b.sequence)),
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	if len(b.asOf) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(b.asOf)))
	}
	for i := range b.topics {
		dst = append(dst, b.topics[i][:]...)
	}
	dst = appendColumn(dst, b.topic)
	dst = appendColumn(dst, b.partition)
	dst = appendColumn(dst, b.gap)
	dst = appendColumn(dst, b.lessOne(b.runs))
	dst = b.appendProducers(dst)
	dst = appendColumn(dst, b.code)
	dst = appendColumn(dst, b.records)
	dst = appendColumn(dst, b.bytes)
	dst = appendColumn(dst, b.timestamp)
	dst = appendColumn(dst, b.batches)
	dst = appendColumn(dst, b.sequence)
	return appendColumn(dst, b.asOf)
}

func (b *Builder) lessOne(values []uint64) []uint64 {
	b.scratch = b.scratch[:0]
	for _, v := range values {
		b.scratch = append(b.scratch, v-1)
	}
	return b.scratch
}

func (b *Builder) appendProducers(dst []byte) []byte {
	b.scratch = b.scratch[:0]
	var before int64
	for _, p := range b.producers {
		d := p.id - before
		b.scratch = append(b.scratch, uint64(d<<1)^uint64(d>>63))
		before = p.id
	}
	dst = appendColumn(dst, b.scratch)
	b.scratch = b.scratch[:0]
	for _, p := range b.producers {
		b.scratch = append(b.scratch, uint64(uint16(p.epoch)))
	}
	dst = appendColumn(dst, b.scratch)
	b.scratch = b.scratch[:0]
	for _, p := range b.producers {
		v := uint64(uint8(p.version)) << 1
		if p.transactional {
			v |= 1
		}
		b.scratch = append(b.scratch, v)
	}
	return appendColumn(dst, b.scratch)
}

package commit

import (
	"fmt"
	"math"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// MinBatchBytes is the size of a record batch without records (Kafka's DefaultRecordBatch.RECORD_BATCH_OVERHEAD).
const MinBatchBytes = 61

// Run is one idempotent batch, or any number of adjacent batches without producer id of which only totals are known.
type Run struct {
	Batches            uint32 // 1 with a producer id
	Records            int64  // >= Batches; at most 2^31-1 with a producer id
	Bytes              int64
	MaxTimestamp       int64 // -1 if none
	ProducerID         int64 // NoProducer if not idempotent
	BaseSequence       int32
	ProducerEpoch      int16
	Transactional      bool
	TransactionVersion int8
	AsOf               uint64 // of a transactional run of version 1, 0 of others
}

// SectionRuns is a section as the Reader gives it.
type SectionRuns struct {
	Section
	Topic int // index into the commit's topic dictionary
	Runs  int // >= 1
}

// largestTimestamp is how timestamp 2^63-1 stands in its column.
const largestTimestamp = math.MaxInt64 + 1

// The columns in the order they are encoded.
const (
	colTopic = iota
	colPartition
	colGap
	colRuns
	colCode
	colRecords
	colBytes
	colTimestamp
	colBatches
	colSequence
	colAsOf
	columnCount
)

// Reader iterates a commit:
//
//	for r.NextSection(&s) {
//		for r.NextRun(&run) {
//		}
//	}
//
// Parse has validated everything, so iterating cannot fail and allocates nothing. Rewind starts over. A Reader can be
// used again with Reset. It is not safe for concurrent use, and aliases the bytes it was given.
type Reader struct {
	header    Header
	topics    []byte // T x 16
	producers []producer
	sections  int
	runs      int

	start [columnCount]column
	at    [columnCount]column

	section   int   // sections given so far
	inSection int   // runs left in the current section
	end       int64 // of the sections given so far, in the object
	named     int   // dictionary entries named so far
	last      int   // dictionary index of the last idempotent run, -1 if none
	next      int32 // the sequence that continues it
	err       error
}

// ParseHeader reads the header only and validates nothing else. Errors wrap ErrMalformed.
func ParseHeader(p []byte) (Header, error) {
	w := wire.NewReader(p)
	h, _ := readHeader(&w)
	if err := w.Err(); err != nil {
		return Header{}, fmt.Errorf("%w: header: %w", ErrMalformed, err)
	}
	return h, nil
}

// Counts are counts of a commit's header.
type Counts struct {
	Sections int
	Runs     int
	Plain    int // runs without producer id
}

// ParseCounts reads the counts of the header in constant time. It validates the header only, without the topics. Errors wrap ErrMalformed.
func ParseCounts(p []byte) (Counts, error) {
	w := wire.NewReader(p)
	_, _ = readHeader(&w)
	_ = w.Uvarint() // topics
	counts := [4]uint64{}
	for i := range counts {
		counts[i] = w.Uvarint()
		if counts[i] > uint64(len(p))*blockValues {
			w.Fail("%d values claimed in %d bytes", counts[i], len(p))
		}
	}
	if counts[0] > counts[1] || counts[3] > counts[1] {
		w.Fail("counts %d", counts)
	}
	if err := w.Err(); err != nil {
		return Counts{}, fmt.Errorf("%w: header: %w", ErrMalformed, err)
	}
	return Counts{Sections: int(counts[0]), Runs: int(counts[1]), Plain: int(counts[3])}, nil
}

func readHeader(w *wire.Reader) (h Header, asOf bool) {
	if v := w.Byte(); v != formatVersion {
		w.Fail("version %d", v)
	}
	flags := w.Byte()
	h.Resubmit = flags&flagResubmit != 0
	if flags&^(flagResubmit|flagAsOf) != 0 {
		w.Fail("flags %x", flags)
	}
	h.Submission.Session = id.Session(w.Uint32())
	h.Submission.N = w.Uint32()
	h.Acked = w.Uint32()
	h.Bytes = w.Uint32()
	if w.Err() == nil && (h.Submission.Session == 0 || h.Submission.N == 0) {
		w.Fail("submission %s", h.Submission)
	}
	return h, flags&flagAsOf != 0
}

// Parse validates a whole commit. What it allocates is bounded by a small multiple of len(p). Errors wrap
// ErrMalformed.
func Parse(p []byte) (*Reader, error) {
	r := new(Reader)
	if err := r.Reset(p); err != nil {
		return nil, err
	}
	return r, nil
}

// Reset is Parse into an existing Reader. After an error the Reader must not be used before the next Reset.
func (r *Reader) Reset(p []byte) error {
	w := wire.NewReader(p)
	header, asOf := readHeader(&w)
	r.header = header
	topics := w.Uvarint()
	counts := [6]uint64{} // sections, runs, producers, plain, explicit, with as-of
	for i := range counts {
		if i == len(counts)-1 && !asOf {
			break
		}
		counts[i] = w.Uvarint()
		if counts[i] > uint64(len(p))*blockValues {
			w.Fail("%d values claimed in %d bytes", counts[i], len(p))
		}
	}
	if topics > uint64(w.Len()/16) || counts[0] > counts[1] || counts[2] > counts[1] || asOf != (counts[5] > 0) {
		w.Fail("counts %d %d", topics, counts)
	}
	r.topics = w.Take(int(topics) * 16)
	if err := w.Err(); err != nil {
		return fmt.Errorf("%w: header: %w", ErrMalformed, err)
	}
	r.sections, r.runs = int(counts[0]), int(counts[1])
	if err := r.columns(w.Rest(), counts); err != nil {
		return err
	}
	r.Rewind()
	return r.validate()
}

// columns finds where each column starts and reads the producer dictionary.
func (r *Reader) columns(p []byte, counts [6]uint64) error {
	var dict [3]column
	producers, plain, explicit := int(counts[2]), int(counts[3]), int(counts[4])
	plan := [...]struct {
		col   *column
		count int
	}{
		{&r.start[colTopic], r.sections},
		{&r.start[colPartition], r.sections},
		{&r.start[colGap], r.sections},
		{&r.start[colRuns], r.sections},
		{&dict[0], producers},
		{&dict[1], producers},
		{&dict[2], producers},
		{&r.start[colCode], r.runs},
		{&r.start[colRecords], r.runs},
		{&r.start[colBytes], r.runs},
		{&r.start[colTimestamp], r.runs},
		{&r.start[colBatches], plain},
		{&r.start[colSequence], explicit},
		{&r.start[colAsOf], int(counts[5])},
	}
	for i, c := range plan {
		rest, ok := skipColumn(p, c.count)
		if !ok {
			return fmt.Errorf("%w: column %d is cut", ErrMalformed, i)
		}
		*c.col = newColumn(p, c.count)
		p = rest
	}
	if len(p) > 0 {
		return fmt.Errorf("%w: %d bytes left over", ErrMalformed, len(p))
	}
	return r.dictionary(&dict, producers)
}

func (r *Reader) dictionary(dict *[3]column, count int) error {
	r.producers = r.producers[:0]
	if cap(r.producers) < count {
		r.producers = make([]producer, 0, count)
	}
	var before int64
	for range count {
		d := dict[0].next()
		before += int64(d>>1) ^ -int64(d&1)
		epoch, txn := dict[1].next(), dict[2].next()
		if before < 0 || epoch > math.MaxInt16 || txn > math.MaxInt8<<1|1 {
			return fmt.Errorf("%w: producer %d epoch %d transaction %d", ErrMalformed, before, epoch, txn)
		}
		r.producers = append(r.producers, producer{before, int16(epoch), txn&1 != 0, int8(txn >> 1)})
	}
	return nil
}

// validate walks everything once.
func (r *Reader) validate() error {
	var s SectionRuns
	var run Run
	for r.NextSection(&s) {
		for r.NextRun(&run) {
		}
	}
	switch {
	case r.err != nil:
		return r.err
	case r.end > int64(r.header.Bytes):
		return fmt.Errorf("%w: sections end at %d of %d bytes", ErrMalformed, r.end, r.header.Bytes)
	case r.named != len(r.producers):
		return fmt.Errorf("%w: %d of %d producers named", ErrMalformed, r.named, len(r.producers))
	}
	for i := range r.at {
		if r.at[i].more() {
			return fmt.Errorf("%w: values left in column %d", ErrMalformed, i)
		}
	}
	r.Rewind()
	return nil
}

// Header gives the commit's header.
func (r *Reader) Header() Header { return r.header }

// Sections is the number of sections.
func (r *Reader) Sections() int { return r.sections }

// Runs is the number of runs in all sections.
func (r *Reader) Runs() int { return r.runs }

// Topics is the size of the topic dictionary.
func (r *Reader) Topics() int { return len(r.topics) / 16 }

// Topic gives entry i of the topic dictionary.
func (r *Reader) Topic(i int) id.Topic { return id.Topic(r.topics[16*i:]) }

// DistinctTopics returns an error if the dictionary names a topic twice, which Parse and Reset admit. The error wraps ErrMalformed.
func (r *Reader) DistinctTopics() error {
	seen := make(map[id.Topic]struct{}, r.Topics())
	for i := range r.Topics() {
		if _, twice := seen[r.Topic(i)]; twice {
			return fmt.Errorf("%w: topic %s is in the dictionary twice", ErrMalformed, r.Topic(i))
		}
		seen[r.Topic(i)] = struct{}{}
	}
	return nil
}

// Rewind starts over at the first section.
func (r *Reader) Rewind() {
	r.at = r.start
	r.section, r.inSection, r.end, r.named, r.last, r.next = 0, 0, 0, 0, -1, 0
	r.err = nil
}

// fail ends the walk; only validate sees this.
func (r *Reader) fail(what string, v uint64) bool {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s %d in section %d", ErrMalformed, what, v, r.section)
	}
	r.section, r.inSection = r.sections, 0
	return false
}

// NextSection moves to the next section, skipping the rest of the current one; false at the end.
func (r *Reader) NextSection(s *SectionRuns) bool {
	for r.inSection > 0 {
		var skipped Run
		if !r.NextRun(&skipped) {
			return false
		}
	}
	if r.section == r.sections {
		return false
	}
	topic, partition := r.at[colTopic].next(), r.at[colPartition].next()
	gap, runs := r.at[colGap].next(), r.at[colRuns].next()
	switch {
	case topic >= uint64(len(r.topics)/16):
		return r.fail("topic", topic)
	case partition > math.MaxInt32:
		return r.fail("partition", partition)
	case gap > math.MaxUint32 || r.end+int64(gap) > math.MaxUint32:
		return r.fail("gap", gap)
	case runs >= uint64(r.runs):
		return r.fail("runs", runs)
	}
	r.section++
	r.end += int64(gap)
	r.inSection = int(runs) + 1
	s.Topic, s.Runs, s.Position = int(topic), r.inSection, uint32(r.end)
	s.Partition.Topic = id.Topic(r.topics[16*topic:])
	s.Partition.Partition = int32(partition)
	return true
}

// NextRun moves to the next run of the current section; false at its end.
func (r *Reader) NextRun(run *Run) bool {
	if r.inSection == 0 {
		return false
	}
	r.inSection--
	code := r.at[colCode].next()
	records, bytes, timestamp := r.at[colRecords].next(), r.at[colBytes].next(), r.at[colTimestamp].next()
	if timestamp > largestTimestamp {
		return r.fail("timestamp", timestamp)
	}
	run.Records, run.Bytes, run.MaxTimestamp = int64(records), int64(bytes), int64(timestamp)-1
	if bytes > math.MaxUint32 || r.end+int64(bytes) > math.MaxUint32 {
		return r.fail("bytes", bytes)
	}
	r.end += int64(bytes)
	if code == codePlain {
		return r.plain(run, records, bytes)
	}
	if records < 1 || records > math.MaxInt32 {
		return r.fail("records", records)
	}
	if bytes < MinBatchBytes || bytes > math.MaxInt32 {
		return r.fail("bytes", bytes)
	}
	return r.idempotent(run, code)
}

// plain completes a run without producer id.
func (r *Reader) plain(run *Run, records, bytes uint64) bool {
	if !r.at[colBatches].more() || r.header.Resubmit {
		return r.fail("plain run in resubmission or beyond count", 0)
	}
	batches := r.at[colBatches].next()
	if batches >= math.MaxUint32 || bytes < (batches+1)*MinBatchBytes {
		return r.fail("batches", batches)
	}
	batches++
	if records < batches || records > batches*math.MaxInt32 {
		return r.fail("records", records)
	}
	run.Batches = uint32(batches)
	run.ProducerID, run.ProducerEpoch, run.BaseSequence = NoProducer, -1, -1
	run.Transactional, run.TransactionVersion, run.AsOf = false, 0, 0
	return true
}

// idempotent completes a run that is one batch with a producer id.
func (r *Reader) idempotent(run *Run, code uint64) bool {
	switch code {
	case codeNext:
		r.last = r.named
		r.named++
	case codeContinues, codeSame:
	default:
		if code-codeDictionary >= uint64(r.named) {
			return r.fail("producer", code)
		}
		r.last = int(code - codeDictionary)
	}
	if r.last < 0 || r.last >= len(r.producers) {
		return r.fail("producer", code)
	}
	sequence := r.next
	if code != codeContinues {
		if !r.at[colSequence].more() {
			return r.fail("sequence beyond count", code)
		}
		v := r.at[colSequence].next()
		if v > math.MaxInt32 {
			return r.fail("sequence", v)
		}
		sequence = int32(v)
	}
	r.next = NextSequence(sequence, int32(run.Records))
	p := &r.producers[r.last]
	run.Batches, run.BaseSequence = 1, sequence
	run.ProducerID, run.ProducerEpoch = p.id, p.epoch
	run.Transactional, run.TransactionVersion, run.AsOf = p.transactional, p.version, 0
	if p.hasAsOf() {
		if !r.at[colAsOf].more() {
			return r.fail("as-of beyond count", code)
		}
		run.AsOf = r.at[colAsOf].next()
	}
	return true
}

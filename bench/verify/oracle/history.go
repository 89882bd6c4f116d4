package oracle

import (
	"fmt"
	"sync"
	"time"
)

// Config is about one topic of a run.
type Config struct {
	Topic      string
	Run        uint64 // random, so that other runs' records are told apart
	Keys       int64  // of each producer in each partition
	Partitions int32
	Producers  int32
	// Duplicates allows records to be there more than once (producers without idempotence that tried again); they are
	// counted.
	Duplicates bool
	Now        func() time.Time
	Findings   *Findings
}

// History is what is known of a topic. It is safe for concurrent use.
type History struct {
	cfg Config

	mu struct {
		sync.Mutex
		streams    []*stream // of producer and partition
		partitions []*partition
		fates      [][]fate // of each producer's transactions
		counts     Counts
	}
}

// Counts is how much was done.
type Counts struct {
	Sent       int64 `json:"sent"`
	Acked      int64 `json:"acknowledged"`
	Unknown    int64 `json:"unknown_outcome"`           // given up or unanswered: may be there, at most once
	Read       int64 `json:"read_first"`                // by the first reader
	Duplicates int64 `json:"duplicates_allowed"`        // where producers are not idempotent
	Begun      int64 `json:"transactions"`              // all
	Committed  int64 `json:"transactions_committed"`    // known to be
	Aborted    int64 `json:"transactions_aborted"`      // decided to be
	InDoubt    int64 `json:"transactions_unknown"`      // commit asked for and not answered: all of it is there, or nothing
	Compared   int64 `json:"offset_blocks_read_again"`  // of 64 offsets each
	EndsTold   int64 `json:"ends_checked"`              // answers to ListOffsets and Fetch compared with what was known before
	Markers    int64 `json:"transaction_markers_read"`  // by the first reader
	NotShown   int64 `json:"records_of_aborts_skipped"` // by readers of committed records
}

// stream is one producer's records in one partition.
type stream struct {
	sent    int64
	pending ranges           // sent and not answered
	unknown ranges           // given up
	txns    []span           // where each transaction begins
	early   map[int64]offset // read before they were acknowledged
}

// span is a transaction's part of a stream: from seq to the next span.
type span struct{ seq, txn int64 }

type offset = int64

// ref names a record of a partition.
type ref struct {
	producer int32
	seq      int64
}

// partition is what is known of one partition's offsets.
type partition struct {
	acked   map[offset]ack // acknowledged and not read by the first reader
	at      map[ref]offset // the same by record
	marks   [2]mark        // by view
	digests [2][]uint64    // by view: what each block of offsets held when it was read first
}

// ack is an acknowledgement.
type ack struct {
	ref
	at time.Time
}

// mark is an end that was answered or follows from an answer.
type mark struct {
	end int64
	why string
	at  time.Time
}

// View says which records a reader gets.
type View int

// Views.
const (
	Uncommitted View = iota
	Committed
)

func (v View) String() string {
	if v == Committed {
		return "read_committed"
	}
	return "read_uncommitted"
}

// New gives the history of a topic to which nothing was sent yet.
func New(cfg Config) *History {
	h := &History{cfg: cfg}
	for range cfg.Producers * cfg.Partitions {
		h.mu.streams = append(h.mu.streams, &stream{early: make(map[int64]offset)})
	}
	for range cfg.Partitions {
		h.mu.partitions = append(h.mu.partitions, &partition{acked: make(map[offset]ack), at: make(map[ref]offset)})
	}
	h.mu.fates = make([][]fate, cfg.Producers)
	return h
}

func (h *History) stream(producer, partition int32) *stream {
	return h.mu.streams[producer*h.cfg.Partitions+partition]
}

// Send notes that a record is about to be sent, and gives its key and a value of size bytes. txn is -1 outside of
// transactions.
func (h *History) Send(producer, partition int32, txn int64, size int) (id ID, key, value []byte) {
	h.mu.Lock()
	s := h.stream(producer, partition)
	id = ID{Producer: producer, Partition: partition, Seq: s.sent, Txn: txn}
	if txn >= 0 && (len(s.txns) == 0 || s.txns[len(s.txns)-1].txn != txn) {
		s.txns = append(s.txns, span{seq: s.sent, txn: txn})
	}
	s.pending.add(s.sent, s.sent+1)
	s.sent++
	h.mu.counts.Sent++
	h.mu.Unlock()
	return id, Key(id, h.cfg.Keys), Value(h.cfg.Run, id, size)
}

// Failed notes that the producer gave a record up or does not know its fate.
func (h *History) Failed(id ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stream(id.Producer, id.Partition)
	s.pending.remove(id.Seq)
	s.unknown.add(id.Seq, id.Seq+1)
	delete(s.early, id.Seq)
	h.mu.counts.Unknown++
}

// Acked notes that a record was acknowledged, at an offset or at -1 if none was told.
func (h *History) Acked(id ID, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, p, now := h.stream(id.Producer, id.Partition), h.mu.partitions[id.Partition], h.cfg.Now()
	s.pending.remove(id.Seq)
	h.mu.counts.Acked++
	early, read := s.early[id.Seq]
	delete(s.early, id.Seq)
	if at < 0 {
		return
	}
	p.marks[Uncommitted].raise(at+1, "acknowledged record "+id.String(), now)
	switch {
	case read && early == at, read && h.cfg.Duplicates:
	case read:
		h.find(WrongOffset, id, at, fmt.Sprintf("acknowledged at offset %d at %s, but read at %d before", at, clock(now), early))
	default:
		h.expect(p, id, ack{ref{id.Producer, id.Seq}, now}, at)
	}
}

// expect notes where the first reader must find a record.
func (h *History) expect(p *partition, id ID, a ack, at int64) {
	if other, taken := p.acked[at]; taken {
		h.find(Reuse, id, at, fmt.Sprintf("acknowledged at %s, and the same offset for p%d/%d/%d at %s", clock(a.at),
			other.producer, id.Partition, other.seq, clock(other.at)))
		return
	}
	p.acked[at], p.at[a.ref] = a, at
}

// Counts gives what was done so far. Records that were not answered count as of unknown outcome.
func (h *History) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.mu.counts
	for _, s := range h.mu.streams {
		c.Unknown += s.pending.count()
	}
	c.InDoubt = c.Begun - c.Committed - c.Aborted
	return c
}

// Held counts what is kept of records that are on their way: acknowledged and not read, read and not acknowledged.
func (h *History) Held() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.mu.partitions {
		n += len(p.acked)
	}
	for _, s := range h.mu.streams {
		n += len(s.early)
	}
	return n
}

// find adds a finding about a record.
func (h *History) find(class Class, id ID, at int64, evidence string) {
	h.cfg.Findings.Add(Finding{
		Class: class, Topic: h.cfg.Topic, Partition: id.Partition, Offset: at, Key: string(Key(id, h.cfg.Keys)),
		Evidence: id.String() + ": " + evidence,
	})
}

func (m *mark) raise(end int64, why string, at time.Time) {
	if end > m.end {
		*m = mark{end, why, at}
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// Package ledger is how tests know that nothing was lost: it notes every record that was sent and what became of it,
// and compares that with what is read in the end. It finds lost, duplicate, reordered, misplaced and phantom records.
package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// Ledger notes what producers did. It is safe for concurrent use. A record is named by its writer (one producer's
// stream into one partition) and a sequence number that counts from 0 in the order of sending.
type Ledger struct {
	mu struct {
		sync.Mutex
		writers map[Writer]*stream
	}
}

// Writer is one producer's stream into one partition.
type Writer struct {
	Name      string
	Partition int32
}

// Read is one record as a consumer saw it.
type Read struct {
	Partition int32
	Offset    int64
	Value     string
}

type stream struct{ offsets []int64 }

// What a stream knows of a record that has no offset.
const (
	pending int64 = -1 // sent; failed or never answered: may be there, at most once
	blind   int64 = -2 // acknowledged without an offset (a duplicate that the broker no longer places)
)

// New gives an empty ledger.
func New() *Ledger {
	l := &Ledger{}
	l.mu.writers = make(map[Writer]*stream)
	return l
}

// Send notes that a record is about to be sent, and gives its sequence number and the value to send.
func (l *Ledger) Send(w Writer) (seq int, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.mu.writers[w]
	if s == nil {
		s = &stream{}
		l.mu.writers[w] = s
	}
	seq = len(s.offsets)
	s.offsets = append(s.offsets, pending)
	return seq, fmt.Sprintf("%s/%d/%d", w.Name, w.Partition, seq)
}

// Ack notes that the broker acknowledged the record at an offset, or at -1 if it gave none. A record that is never
// acked counts as possibly written.
func (l *Ledger) Ack(w Writer, seq int, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset < 0 {
		offset = blind
	}
	l.mu.writers[w].offsets[seq] = offset
}

// Acked counts the acknowledged records so far.
func (l *Ledger) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, s := range l.mu.writers {
		for _, offset := range s.offsets {
			if offset != pending {
				n++
			}
		}
	}
	return n
}

// Rules say what the producers' guarantee was.
type Rules struct {
	// Duplicates allows records to appear more than once (producers without idempotence that retried).
	Duplicates bool
	// Reorder allows a writer's records to appear out of order (several in flight, retried without idempotence).
	Reorder bool
	// Strays allows records that were never acknowledged to stand out of order: a producer that gave them up went on
	// by another connection, which nothing orders with the one they were sent by.
	Strays bool
}

// Check compares the reads of all partitions, each in the order it was read, with the ledger, and describes every
// fault, at most 20 of them.
func (l *Ledger) Check(reads []Read, rules Rules) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := checker{rules: rules, seen: make(map[Writer]map[int]int64), last: make(map[int32]int64), order: make(map[Writer]int)}
	for _, r := range reads {
		c.read(r, l.mu.writers)
	}
	writers := make([]Writer, 0, len(l.mu.writers))
	for w := range l.mu.writers {
		writers = append(writers, w)
	}
	slices.SortFunc(writers, func(a, b Writer) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Partition, b.Partition))
	})
	for _, w := range writers {
		c.missing(w, l.mu.writers[w])
	}
	return c.faults
}

const maxFaults = 20

type checker struct {
	rules  Rules
	seen   map[Writer]map[int]int64 // offset each record was first read at
	last   map[int32]int64          // offset read last
	order  map[Writer]int           // sequence read last, plus one
	faults []string
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

func (c *checker) read(r Read, writers map[Writer]*stream) {
	if last, ok := c.last[r.Partition]; ok && r.Offset <= last {
		c.fault("partition %d: offset %d read after %d", r.Partition, r.Offset, last)
	}
	c.last[r.Partition] = r.Offset
	w, seq, ok := parse(r.Value)
	s := writers[w]
	if !ok || s == nil || seq >= len(s.offsets) || w.Partition != r.Partition {
		c.fault("phantom: partition %d offset %d holds %.40q, which nobody sent there", r.Partition, r.Offset, r.Value)
		return
	}
	if first, dup := c.seen[w][seq]; dup {
		if !c.rules.Duplicates {
			c.fault("duplicate: %s at offsets %d and %d", r.Value, first, r.Offset)
		}
		return
	}
	if c.seen[w] == nil {
		c.seen[w] = make(map[int]int64)
	}
	c.seen[w][seq] = r.Offset
	if stray := c.rules.Strays && s.offsets[seq] == pending; !stray {
		if !c.rules.Reorder && seq < c.order[w] {
			c.fault("reordered: %s at offset %d stands after record %d", r.Value, r.Offset, c.order[w]-1)
		}
		c.order[w] = max(c.order[w], seq+1)
	}
	if acked := s.offsets[seq]; acked >= 0 && acked != r.Offset && !c.rules.Duplicates {
		c.fault("misplaced: %s was acknowledged at offset %d, read at %d", r.Value, acked, r.Offset)
	}
}

func (c *checker) missing(w Writer, s *stream) {
	for seq, offset := range s.offsets {
		if _, ok := c.seen[w][seq]; !ok && offset != pending {
			c.fault("lost: %s/%d/%d was acknowledged at offset %d", w.Name, w.Partition, seq, offset)
		}
	}
}

func parse(value string) (w Writer, seq int, ok bool) {
	parts := make([]string, 0, 3)
	for range 2 {
		i := lastSlash(value)
		if i < 0 {
			return w, 0, false
		}
		parts = append(parts, value[i+1:])
		value = value[:i]
	}
	w.Name = value
	_, err1 := fmt.Sscanf(parts[1], "%d", &w.Partition)
	_, err2 := fmt.Sscanf(parts[0], "%d", &seq)
	return w, seq, err1 == nil && err2 == nil && seq >= 0
}

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return -1
}

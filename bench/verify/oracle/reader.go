package oracle

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// ReaderConfig says what a reader is.
type ReaderConfig struct {
	Name string // for findings
	View View
	// First: what it reads is compared with acknowledgements as it comes. One reader of a topic is the first.
	First bool
	// Group: several members deliver to it; records may come again, never be left out.
	Group bool
}

// Reader checks what is read, partition by partition in the order of offsets: from the start on, except for a group. It
// is safe for concurrent use.
type Reader struct {
	ReaderConfig
	h          *History
	next       []int64  // by stream: behind the last sequence number read
	gaps       []ranges // by stream: below next, and not read
	lost       []ranges // by stream: told to be lost
	positions  []position
	redelivers int64
}

// position is where a reader stands in a partition.
type position struct {
	last   int64 // offset read last; -1 before the first
	block  int64 // number of the block of offsets that is being read
	digest uint64
}

// Seen is a record as it was read.
type Seen struct {
	Offset     int64
	Key, Value []byte
	Control    bool // a transaction marker
}

// blockOffsets is how many offsets share a hash of what was read there.
const blockOffsets = 64

// NewReader gives a reader that has read nothing.
func (h *History) NewReader(cfg ReaderConfig) *Reader {
	r := &Reader{ReaderConfig: cfg, h: h, positions: make([]position, h.cfg.Partitions)}
	for i := range r.positions {
		r.positions[i].last = -1
	}
	streams := len(h.mu.streams)
	r.next, r.gaps, r.lost = make([]int64, streams), make([]ranges, streams), make([]ranges, streams)
	return r
}

// Read takes in the next record of a partition.
func (r *Reader) Read(partition int32, s Seen) {
	h := r.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if !r.Group && !r.follows(partition, s) {
		return
	}
	if s.Control {
		if r.First {
			h.mu.counts.Markers++
		}
		return
	}
	if r.First {
		h.mu.counts.Read++
	}
	h.mu.partitions[partition].marks[r.View].raise(s.Offset+1, "a record was read there by "+r.Name, h.cfg.Now())
	id, ok := r.identify(partition, s)
	if !ok {
		return
	}
	if f := h.fateOf(id.Producer, id.Txn); r.View == Committed && (f == open || f == aborted) {
		state := "still open"
		if f == aborted {
			state = "aborted"
		}
		h.find(AbortedRead, id, s.Offset, fmt.Sprintf("read by %s, of committed records, though its transaction is %s", r.Name, state))
	}
	r.order(id, s.Offset)
	if r.First {
		h.settle(id, s.Offset)
	}
}

// follows checks the offset alone and what stood there before. False: the record was there already.
func (r *Reader) follows(partition int32, s Seen) bool {
	at := &r.positions[partition]
	if s.Offset <= at.last {
		r.find(Reuse, partition, s.Offset, fmt.Sprintf("%s was given offset %d after offset %d", r.Name, s.Offset, at.last))
		return false
	}
	if r.View == Uncommitted && s.Offset != at.last+1 {
		r.find(Gap, partition, at.last+1, fmt.Sprintf("%s was given offset %d after offset %d, no record and no marker between",
			r.Name, s.Offset, at.last))
	}
	at.last = s.Offset
	for at.block < s.Offset/blockOffsets {
		r.closeBlock(partition, at)
	}
	var sum xxhash.Digest
	sum.ResetWithSeed(uint64(s.Offset))
	if s.Control {
		_, _ = sum.WriteString("marker") // a hash takes everything
	} else {
		_, _ = sum.Write(s.Key)
		_, _ = sum.Write(s.Value)
	}
	at.digest = at.digest*31 + sum.Sum64()
	return true
}

// closeBlock compares a block that was read to its end with what the first who read it found.
func (r *Reader) closeBlock(partition int32, at *position) {
	digests := &r.h.mu.partitions[partition].digests[r.View]
	if at.block < int64(len(*digests)) {
		r.h.mu.counts.Compared++
		if was := (*digests)[at.block]; was != at.digest {
			from := at.block * blockOffsets
			r.find(Reuse, partition, from, fmt.Sprintf("%s (%s) read other records at offsets %d to %d than were read before (hash %x, was %x)",
				r.Name, r.View, from, from+blockOffsets-1, at.digest, was))
		}
	} else {
		*digests = append(*digests, at.digest)
	}
	at.block++
	at.digest = 0
}

// identify says which record it is. False: nobody sent it.
func (r *Reader) identify(partition int32, s Seen) (ID, bool) {
	h := r.h
	id, err := parse(h.cfg.Run, s.Key, s.Value, h.cfg.Keys)
	var why string
	switch {
	case err != nil:
		why = fmt.Sprintf("%v: key %.40q, %d bytes of value %.40q", err, s.Key, len(s.Value), s.Value)
	case id.Partition != partition:
		why = fmt.Sprintf("%s was sent to partition %d", id, id.Partition)
	case id.Producer < 0 || id.Producer >= h.cfg.Producers || id.Seq < 0 || id.Seq >= h.stream(id.Producer, partition).sent:
		why = id.String() + " was never sent"
	case h.stream(id.Producer, partition).txnOf(id.Seq) != id.Txn:
		why = id.String() + " was sent in another transaction"
	default:
		return id, true
	}
	r.h.cfg.Findings.Add(Finding{
		Class: Phantom, Topic: h.cfg.Topic, Partition: partition, Offset: s.Offset, Key: string(s.Key),
		Evidence: r.Name + ": " + why,
	})
	return id, false
}

// order checks that a record comes behind those sent before it, and once.
func (r *Reader) order(id ID, at int64) {
	h, i := r.h, id.Producer*r.h.cfg.Partitions+id.Partition
	s := h.mu.streams[i]
	switch {
	case id.Seq >= r.next[i]:
		r.gaps[i].add(r.next[i], id.Seq)
		r.next[i] = id.Seq + 1
	case r.gaps[i].remove(id.Seq), r.lost[i].remove(id.Seq):
		// One that its producer gave up may come late, by a connection that nothing orders with the next one.
		if !r.Group && !s.unknown.has(id.Seq) {
			h.find(Reordered, id, at, fmt.Sprintf("%s read it behind p%d/%d/%d", r.Name, id.Producer, id.Partition, r.next[i]-1))
		}
	case r.Group:
		r.redelivers++
	case h.cfg.Duplicates:
		if r.First {
			h.mu.counts.Duplicates++
		}
	default:
		h.find(Duplicate, id, at, r.Name+" had read it at a lower offset already")
	}
}

// settle compares what the first reader got with acknowledgements.
func (h *History) settle(id ID, at int64) {
	p, s, this := h.mu.partitions[id.Partition], h.stream(id.Producer, id.Partition), ref{id.Producer, id.Seq}
	if a, ok := p.acked[at]; ok {
		delete(p.acked, at)
		delete(p.at, a.ref)
		if a.ref != this {
			h.find(Reuse, id, at, fmt.Sprintf("stands at an offset that was acknowledged for p%d/%d/%d at %s", a.producer, id.Partition,
				a.seq, clock(a.at)))
		}
		if a.ref == this {
			return
		}
	}
	if s.pending.has(id.Seq) {
		if _, twice := s.early[id.Seq]; !twice {
			s.early[id.Seq] = at
		}
		return
	}
	told, ok := p.at[this]
	if !ok || h.cfg.Duplicates { // a copy that nobody acknowledged; the other one is still to come
		return
	}
	h.find(WrongOffset, id, at, fmt.Sprintf("acknowledged at offset %d at %s, read at %d", told, clock(p.acked[told].at), at))
	delete(p.acked, told)
	delete(p.at, this)
}

// Position is the offset behind the last one read of a partition.
func (r *Reader) Position(partition int32) int64 {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	return r.positions[partition].last + 1
}

// Redelivered counts what a group got again.
func (r *Reader) Redelivered() int64 {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	return r.redelivers
}

// find adds a finding about an offset.
func (r *Reader) find(class Class, partition int32, at int64, evidence string) {
	r.h.cfg.Findings.Add(Finding{Class: class, Topic: r.h.cfg.Topic, Partition: partition, Offset: at, Evidence: evidence})
}

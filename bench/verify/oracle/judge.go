package oracle

import "fmt"

// Judge finds what a reader passed over. At the end, when it has read all there is and every producer has stopped, it
// finds what never came as well.
func (r *Reader) Judge(end bool) {
	h := r.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range h.mu.streams {
		producer, partition := int32(i)/h.cfg.Partitions, int32(i)%h.cfg.Partitions
		missing := append(ranges(nil), r.gaps[i]...)
		if end {
			missing.add(r.next[i], s.sent)
		}
		for _, v := range missing {
			for seq := v.from; seq < v.to; seq++ {
				r.missing(i, ID{Producer: producer, Partition: partition, Seq: seq, Txn: s.txnOf(seq)})
			}
		}
	}
	if r.First {
		r.passed()
	}
	if end && r.View == Committed {
		r.inDoubt()
	}
}

// missing judges one record that was not read.
func (r *Reader) missing(stream int, id ID) {
	h := r.h
	s := h.mu.streams[stream]
	if s.pending.has(id.Seq) || s.unknown.has(id.Seq) || r.lost[stream].has(id.Seq) {
		return
	}
	f := h.fateOf(id.Producer, id.Txn)
	if r.View == Committed && f != committed {
		if f == aborted && r.gaps[stream].remove(id.Seq) {
			h.mu.counts.NotShown++
		}
		return
	}
	class, evidence := Lost, r.Name+" did not get it"
	offset := int64(-1)
	p, this := h.mu.partitions[id.Partition], ref{id.Producer, id.Seq}
	if at, ok := p.at[this]; ok {
		offset = at
		evidence += fmt.Sprintf("; acknowledged at offset %d at %s", at, clock(p.acked[at].at))
		if r.First {
			delete(p.acked, at)
			delete(p.at, this)
		}
	}
	if r.View == Committed && id.Txn >= 0 {
		if seen, all := r.seen(id.Producer, id.Txn); seen > 0 {
			class = Torn
			evidence += fmt.Sprintf("; its transaction was committed, %d of %d records were read", seen, all)
		}
	}
	h.find(class, id, offset, evidence)
	r.gaps[stream].remove(id.Seq)
	r.lost[stream].add(id.Seq, id.Seq+1)
}

// passed finds acknowledged records at whose offsets the first reader found nothing.
func (r *Reader) passed() {
	h := r.h
	for n, p := range h.mu.partitions {
		for at, a := range p.acked {
			if at > r.positions[n].last {
				continue
			}
			id := ID{Producer: a.producer, Partition: int32(n), Seq: a.seq, Txn: h.stream(a.producer, int32(n)).txnOf(a.seq)}
			delete(p.acked, at)
			delete(p.at, a.ref)
			lost := &r.lost[a.producer*h.cfg.Partitions+int32(n)]
			if lost.has(a.seq) {
				continue
			}
			lost.add(a.seq, a.seq+1)
			h.find(Lost, id, at, fmt.Sprintf("acknowledged at %s; %s passed the offset without it", clock(a.at), r.Name))
		}
	}
}

// inDoubt checks transactions whose commit was not answered: all of one is there, or nothing.
func (r *Reader) inDoubt() {
	for producer, fates := range r.h.mu.fates {
		for txn, f := range fates {
			if f != committing {
				continue
			}
			if seen, all := r.seen(int32(producer), int64(txn)); seen != 0 && seen != all {
				r.h.cfg.Findings.Add(Finding{
					Class: Torn, Topic: r.h.cfg.Topic, Partition: -1, Offset: -1,
					Evidence: fmt.Sprintf("transaction %d of p%d, whose commit was not answered: %s got %d of %d records", txn, producer,
						r.Name, seen, all),
				})
			}
		}
	}
}

// seen counts the records of a transaction that were read, and all of them.
func (r *Reader) seen(producer int32, txn int64) (seen, all int64) {
	for partition := range r.h.cfg.Partitions {
		i := producer*r.h.cfg.Partitions + partition
		from, to := r.h.mu.streams[i].part(txn)
		all += to - from
		for seq := from; seq < to; seq++ {
			if seq < r.next[i] && !r.gaps[i].has(seq) && !r.lost[i].has(seq) {
				seen++
			}
		}
	}
	return seen, all
}

// Behind counts the records that the reader should have got by now and has not: acknowledged ones, and of transactions
// only those known to be committed for a reader of committed records. It counts anew each time.
func (r *Reader) Behind() (n int64) {
	h := r.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range h.mu.streams {
		missing := append(ranges(nil), r.gaps[i]...)
		missing.add(r.next[i], s.sent)
		for _, v := range missing {
			for seq := v.from; seq < v.to; seq++ {
				if s.pending.has(seq) || s.unknown.has(seq) {
					continue
				}
				if r.View == Uncommitted || h.fateOf(int32(i)/h.cfg.Partitions, s.txnOf(seq)) == committed {
					n++
				}
			}
		}
	}
	return n
}

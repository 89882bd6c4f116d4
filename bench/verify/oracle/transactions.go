package oracle

import "sort"

// fate is what a producer knows of a transaction.
type fate uint8

const (
	open       fate = iota // no end was asked for: nobody may see it
	committing             // commit asked for: all of it is there, or nothing
	committed
	aborted // it is decided that no commit is asked for
)

// Begin notes a new transaction of a producer and gives its number.
func (h *History) Begin(producer int32) (txn int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.fates[producer] = append(h.mu.fates[producer], open)
	h.mu.counts.Begun++
	return int64(len(h.mu.fates[producer]) - 1)
}

// Committing notes that the commit is about to be asked for. Without Committed its outcome stays unknown.
func (h *History) Committing(producer int32, txn int64) { h.turn(producer, txn, committing) }

// Committed notes that the commit was answered.
func (h *History) Committed(producer int32, txn int64) { h.turn(producer, txn, committed) }

// Aborted notes that it is decided not to commit, whatever becomes of the abort.
func (h *History) Aborted(producer int32, txn int64) { h.turn(producer, txn, aborted) }

func (h *History) turn(producer int32, txn int64, f fate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.fates[producer][txn] = f
	switch f {
	case committed:
		h.mu.counts.Committed++
	case aborted:
		h.mu.counts.Aborted++
	case open, committing:
	}
}

// txnOf gives the transaction of a record; -1 if none.
func (s *stream) txnOf(seq int64) int64 {
	i := sort.Search(len(s.txns), func(i int) bool { return s.txns[i].seq > seq })
	if i == 0 {
		return -1
	}
	return s.txns[i-1].txn
}

// part gives the sequence numbers [from, to) of a transaction in a stream.
func (s *stream) part(txn int64) (from, to int64) {
	i := sort.Search(len(s.txns), func(i int) bool { return s.txns[i].txn >= txn })
	if i == len(s.txns) || s.txns[i].txn != txn {
		return 0, 0
	}
	if i+1 < len(s.txns) {
		return s.txns[i].seq, s.txns[i+1].seq
	}
	return s.txns[i].seq, s.sent
}

// fateOf gives the fate of a record's transaction; committed if it has none.
func (h *History) fateOf(producer int32, txn int64) fate {
	if txn < 0 {
		return committed
	}
	return h.mu.fates[producer][txn]
}

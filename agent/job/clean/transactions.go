package clean

import (
	"cmp"
	"errors"
	"slices"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
)

// errUnlisted: a marker says that records were aborted which the list of aborted transactions does not name. Readers
// would take them for committed.
var errUnlisted = errors.New("marker of an aborted transaction that is not listed")

// transactions follow those of a partition while its batches are read in order (Kafka's CleanedTransactionMetadata).
type transactions struct {
	aborted map[int64][]*aborted // by producer, ascending
	// committed are the producers of which a transactional batch was read, not aborted, and no marker since.
	committed map[int64]struct{}
}

type aborted struct {
	extent.Aborted
	seen bool // a batch of it was read
}

func newTransactions(list []extent.Aborted) *transactions {
	t := &transactions{aborted: make(map[int64][]*aborted), committed: make(map[int64]struct{})}
	for _, a := range list {
		t.aborted[a.ProducerID] = append(t.aborted[a.ProducerID], &aborted{Aborted: a})
	}
	for _, of := range t.aborted {
		slices.SortFunc(of, func(a, b *aborted) int { return cmp.Compare(a.Last, b.Last) })
	}
	return t
}

// find gives the producer's aborted transaction that the offset lies in, nil if none does. A producer's transactions
// do not overlap, and offsets are asked for in order, so those that ended below are forgotten.
func (t *transactions) find(producer, offset int64) *aborted {
	of := t.aborted[producer]
	for len(of) > 0 && of[0].Last < offset {
		of = of[1:]
		t.aborted[producer] = of
	}
	if len(of) == 0 || of[0].First > offset {
		return nil
	}
	return of[0]
}

// data notes a batch that is no control batch and tells whether it was aborted.
func (t *transactions) data(b kafkaproto.RecordBatch) bool {
	if !b.Transactional() {
		return false
	}
	if a := t.find(b.ProducerID(), b.BaseOffset()); a != nil {
		a.seen = true
		return true
	}
	t.committed[b.ProducerID()] = struct{}{}
	return false
}

// control notes a control batch and tells whether nothing of its transaction was read any more, so that it may go, and
// whether an aborted transaction would go with it.
func (t *transactions) control(b kafkaproto.RecordBatch) (empty, listed bool, err error) {
	if b.RecordCount() == 0 {
		return true, false, nil
	}
	m, ok := kafkaproto.MarkerOf(b)
	if !ok {
		return false, false, nil // of a kind that says nothing of transactions
	}
	_, data := t.committed[b.ProducerID()]
	delete(t.committed, b.ProducerID())
	if m == kafkaproto.Commit {
		return !data, false, nil
	}
	a := t.find(b.ProducerID(), b.BaseOffset())
	if a == nil || a.Last != b.BaseOffset() {
		if data {
			return false, false, errUnlisted
		}
		return true, false, nil
	}
	return !a.seen, true, nil
}

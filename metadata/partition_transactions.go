package metadata

import (
	"math"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// trimmedPerTrim and trimmedPerMarker bound the aborted transactions below the log start that a trim and a marker
	// take out of a partition. Readers never see them; a marker adds at most one.
	trimmedPerTrim   = 1024
	trimmedPerMarker = 8
)

// partitionTransactions holds the open and the aborted transactions of a partition. It is nil if there are none.
type partitionTransactions struct {
	open    btree.Map[int64, int64]              // first offset -> producer id
	first   btree.Map[int64, int64]              // producer id -> first offset; derived
	aborted btree.Map[int64, abortedTransaction] // by the offset of the marker
}

// abortedTransaction is an entry of the aborted list.
type abortedTransaction struct {
	producerID int64
	first      int64
	// stable: where the partition was stable after the marker. All that is aborted later begins at or above (Kafka's
	// AbortedTxn.lastStableOffset).
	stable int64
}

func (t *partitionTransactions) copy() *partitionTransactions {
	return &partitionTransactions{open: *t.open.Copy(), first: *t.first.Copy(), aborted: *t.aborted.Copy()}
}

// lastStable is the last stable offset: no open transaction begins below.
func (p *partition) lastStable() int64 {
	if p.transactions != nil {
		if first, _, ok := p.transactions.open.Min(); ok {
			return max(p.logStart, first)
		}
	}
	return p.high
}

// openSince gives the first offset of a producer's open transaction. p may be nil.
func (p *partition) openSince(producerID int64) (first int64, ok bool) {
	if p == nil || p.transactions == nil {
		return -1, false
	}
	return p.transactions.first.Get(producerID)
}

// openTransaction notes that a producer's transaction has its first batch here at an offset, if it has none yet.
func (p *partition) openTransaction(producerID, offset int64) {
	if p.transactions == nil {
		p.transactions = new(partitionTransactions)
	}
	if _, ok := p.transactions.first.Get(producerID); !ok {
		p.transactions.first.Set(producerID, offset)
		p.transactions.open.Set(offset, producerID)
	}
}

// writeMarker appends a marker and ends what the producer has open. It gives the marker's extent, and the aborted
// transaction, if it is one. The offsets must not be used up.
func (s *machine) writeMarker(p *partition, m extent.EndMarker) (x extent.Extent, a extent.Aborted, aborted bool) {
	offset := p.high
	p.high++
	x = extent.NewMarker(offset, s.now, m)
	p.extents.Append(s.gen, x)
	s.load.Extents++
	p.raiseEpoch(m.ProducerID, m.Epoch, s.now)
	first, open := p.openSince(m.ProducerID)
	if !open {
		return x, extent.Aborted{}, false
	}
	t := p.transactions
	t.first.Delete(m.ProducerID)
	t.open.Delete(first)
	defer p.forgetTrimmed(trimmedPerMarker)
	if m.Commit {
		return x, extent.Aborted{}, false
	}
	stable := offset + 1
	if next, _, ok := t.open.Min(); ok {
		stable = next
	}
	t.aborted.Set(offset, abortedTransaction{producerID: m.ProducerID, first: first, stable: stable})
	return x, extent.Aborted{ProducerID: m.ProducerID, First: first, Last: offset}, true
}

// hasRoom tells whether a partition, nil if it never had a record, has an offset left for a marker.
func (p *partition) hasRoom() bool { return p == nil || p.high < math.MaxInt64-1 }

// forgetTrimmed drops some of the aborted transactions that lie wholly below the log start, and the tables if no transaction is left.
func (p *partition) forgetTrimmed(limit int) {
	t := p.transactions
	if t == nil {
		return
	}
	for range limit {
		marker, _, ok := t.aborted.Min()
		if !ok || marker >= p.logStart {
			break
		}
		t.aborted.PopMin()
	}
	p.dropEmptyTransactions()
}

// forgetAborted drops the aborted transactions with the given markers, and the tables if no transaction is left.
func (p *partition) forgetAborted(markers []int64) {
	if p.transactions == nil {
		return
	}
	for _, marker := range markers {
		p.transactions.aborted.Delete(marker)
	}
	p.dropEmptyTransactions()
}

func (p *partition) dropEmptyTransactions() {
	if t := p.transactions; t.open.Len() == 0 && t.aborted.Len() == 0 {
		p.transactions = nil
	}
}

// AbortedTransactions gives the aborted transactions that a reader of the offsets [from, to) must know of: those that
// begin below to and whose marker is at or above from, in the order of their markers (Kafka's
// TransactionIndex.collectAbortedTxns). The cost is that of what was aborted from there on until the partition was
// stable at to.
func (s *machine) AbortedTransactions(tp id.TopicPartition, from, to int64) []extent.Aborted {
	p, _ := s.partitionEntry(tp)
	if p == nil || p.transactions == nil {
		return nil
	}
	var list []extent.Aborted
	p.transactions.aborted.Ascend(max(from, p.logStart), func(marker int64, a abortedTransaction) bool {
		if a.first < to {
			list = append(list, extent.Aborted{ProducerID: a.producerID, First: a.first, Last: marker})
		}
		return a.stable < to
	})
	return list
}

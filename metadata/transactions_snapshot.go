package metadata

import (
	"encoding/binary"
	"math"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// encodePartitionTransactions writes what a partition knows of transactions, after its producers.
func encodePartitionTransactions(f *sectionWriter, t *partitionTransactions) {
	encodeItems(f, recordOpenTransactions, &t.open, func(b []byte, producerID *int64) []byte {
		return binary.AppendUvarint(b, uint64(*producerID))
	})
	encodeItems(f, recordAborted, &t.aborted, func(b []byte, a *abortedTransaction) []byte {
		b = binary.AppendUvarint(b, uint64(a.producerID))
		b = binary.AppendUvarint(b, uint64(a.first))
		return binary.AppendUvarint(b, uint64(a.stable))
	})
}

func (s *machine) encodeTransactions(f *sectionWriter) {
	s.transactions.byProducer.Scan(func(_ int64, t *transaction) bool {
		encodeTransaction(f, t)
		return f.err == nil
	})
}

func encodeTransaction(f *sectionWriter, t *transaction) {
	b := append(f.buf, byte(recordTransaction))
	b = binary.AppendUvarint(b, uint64(t.producerID))
	b = wire.AppendString(b, t.id)
	b = binary.AppendVarint(b, t.previous)
	b = binary.AppendVarint(b, int64(t.epoch))
	b = binary.AppendVarint(b, int64(t.lastEpoch))
	b = append(b, byte(t.state), byte(t.version))
	b = binary.AppendVarint(b, int64(t.timeoutMs))
	b = binary.AppendVarint(b, t.started)
	b = binary.AppendVarint(b, t.updated)
	b = binary.AppendUvarint(b, t.began)
	f.buf = binary.AppendUvarint(b, t.ended)
	f.recordDone()
	if t.partitions != nil {
		encodeAddedPartitions(f, t.partitions)
	}
	if t.groups == nil {
		return
	}
	f.beginList(byte(recordTransactionGroups))
	t.groups.Scan(func(group string, index uint64) bool {
		f.list.items = wire.AppendString(f.list.items, group)
		f.list.items = binary.AppendUvarint(f.list.items, index)
		f.itemDone()
		return f.err == nil
	})
	f.endWholeList()
}

// encodeAddedPartitions writes partitions of a transaction, many to a record.
func encodeAddedPartitions(f *sectionWriter, partitions *btree.BTreeG[addedPartition]) {
	left, n := partitions.Len(), 0
	partitions.Scan(func(p addedPartition) bool {
		if n == 0 {
			n = min(left, itemsPerRecord)
			left -= n
			f.recordDone()
			f.buf = append(f.buf, byte(recordTransactionPartitions))
			f.buf = binary.AppendUvarint(f.buf, uint64(n))
		}
		f.buf = append(f.buf, p.Topic[:]...)
		f.buf = binary.AppendUvarint(f.buf, uint64(p.Partition))
		f.buf = binary.AppendUvarint(f.buf, p.index)
		n--
		return f.err == nil
	})
	f.recordDone()
}

func (d *snapshotDecoder) readTransaction(w *wire.Reader) {
	s := d.s
	t := &transaction{
		gen: s.gen, producerID: w.Offset(), id: w.String(), previous: w.Varint(), epoch: w.Int16(), lastEpoch: w.Int16(),
		state: TransactionState(w.Byte()), version: int8(w.Byte()), timeoutMs: w.Int32(), started: w.Varint(), updated: w.Varint(),
		began: w.Uvarint(), ended: w.Uvarint(),
	}
	_, name := s.transactions.names.Get(t.id)
	_, number := s.transactions.byProducer.Get(t.producerID)
	known := t.state == TransactionEmpty || t.state == TransactionOngoing || t.state == TransactionCompleteCommit || t.state == TransactionCompleteAbort
	if name || number || !known || t.epoch < 0 || t.lastEpoch < noEpoch || t.previous < noProducer || t.producerID >= s.nextProducerID {
		w.Fail("transactional id %q of producer %d epoch %d", t.id, t.producerID, t.epoch)
	}
	if w.Err() == nil {
		d.transaction = t
		s.transactions.add(t)
	}
}

func (d *snapshotDecoder) readTransactionPartitions(w *wire.Reader) {
	n := w.Count(18)
	if d.transaction == nil || d.transaction.state != TransactionOngoing {
		w.Fail("partitions of no open transaction")
		return
	}
	if d.transaction.partitions == nil {
		d.transaction.partitions = newAddedPartitions()
	}
	for range n {
		p := addedPartition{TopicPartition: id.TopicPartition{Topic: readTopicID(w)}}
		number := w.Offset()
		p.Partition, p.index = int32(number), w.Uvarint()
		if number > math.MaxInt32 {
			w.Fail("partition %d", number)
		}
		if w.Err() != nil {
			return
		}
		if _, twice := d.transaction.partitions.Set(p); twice {
			w.Fail("partition %s twice", p)
		}
	}
}

func (d *snapshotDecoder) readTransactionGroups(w *wire.Reader) {
	n := w.Count(2)
	if d.transaction == nil || d.transaction.state != TransactionOngoing {
		w.Fail("groups of no open transaction")
		return
	}
	if d.transaction.groups == nil {
		d.transaction.groups = new(btree.Map[string, uint64])
	}
	for range n {
		group, index := w.String(), w.Uvarint()
		if w.Err() != nil {
			return
		}
		if _, twice := d.transaction.groups.Set(group, index); twice {
			w.Fail("group %q twice", group)
		}
		d.transaction.groupBytes += int64(len(group))
	}
}

func (d *snapshotDecoder) readOpenTransactions(w *wire.Reader) {
	n, p := w.Count(2), d.partition
	if p == nil {
		w.Fail("open transactions of nothing")
	}
	for range n {
		first, producerID := w.Offset(), w.Offset()
		if w.Err() != nil {
			return
		}
		_, open := p.openSince(producerID)
		if open || first >= p.high {
			w.Fail("open transaction of %d at %d", producerID, first)
			return
		}
		p.openTransaction(producerID, first)
		if p.transactions.open.Len() != p.transactions.first.Len() {
			w.Fail("two open transactions at %d", first)
			return
		}
	}
}

func (d *snapshotDecoder) readAborted(w *wire.Reader) {
	n, p := w.Count(4), d.partition
	if p == nil {
		w.Fail("aborted transactions of nothing")
		return
	}
	if p.transactions == nil {
		p.transactions = new(partitionTransactions)
	}
	for range n {
		marker := w.Offset()
		a := abortedTransaction{producerID: w.Offset(), first: w.Offset(), stable: w.Offset()}
		if w.Err() == nil && (a.first >= marker || marker >= p.high || a.stable > p.high) {
			w.Fail("aborted transaction [%d, %d] of %d", a.first, marker, a.producerID)
		}
		if w.Err() != nil {
			return
		}
		if _, twice := p.transactions.aborted.Set(marker, a); twice {
			w.Fail("two markers at %d", marker)
		}
	}
}

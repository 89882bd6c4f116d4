package metadata

import (
	"iter"
	"math"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// TransactionalIDExpirationMs is how long a transactional id without an open transaction is remembered (Kafka's
	// transactional.id.expiration.ms default).
	TransactionalIDExpirationMs = 7 * 24 * 60 * 60 * 1000
	// noProducer stands where there is no producer id, noEpoch where there is no epoch.
	noProducer int64 = -1
	noEpoch    int16 = -1
)

// transaction is a transactional id with its producer and the transaction that is, or was last. Entries of the table
// are copied once per generation, like partitions.
type transaction struct {
	gen        uint64
	id         string
	producerID int64
	// previous is the producer id before, as long as a client may not know that the epochs of it were used up.
	previous  int64
	epoch     int16
	lastEpoch int16 // the epoch that this one came from, if its producer was told or may ask again; else noEpoch
	state     TransactionState
	version   int8 // protocol of the transaction that is, or was last
	timeoutMs int32
	started   int64 // command time it began at, -1 if none did in this epoch
	updated   int64 // command time of the last change
	began     uint64
	ended     uint64 // log indices of the latest begin and end; what ProtocolOne sent before them is late

	// What an ongoing transaction is made of; nil where there is nothing.
	partitions *btree.BTreeG[addedPartition]
	groups     *btree.Map[string, uint64] // and the log index at which the group was added
	groupBytes int64                      // of the names of groups; derived
}

// addedPartition is a partition of a transaction.
type addedPartition struct {
	id.TopicPartition
	index uint64 // log index at which it was added
}

// transactionTables are all transactional ids.
type transactionTables struct {
	byProducer btree.Map[int64, *transaction]
	names      btree.Map[string, int64]      // transactional id -> producer id; derived
	due        *btree.BTreeG[transactionDue] // derived
	bytes      int64                         // weight of all; derived
	text       int64                         // length of all their names and those of their groups; derived
	added      int64                         // partitions of all; derived
}

// transactionDue orders transactions by when a Tick has to do with them: to abort it, or to forget its id.
type transactionDue struct {
	at         int64 // command time
	producerID int64
}

func newTransactionTables() transactionTables {
	return transactionTables{due: btree.NewBTreeGOptions(func(a, b transactionDue) bool {
		return a.at < b.at || a.at == b.at && a.producerID < b.producerID
	}, btree.Options{NoLocks: true})}
}

func (t *transactionTables) snapshot() transactionTables {
	return transactionTables{byProducer: *t.byProducer.Copy(), names: *t.names.Copy(), due: t.due.Copy(), bytes: t.bytes, text: t.text, added: t.added}
}

// add puts a new or renumbered transaction in.
func (t *transactionTables) add(x *transaction) {
	t.byProducer.Set(x.producerID, x)
	t.names.Set(x.id, x.producerID)
	t.due.Set(x.dueKey())
	t.weigh(x, 1)
}

func (t *transactionTables) remove(x *transaction) {
	t.byProducer.Delete(x.producerID)
	t.names.Delete(x.id)
	t.due.Delete(x.dueKey())
	t.weigh(x, -1)
}

// transaction gives a transactional id's entry, nil if there is none.
func (s *machine) transaction(transactionalID string) *transaction {
	producerID, ok := s.transactions.names.Get(transactionalID)
	if !ok {
		return nil
	}
	t, _ := s.transactions.byProducer.Get(producerID)
	return t
}

// changeTransaction lets change work on a transaction that may be changed in this generation, and gives it back.
func (s *machine) changeTransaction(t *transaction, change func(t *transaction)) *transaction {
	before, producerID := t.dueKey(), t.producerID
	s.transactions.weigh(t, -1)
	if t.gen != s.gen {
		c := *t
		c.gen = s.gen
		if t.partitions != nil {
			c.partitions = t.partitions.Copy()
		}
		if t.groups != nil {
			c.groups = t.groups.Copy()
		}
		t = &c
		s.transactions.byProducer.Set(producerID, t)
	}
	change(t)
	t.updated = s.now
	s.transactions.weigh(t, 1)
	if after := t.dueKey(); after != before {
		s.transactions.due.Delete(before)
		s.transactions.due.Set(after)
	}
	if t.producerID != producerID {
		s.transactions.byProducer.Delete(producerID)
		s.transactions.byProducer.Set(t.producerID, t)
		s.transactions.names.Set(t.id, t.producerID)
	}
	return t
}

// dueKey says when a Tick has to do with the transaction.
func (t *transaction) dueKey() transactionDue {
	at, after := t.updated, int64(TransactionalIDExpirationMs)
	if t.state == TransactionOngoing {
		at, after = t.started, int64(t.timeoutMs)+1 // Kafka aborts what is older, not as old
	}
	if at > math.MaxInt64-after {
		return transactionDue{math.MaxInt64, t.producerID}
	}
	return transactionDue{at + after, t.producerID}
}

// begin makes the transaction ongoing, if it is not.
func (s *machine) begin(t *transaction, version int8) {
	t.version = version
	if t.state != TransactionOngoing {
		t.state, t.started, t.began = TransactionOngoing, s.now, s.index
		t.previous, t.lastEpoch = noProducer, noEpoch // its producer knows its epoch
	}
}

// partition gives what the transaction knows of a partition; false if that is not in it.
func (t *transaction) partition(tp id.TopicPartition) (addedPartition, bool) {
	if t.partitions == nil {
		return addedPartition{}, false
	}
	return t.partitions.Get(addedPartition{TopicPartition: tp})
}

// addPartition adds a partition to a transaction that may be changed.
func (s *machine) addPartition(t *transaction, tp id.TopicPartition) {
	if t.partitions == nil {
		t.partitions = newAddedPartitions()
	}
	t.partitions.Set(addedPartition{TopicPartition: tp, index: s.index})
}

func newAddedPartitions() *btree.BTreeG[addedPartition] {
	return btree.NewBTreeGOptions(func(a, b addedPartition) bool {
		return a.Compare(b.TopicPartition) < 0
	}, btree.Options{NoLocks: true})
}

// addGroup adds a group to a transaction that may be changed.
func (s *machine) addGroup(t *transaction, group string) {
	if t.groups == nil {
		t.groups = new(btree.Map[string, uint64])
	}
	t.groups.Set(group, s.index)
	t.groupBytes += int64(len(group))
}

// freshProducerID gives a producer id that was never used, noProducer if all are used up.
func (s *machine) freshProducerID() int64 {
	if s.nextProducerID == math.MaxInt64 {
		return noProducer
	}
	s.nextProducerID++
	return s.nextProducerID - 1
}

// exhausted tells that an epoch has no next one which a client may use: the last is kept for fencing it (Kafka's
// TransactionMetadata.isEpochExhausted).
func exhausted(epoch int16) bool { return epoch >= math.MaxInt16-1 }

// Transaction gives a transactional id's state.
func (s *machine) Transaction(transactionalID string) (TransactionInfo, bool) {
	t := s.transaction(transactionalID)
	if t == nil {
		return TransactionInfo{}, false
	}
	return t.info(), true
}

// Transactions gives all transactional ids in their order.
func (s *machine) Transactions() iter.Seq[TransactionInfo] {
	return func(yield func(TransactionInfo) bool) {
		s.transactions.names.Scan(func(_ string, producerID int64) bool {
			t, _ := s.transactions.byProducer.Get(producerID)
			return yield(t.info())
		})
	}
}

func (t *transaction) info() TransactionInfo {
	info := TransactionInfo{
		TransactionalID: t.id, ProducerID: t.producerID, Epoch: t.epoch, State: t.state, TimeoutMs: t.timeoutMs,
		StartedMs: t.started, UpdatedMs: t.updated, Version: t.version,
	}
	if t.partitions != nil {
		info.Partitions = make([]id.TopicPartition, 0, t.partitions.Len())
		t.partitions.Scan(func(p addedPartition) bool {
			info.Partitions = append(info.Partitions, p.TopicPartition)
			return true
		})
	}
	if t.groups != nil {
		info.Groups = t.groups.Keys()
	}
	return info
}

// marker gives the marker that ends the transaction at an epoch.
func (t *transaction) marker(epoch int16, commit bool) extent.EndMarker {
	return extent.EndMarker{ProducerID: t.producerID, Epoch: epoch, Commit: commit, CoordinatorEpoch: coordinatorEpoch}
}

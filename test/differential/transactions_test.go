package differential

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// txnNext draws what a transactional producer sends next: it asks for its id, then works in a transaction, and ends it.
func (d *draw) txnNext() func(c *client) kmsg.Request {
	init, add, produce, end := d.initProducer(true), d.addPartitions(true), d.produce(true), d.endTxn(true)
	group, commit, n := d.addOffsets(true), d.txnOffsetCommit(true), d.IntN(100)
	return func(c *client) kmsg.Request {
		switch {
		case c.producer < 0 || c.fenced:
			return init(c)
		case n < 20:
			return end(c)
		case n < 40 && !c.second:
			return add(c)
		case n < 55 && !c.second:
			return group(c)
		case n < 70:
			return commit(c)
		default:
			return produce(c)
		}
	}
}

// txnAny draws any request of a transactional producer, right or wrong.
func (d *draw) txnAny() func(c *client) kmsg.Request {
	wrong := func(f func(bool) func(c *client) kmsg.Request) func() func(c *client) kmsg.Request {
		return func() func(c *client) kmsg.Request { return f(d.chance(30)) }
	}
	return d.weighted(12, wrong(d.initProducer), 12, wrong(d.addPartitions), 22, wrong(d.produce), 12, wrong(d.endTxn),
		8, wrong(d.addOffsets), 8, wrong(d.txnOffsetCommit), 8, d.describeTransactions, 8, d.describeProducers,
		5, d.listTransactions, 5, d.listEnds)
}

// producerID draws a producer id and epoch: mostly the client's own.
func (d *draw) producerID(right bool) func(c *client) (int64, int16) {
	n := d.IntN(100)
	if right {
		n = 0
	}
	return func(c *client) (int64, int16) {
		switch {
		case n < 60:
			return c.producer, c.producerEpoch
		case n < 72:
			return c.producer, max(c.producerEpoch-1, 0)
		case n < 80:
			return c.producer, c.producerEpoch + 1
		case n < 86 && c.producer >= 0:
			return c.producer + 1_000_000, max(c.producerEpoch, 0)
		case n < 94:
			o := c.clients[(c.slot+1)%len(c.clients)]
			return o.producer, o.producerEpoch
		default:
			return -1, -1
		}
	}
}

// txnID draws a transactional id.
func (d *draw) txnID(right bool) func(c *client) string {
	n := d.IntN(100)
	return func(c *client) string {
		switch {
		case right || n < 85:
			return c.txn(c.traits.id)
		case n < 95:
			return c.txn(1 - c.traits.id)
		default:
			return c.txn(9)
		}
	}
}

func (d *draw) initProducer(right bool) func(c *client) kmsg.Request {
	version, name, producer := d.version(kmsg.InitProducerID), d.txnID(right), d.producerID(false)
	timeout, with, idempotent := int32(600_000), d.chance(30), !right && d.chance(15)
	if !right && d.chance(8) {
		timeout = []int32{0, -1, 900_001}[d.IntN(3)]
	}
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis = timeout
		req.ProducerID, req.ProducerEpoch = -1, -1
		if !idempotent {
			req.TransactionalID = optional(name(c))
		}
		if with && version >= 3 {
			req.ProducerID, req.ProducerEpoch = producer(c)
			if c.busy() && (req.ProducerID != c.producer || req.ProducerEpoch != c.producerEpoch || c.fenced) {
				req.ProducerID, req.ProducerEpoch = -1, -1 // see listedDifferences
			}
		}
		req.SetVersion(version)
		return req
	}
}

// busy reports whether a client of the same transactional id may have a transaction open.
func (c *client) busy() bool {
	return slices.ContainsFunc(c.clients, func(o *client) bool { return o.open })
}

func (d *draw) addPartitions(right bool) func(c *client) kmsg.Request {
	version, name, producer := d.between(0, 3), d.txnID(right), d.producerID(right)
	verify := false
	if !right && d.chance(20) {
		version, verify = d.between(4, 5), d.chance(50)
	}
	partitions := []int32{int32(d.IntN(txnPartitions))}
	if d.chance(30) {
		partitions = []int32{0, 1, 2}
	}
	if !right && d.chance(10) {
		partitions = append(partitions, 9)
	}
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.SetVersion(version)
		id, epoch := producer(c)
		c.open = c.open || !verify
		if version < 4 {
			req.TransactionalID, req.ProducerID, req.ProducerEpoch = name(c), id, epoch
			req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: txnTopic(c.worker), Partitions: partitions}}
		} else {
			x := kmsg.NewAddPartitionsToTxnRequestTransaction()
			x.TransactionalID, x.ProducerID, x.ProducerEpoch, x.VerifyOnly = name(c), id, epoch, verify
			x.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: txnTopic(c.worker), Partitions: partitions}}
			req.Transactions = append(req.Transactions, x)
		}
		return req
	}
}

func (d *draw) addOffsets(right bool) func(c *client) kmsg.Request {
	version, name, producer, group := d.version(kmsg.AddOffsetsToTxn), d.txnID(right), d.producerID(right), d.aGroup()
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.Group = name(c), group(c)
		c.open = true
		req.ProducerID, req.ProducerEpoch = producer(c)
		req.SetVersion(version)
		return req
	}
}

func (d *draw) txnOffsetCommit(right bool) func(c *client) kmsg.Request {
	served, _ := kafkaproto.Lookup(int16(kmsg.TxnOffsetCommit))
	first, second := d.between(0, 4), d.between(5, served.Served.Max)
	name, producer, group, owner := d.txnID(right), d.producerID(right), d.aGroup(), d.owner()
	instance, mixed, offset := d.instance(d.chance(80)), !right && d.chance(5), int64(d.IntN(100))
	topic, partition := d.place()
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		version := first
		if c.second != mixed {
			version = second
		}
		req.TransactionalID, req.Group = name(c), group(c)
		c.open = true
		req.ProducerID, req.ProducerEpoch = producer(c)
		req.Generation = -1
		if version >= 3 {
			req.MemberID, req.Generation = owner(c)
			req.InstanceID = instance(c)
		}
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic, t.TopicID = topic, c.topicID(topic)
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = partition, offset
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		req.SetVersion(version)
		return req
	}
}

func (d *draw) endTxn(right bool) func(c *client) kmsg.Request {
	first, name, producer, commit := d.between(0, 4), d.txnID(right), d.producerID(right), d.chance(60)
	mixed := !right && d.chance(5)
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.Commit = name(c), commit
		req.ProducerID, req.ProducerEpoch = producer(c)
		version := first
		if c.second != mixed {
			version = 5
		}
		req.SetVersion(version)
		return req
	}
}

// produce draws a batch. Its sequence is the next one, one that was written before, or the first.
func (d *draw) produce(right bool) func(c *client) kmsg.Request {
	first, second, name, producer := d.between(3, 11), d.between(12, 13), d.txnID(right), d.producerID(right)
	partition, n, plain, mixed := int32(d.IntN(txnPartitions)), d.IntN(100), !right && d.chance(15), !right && d.chance(5)
	return func(c *client) kmsg.Request {
		id, epoch := producer(c)
		if id < 0 || epoch < 0 {
			return nil // no client sends transactional batches without a producer
		}
		sequence := c.sequences[partition]
		switch {
		case id != c.producer || epoch != c.producerEpoch:
			sequence = 0 // one ahead waits for those before it
		case right || n < 70:
		case n < 85:
			sequence = max(sequence-1, 0)
		case n < 92:
			sequence = max(sequence-7, 0)
		default:
			sequence = 0
		}
		version := first
		if c.second != mixed {
			version = second
		}
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 30_000
		if !plain {
			req.TransactionID = optional(name(c))
			c.open = true
		}
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = txnTopic(c.worker), c.server.topics[txnTopic(c.worker)]
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition = partition
		p.Records = batch(head{id, epoch, sequence, !plain}, time.Now().UnixMilli())
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		req.SetVersion(version)
		return req
	}
}

func (d *draw) describeTransactions() func(c *client) kmsg.Request {
	name := d.txnID(false)
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{name(c)}
		return req
	}
}

func (d *draw) describeProducers() func(c *client) kmsg.Request {
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = txnTopic(c.worker), []int32{0, 1, 2}
		req.Topics = append(req.Topics, t)
		return req
	}
}

func (d *draw) listTransactions() func(c *client) kmsg.Request {
	version, filter := d.version(kmsg.ListTransactions), d.either("", "Ongoing", "CompleteCommit", "CompleteAbort", "Empty", "bogus")
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrListTransactionsRequest()
		if filter != "" {
			req.StateFilters = []string{filter}
		}
		if version >= 2 {
			pattern := ".*" + c.tag
			req.TransactionalIDPattern = &pattern
		}
		req.SetVersion(version)
		return req
	}
}

// listEnds asks for the end of a partition, or its last stable offset.
func (d *draw) listEnds() func(c *client) kmsg.Request {
	partition, isolation := int32(d.IntN(txnPartitions)), int8(d.IntN(2))
	return func(c *client) kmsg.Request { return listEnd(txnTopic(c.worker), partition, isolation) }
}

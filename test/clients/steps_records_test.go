package clients

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func unknownID() [16]byte { return [16]byte{15: 99} }

// Reasons for differences of Produce answers.
const (
	noLogStart  = "Kafka names the log start with errors that it finds while appending; clients do not look at it"
	notOpened   = "a batch is not opened to find which record it is"
	takenAsIs   = "Kafka takes what no client sends"
	parked      = "a gap is waited for, another agent may have the missing batch, and its end is retriable (KIP-360 covers the rest)"
	duplicates  = "Kafka names the batch's own timestamp with a duplicate, also with CreateTime"
	wholeBatch  = "batches are never cut"
	clearerCode = "Kafka answers UNKNOWN_SERVER_ERROR"
)

func produceSteps() []step {
	produce := func(name, topic string, partition int32, records []byte) step {
		return step{name: name, req: func(s *side, _ int16) kmsg.Request {
			id := s.ids[topic]
			if topic == "unknown" {
				id = unknownID()
			}
			return produceTo(topic, id, partition, records)
		}}
	}
	spec := func(name string, spec batchSpec) step { return produce(name, "plain", 0, spec.raw()) }
	change := func(name string, f func(*kmsg.RecordBatch)) step { return spec(name, batchSpec{change: f}) }
	now := time.Now().UnixMilli()
	good := batchSpec{timestamp: now}.raw()
	differs := func(st step, pairs ...string) step {
		st.differs = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			st.differs[`Topics\[.*\].Partitions\[\d\].`+pairs[i]] = pairs[i+1]
		}
		return st
	}
	refused := func(st step, pairs ...string) step {
		return differs(st, append([]string{"LogStartOffset", noLogStart}, pairs...)...)
	}
	// taken is for what Kafka takes: in a partition of its own, so that offsets of later steps agree.
	taken := func(name string, f func(*kmsg.RecordBatch), more ...string) step {
		return refused(produce(name, "plain", 2, batchSpec{change: f}.raw()), append(more, "(BaseOffset|ErrorCode)", takenAsIs)...)
	}
	repeated := func(st step) step { return differs(st, "LogAppendTime", duplicates) }
	acks := produce("acks that do not exist", "plain", 0, good)
	acks.req = func(s *side, _ int16) kmsg.Request {
		req := produceTo("plain", s.ids["plain"], 0, good)
		req.Acks = 2
		return req
	}
	zstd := change("zstd", func(b *kmsg.RecordBatch) { b.Attributes = 4 })
	zstd.versions = between(kmsg.Produce, 0, 6)
	garbage := produce("records that are none", "plain", 2, batchSpec{change: func(b *kmsg.RecordBatch) {
		b.Records = bytes.Repeat([]byte{0xff}, len(b.Records))
	}}.raw())
	garbage = differs(garbage, "(ErrorCode|BaseOffset|ErrorRecords.*|ErrorMessage|LogStartOffset)", notOpened)
	steps := []step{
		spec("bad checksum", batchSpec{corrupt: true}),
		produce("too large", "small", 0, batchSpec{records: []kmsg.Record{{Value: make([]byte, 300)}}}.raw()),
		change("magic 1", func(b *kmsg.RecordBatch) { b.Magic = 1 }),
		change("magic 0", func(b *kmsg.RecordBatch) { b.Magic = 0 }),
		change("magic 3", func(b *kmsg.RecordBatch) { b.Magic = 3 }),
		produce("partition out of range", "plain", 3, good),
		produce("partition negative", "plain", -1, good),
		produce("unknown topic", "unknown", 0, good),
		acks,
		produce("no records", "plain", 0, []byte{}),
		produce("two batches", "plain", 0, append(bytes.Clone(good), good...)),
		produce("cut", "plain", 0, good[:len(good)-1]),
		refused(produce("null key, compacted", "compacted", 0, batchSpec{records: []kmsg.Record{{Key: []byte("k")}, {Value: []byte("v")}}}.raw())),
		refused(produce("too old", "window", 0, batchSpec{timestamp: now - 2*3_600_000}.raw()), "ErrorRecords.*", notOpened),
		refused(produce("too new", "window", 0, batchSpec{timestamp: now + 2*3_600_000}.raw()), "ErrorRecords.*", notOpened),
		taken("claims LogAppendTime", func(b *kmsg.RecordBatch) { b.Attributes = 8 }),
		refused(change("control batch", func(b *kmsg.RecordBatch) { b.Attributes = 0x20 })),
		refused(change("control batch with a producer", func(b *kmsg.RecordBatch) {
			b.Attributes, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 0x20, 5, 0, 0
		})),
		change("transactional without a producer", func(b *kmsg.RecordBatch) { b.Attributes = 0x10 }),
		change("transactional without a transactional id", func(b *kmsg.RecordBatch) {
			b.Attributes, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 0x10, 5, 0, 0
		}),
		refused(change("base offset", func(b *kmsg.RecordBatch) { b.FirstOffset = 7 })),
		refused(change("more records claimed", func(b *kmsg.RecordBatch) { b.NumRecords = 2 })),
		refused(change("more offsets claimed", func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 2 })),
		refused(change("no records claimed", func(b *kmsg.RecordBatch) { b.NumRecords = 0 })),
		refused(change("negative offsets", func(b *kmsg.RecordBatch) { b.LastOffsetDelta = -1 })),
		refused(change("producer without a sequence", func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch = 5, 0 })),
		taken("producer without an epoch", func(b *kmsg.RecordBatch) { b.ProducerID, b.FirstSequence = 5, 0 }, "LogAppendTime", takenAsIs),
		refused(change("codec 5", func(b *kmsg.RecordBatch) { b.Attributes = 5 }), "ErrorCode", clearerCode),
		zstd,
		garbage,
		produce("good", "plain", 1, good),
		produce("LogAppendTime", "stamped", 0, good),
		repeated(spec("first of a producer", batchSpec{producer: 7, timestamp: now})),
		repeated(spec("next of a producer", batchSpec{producer: 7, timestamp: now, sequence: 1})),
		repeated(spec("next epoch", batchSpec{producer: 7, epoch: 1, timestamp: now})),
		refused(spec("old epoch", batchSpec{producer: 7, epoch: 0, sequence: 2, timestamp: now})),
	}
	far := refused(spec("next epoch, not from 0", batchSpec{producer: 7, epoch: 5, sequence: 2, timestamp: now}),
		"ErrorCode", parked, "CurrentLeader.LeaderID", parked)
	far.differs[`Brokers.*`] = parked
	far.versions = only(13)
	steps = append(steps, far)
	for i := range 5 { // the duplicates above, and what the later steps read
		steps = append(steps, produce(fmt.Sprint("to read ", i), "read", 0, batchSpec{timestamp: 1_700_000_000_000 + int64(i%3)*1000}.raw()))
		steps[len(steps)-1].versions = only(9)
	}
	return steps
}

// bombSteps produces to a topic with a max.decompressed.message.bytes: 10 MiB that are 10 KiB compressed, and records about
// its bound.
func bombSteps(t *testing.T, sides []*side) []step {
	t.Helper()
	for _, s := range sides {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, newTopic("bombed", 1, "max.decompressed.message.bytes", "1000"))
		require.Zero(t, ask[*kmsg.CreateTopicsResponse](t, s.conn, req, 7).Topics[0].ErrorCode)
		awaitLeader(t, s, "bombed", 0)
		s.learn(t)
	}
	produce := func(name string, bytes int, change func(*kmsg.RecordBatch)) step {
		st := step{name: name, versions: from(kmsg.Produce, 9), req: func(s *side, _ int16) kmsg.Request {
			return produceTo("bombed", s.ids["bombed"], 0, batchSpec{
				timestamp: time.Now().UnixMilli(), change: change, records: []kmsg.Record{{Value: make([]byte, bytes)}},
			}.raw())
		}}
		if bytes > 993 && change != nil {
			st.differs = map[string]string{`Topics\[.*\].Partitions\[0\].(LogStartOffset|ErrorMessage)`: noLogStart}
		}
		return st
	}
	return []step{
		produce("a record at the bound", 993, gzipped),
		produce("a record above the bound", 994, gzipped),
		produce("a bomb", 10<<20, gzipped),
		produce("a record above the bound, not compressed", 10_000, nil),
	}
}

func listOffsetsSteps() []step {
	at := func(name, topic string, partition int32, timestamp int64) step {
		return step{name: name, req: func(*side, int16) kmsg.Request { return listOffset(topic, partition, timestamp) }}
	}
	twice := at("a partition twice", "read", 0, -1)
	twice.differs = map[string]string{`Topics\[read\].Partitions#`: "Kafka answers once for both, with the same error"}
	twice.req = func(*side, int16) kmsg.Request {
		req := listOffset("read", 0, -1)
		p := req.Topics[0].Partitions[0]
		p.Timestamp = -2
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		return req
	}
	return []step{
		at("latest", "read", 0, -1), at("earliest", "read", 0, -2), at("max timestamp", "read", 0, -3),
		at("local earliest", "read", 0, -4), at("tiered latest", "read", 0, -5), at("tiering next", "read", 0, -6),
		at("no such special", "read", 0, -7),
		at("timestamp 0", "read", 0, 0), at("timestamp of a record", "read", 0, 1_700_000_001_000),
		at("timestamp between", "read", 0, 1_700_000_001_001), at("timestamp after all", "read", 0, 1_700_000_003_000),
		at("latest of nothing", "empty", 0, -1), at("max timestamp of nothing", "empty", 0, -3), at("timestamp in nothing", "empty", 0, 0),
		at("unknown topic", "unknown", 0, -1), at("partition out of range", "read", 1, -1), at("partition negative", "read", -1, -1),
		twice,
	}
}

func fetchSteps() []step {
	fetch := func(name, topic string, partition int32, offset int64, changes ...func(*kmsg.FetchRequest)) step {
		return step{name: name, req: func(s *side, _ int16) kmsg.Request {
			id := s.ids[topic]
			if topic == "unknown" {
				id = unknownID()
			}
			req := fetchFrom(topic, id, partition, offset)
			for _, c := range changes {
				c(req)
			}
			return req
		}}
	}
	epoch := fetch("with a leader epoch to come", "read", 0, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 9 })
	epoch.versions = from(kmsg.Fetch, 9)
	epoch.differs = map[string]string{`Topics\[.*\].Partitions\[0\].*`: "any agent serves any partition"}
	isolation := fetch("isolation 2", "read", 0, 0, func(r *kmsg.FetchRequest) { r.IsolationLevel = 2 })
	isolation.differs = map[string]string{".*": "Kafka answers UNKNOWN_SERVER_ERROR, here the connection is closed as for other malformed requests"}
	part := fetch("one batch and a part", "read", 0, 0, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].PartitionMaxBytes = 80 })
	part.differs = map[string]string{`Topics\[.*\].Partitions\[0\].RecordBatches`: wholeBatch}
	sinceSessions := func(st step) step { st.versions = from(kmsg.Fetch, 7); return st }
	return []step{
		fetch("from 0", "read", 0, 0), fetch("from 3", "read", 0, 3), fetch("the end", "read", 0, 5), fetch("beyond the end", "read", 0, 6),
		fetch("negative", "read", 0, -1), fetch("far beyond", "read", 0, 1<<62), fetch("of nothing", "empty", 0, 0),
		epoch,
		fetch("nothing, beyond the end", "empty", 0, 1),
		fetch("unknown topic", "unknown", 0, 0), fetch("partition out of range", "read", 1, 0), fetch("partition negative", "read", -1, 0),
		fetch("committed", "read", 0, 0, func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 }),
		isolation,
		fetch("one byte", "read", 0, 1, func(r *kmsg.FetchRequest) { r.MaxBytes = 1; r.Topics[0].Partitions[0].PartitionMaxBytes = 1 }),
		part,
		fetch("no bytes", "read", 0, 0, func(r *kmsg.FetchRequest) { r.MaxBytes = 0; r.Topics[0].Partitions[0].PartitionMaxBytes = 0 }),
		fetch("no partitions", "read", 0, 0, func(r *kmsg.FetchRequest) { r.Topics = nil }),
		sinceSessions(fetch("unknown session", "read", 0, 0, func(r *kmsg.FetchRequest) { r.SessionID = 77; r.SessionEpoch = 3 })),
		sinceSessions(fetch("no session, an epoch", "read", 0, 0, func(r *kmsg.FetchRequest) { r.SessionEpoch = 3 })),
	}
}

func epochSteps() []step {
	ask := func(name, topic string, partition, epoch int32) step {
		return step{name: name, req: func(*side, int16) kmsg.Request { return epochOf(topic, partition, epoch) }}
	}
	return []step{
		ask("first epoch", "read", 0, 0), ask("unknown topic", "unknown", 0, 0), ask("partition out of range", "read", 1, 0),
	}
}

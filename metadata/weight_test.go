package metadata

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestLoad_MemoryBytes compares the estimate of a state's memory with the heap that the state takes.
func TestLoad_MemoryBytes(t *testing.T) { // not parallel: it measures the process
	const partitions = 20_000
	topic := id.Topic{15: 1}
	name := func(kind string, i int) string { return fmt.Sprintf("%s-of-a-name-that-is-not-short-%d", kind, i) }
	create := &CreateTopic{ID: topic, Name: "t", Partitions: partitions}
	begin := &InitTransaction{TransactionalID: "x", TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1}
	ref := TransactionRef{TransactionalID: "x", Version: ProtocolOne, AsOf: 1 << 40}
	all := make([]id.TopicPartition, partitions)
	for i := range all {
		all[i] = id.TopicPartition{Topic: topic, Partition: int32(i)}
	}
	for what, fill := range map[string]func(apply func(...Command)){
		"partitions with one extent": func(apply func(...Command)) {
			apply(create)
			commitRounds(apply, topic, partitions, 1, -1)
		},
		"partitions with nine extents": func(apply func(...Command)) { // slices of sixteen
			apply(create)
			commitRounds(apply, topic, partitions, 9, -1)
		},
		"partitions with seventeen extents": func(apply func(...Command)) { // slices of 32
			apply(create)
			commitRounds(apply, topic, partitions, 17, -1)
		},
		"partitions with 33 extents": func(apply func(...Command)) { // two leaves
			apply(create)
			commitRounds(apply, topic, partitions/4, 33, -1)
		},
		"trimmed extents, one by one": func(apply func(...Command)) {
			apply(create)
			commitRounds(apply, topic, partitions, 9, -1)
			for offset := range int64(6) {
				c := &TrimPartitions{}
				for n := range int32(partitions) {
					c.Trims = append(c.Trims, Trim{Partition: id.TopicPartition{Topic: topic, Partition: n}, Offset: offset + 1})
				}
				apply(c)
			}
		},
		"partitions with five producers": func(apply func(...Command)) {
			apply(create)
			commitRounds(apply, topic, partitions, 5, 0)
		},
		"bundles of one extent": func(apply func(...Command)) {
			apply(create, &OpenSession{Instance: "i"})
			for i := range 50_000 {
				apply(commitTo(uint32(i+1), topic, 0, 1, -1))
			}
		},
		"topics": func(apply func(...Command)) {
			for i := range partitions {
				apply(&CreateTopic{
					ID: id.Topic{byte(i), byte(i >> 8), 15: 1}, Name: name("topic", i), Partitions: 3,
					Configs: map[string]string{"retention.ms": "86400000", "cleanup.policy": "delete"},
				})
			}
		},
		"groups with a member": func(apply func(...Command)) {
			for i := range partitions {
				apply(&UpdateGroup{
					Group: strings.Clone(name("group", i)), Kind: GroupClassic, Head: make([]byte, 100),
					Members: []GroupMember{{ID: strings.Clone(name("member", i)), Value: make([]byte, 200)}},
				})
			}
		},
		"groups with an offset": func(apply func(...Command)) {
			apply(create)
			for i := range partitions {
				apply(&CommitOffsets{Group: name("group", i), Offsets: offsetsOf(topic, 1, 0)})
			}
		},
		"a group with offsets": func(apply func(...Command)) {
			apply(create)
			apply(&CommitOffsets{Group: "g", Offsets: offsetsOf(topic, partitions, 0)})
		},
		"a group with offsets and metadata": func(apply func(...Command)) {
			apply(create)
			apply(&CommitOffsets{Group: "g", Offsets: offsetsOf(topic, partitions, 100)})
		},
		"transactional ids": func(apply func(...Command)) {
			for i := range partitions {
				apply(&InitTransaction{TransactionalID: name("transaction", i), TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
			}
		},
		"markers of transactions": func(apply func(...Command)) {
			apply(create, &OpenSession{Instance: "i"}, begin)
			for range partitions {
				apply(&AddPartitions{TransactionRef: ref, Partitions: all[:1]})
				apply(&EndTransaction{TransactionRef: ref})
			}
		},
		"partitions of an open transaction": func(apply func(...Command)) {
			apply(create, &OpenSession{Instance: "i"}, begin, &AddPartitions{TransactionRef: ref, Partitions: all}, transactional(1, topic, 0, partitions))
		},
		"partitions of an aborted transaction": func(apply func(...Command)) {
			apply(create, &OpenSession{Instance: "i"}, begin, &AddPartitions{TransactionRef: ref, Partitions: all}, transactional(1, topic, 0, partitions))
			apply(&EndTransaction{TransactionRef: ref})
		},
		"aborted transactions of a partition": func(apply func(...Command)) {
			apply(create, &OpenSession{Instance: "i"}, begin)
			for n := range partitions / 2 {
				apply(&AddPartitions{TransactionRef: ref, Partitions: all[:1]}, transactional(uint32(n+1), topic, 0, 1), &EndTransaction{TransactionRef: ref})
			}
		},
		"aborted transactions of a trimmed partition": func(apply func(...Command)) {
			apply(create, &OpenSession{Instance: "i"}, begin)
			for n := range partitions / 2 {
				apply(&AddPartitions{TransactionRef: ref, Partitions: all[:1]}, transactional(uint32(n+1), topic, 0, 1), &EndTransaction{TransactionRef: ref})
			}
			apply(&TrimPartitions{Trims: []Trim{{all[0], -1}}})
			for range 20 {
				apply(&Tick{})
			}
		},
		"partitions with five producers, deleted": func(apply func(...Command)) {
			apply(create)
			commitRounds(apply, topic, partitions, 5, 0)
			apply(&DeleteTopic{ID: topic})
		},
		"members with values of 4,097 bytes": func(apply func(...Command)) {
			for i := range 2000 {
				apply(&UpdateGroup{Group: name("group", i), Kind: GroupClassic, Members: []GroupMember{{ID: "m", Value: make([]byte, 4097)}}})
			}
		},
		"members with values of 32,769 bytes": func(apply func(...Command)) {
			for i := range 500 {
				apply(&UpdateGroup{Group: name("group", i), Kind: GroupClassic, Members: []GroupMember{{ID: "m", Value: make([]byte, 32769)}}})
			}
		},
		"a group with offsets and metadata of 2,305 bytes": func(apply func(...Command)) {
			apply(create)
			apply(&CommitOffsets{Group: "g", Offsets: offsetsOf(topic, partitions/4, 2305)})
		},
		"topics with configs of 4,097 bytes": func(apply func(...Command)) {
			for i := range 1000 {
				value := strings.Repeat("1", 4097)
				apply(&CreateTopic{ID: id.Topic{byte(i), byte(i >> 8), 15: 1}, Name: name("topic", i), Partitions: 1, Configs: map[string]string{"k": value}})
			}
		},
		"groups of transactions": func(apply func(...Command)) {
			apply(begin)
			for i := range MaxTransactionGroups {
				apply(&AddOffsets{TransactionRef: ref, Group: name("group", i)})
			}
		},
		"groups of transactions with long names": func(apply func(...Command)) {
			for i := range int64(20) {
				apply(&InitTransaction{TransactionalID: name("transaction", int(i)), TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
				for g := range 31 {
					group := fmt.Sprint(g, strings.Repeat("g", 32_000))
					apply(&AddOffsets{TransactionRef: TransactionRef{TransactionalID: name("transaction", int(i)), ProducerID: i, Version: ProtocolOne, AsOf: 1 << 40}, Group: group})
				}
			}
		},
		"pending offsets of a group": func(apply func(...Command)) {
			apply(create, begin, &AddOffsets{TransactionRef: ref, Group: "g"})
			apply(&CommitOffsets{Group: "g", Transaction: &ref, Offsets: offsetsOf(topic, partitions, 0)})
		},
		"pending offsets of a group with metadata": func(apply func(...Command)) {
			apply(create, begin, &AddOffsets{TransactionRef: ref, Group: "g"})
			apply(&CommitOffsets{Group: "g", Transaction: &ref, Offsets: offsetsOf(topic, partitions, 100)})
		},
		"sessions": func(apply func(...Command)) {
			for i := range 500 {
				c := &OpenSession{Instance: name("instance", i), Zone: strings.Repeat("z", 250), Version: "v1", Peer: name("peer", i)}
				for e := range 16 {
					c.Endpoints = append(c.Endpoints, Endpoint{Listener: name("listener", e), Host: name(fmt.Sprint("host-", e), i), Port: 9092})
				}
				apply(c)
			}
		},
		"deleted topics": func(apply func(...Command)) {
			for i := range partitions {
				n := id.Topic{byte(i), byte(i >> 8), 15: 1}
				apply(&CreateTopic{ID: n, Name: name("topic", i), Partitions: 1}, &DeleteTopic{ID: n})
			}
		},
		"deleted topics that can be undeleted": func(apply func(...Command)) {
			for i := range maxDeletedTopics {
				n := id.Topic{byte(i), byte(i >> 8), 15: 1}
				apply(&CreateTopic{ID: n, Name: name("topic", i), Partitions: 1}, &DeleteTopic{ID: n, KeepMs: 1000})
			}
		},
		"configs of groups": func(apply func(...Command)) {
			for i := range partitions {
				apply(&SetConfigs{Resource: ConfigGroup, Name: name("group", i), Set: map[string]string{"consumer.session.timeout.ms": "50000"}})
			}
		},
		"configs of groups with long names": func(apply func(...Command)) {
			for i := range 500 {
				apply(&SetConfigs{Resource: ConfigGroup, Name: fmt.Sprint(i, strings.Repeat("n", 32_000)), Set: map[string]string{"consumer.session.timeout.ms": "50000"}})
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			before := heapBytes()
			s := newMachine()
			fill(func(cmds ...Command) {
				for _, r := range s.Apply(s.index+1, &Batch{Now: 1000, Commands: cmds}, nil, nil) {
					require.NoError(t, r.Err)
				}
			})
			heap := heapBytes() - before
			l := s.Load()
			t.Logf("heap %d KiB, estimate %d KiB", heap>>10, l.MemoryBytes()>>10)
			require.Less(t, heap, l.MemoryBytes(), "the estimate bounds the heap")
			require.Less(t, l.MemoryBytes(), 3*heap, "the estimate wastes no memory")
			runtime.KeepAlive(s)
		})
	}
}

// TestLoad_EndOfTransactionAddsLittle: the owner never refuses EndTransaction, so the memory that the end takes counts before.
func TestLoad_EndOfTransactionAddsLittle(t *testing.T) {
	t.Parallel()
	const partitions = 1000
	topic := id.Topic{15: 1}
	ref := TransactionRef{TransactionalID: "x", Version: ProtocolOne, AsOf: 1 << 40}
	all := make([]id.TopicPartition, partitions)
	for i := range all {
		all[i] = id.TopicPartition{Topic: topic, Partition: int32(i)}
	}
	for what, add := range map[string][]Command{
		"pending offsets": {
			&AddOffsets{TransactionRef: ref, Group: "g"},
			&CommitOffsets{Group: "g", Transaction: &ref, Offsets: offsetsOf(topic, partitions, 10)},
		},
		"partitions without records": {&AddPartitions{TransactionRef: ref, Partitions: all}},
	} {
		t.Run(what, func(t *testing.T) {
			s := newMachine()
			memory := func(cmds ...Command) int64 {
				for _, r := range s.Apply(s.index+1, &Batch{Now: 1000, Commands: cmds}, nil, nil) {
					require.NoError(t, r.Err)
				}
				l := s.Load()
				return l.MemoryBytes()
			}
			memory(&CreateTopic{ID: topic, Name: "t", Partitions: partitions},
				&InitTransaction{TransactionalID: "x", TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
			open := memory(add...)
			require.LessOrEqual(t, memory(&EndTransaction{TransactionRef: ref, Commit: true}), open)
		})
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// commitRounds opens a session and commits one batch to each of the partitions, a number of times. The first producer of a round
// is producer plus the partitions before; -1 means no producers.
func commitRounds(apply func(...Command), topic id.Topic, partitions, rounds int, producer int64) {
	apply(&OpenSession{Instance: "i"})
	for round := range rounds {
		from := int64(-1)
		if producer >= 0 {
			from = producer + int64(round*partitions)
		}
		apply(commitTo(uint32(round+1), topic, 0, partitions, from))
	}
}

// commitTo is a commit of one batch to each of count partitions.
func commitTo(n uint32, topic id.Topic, first, count int, producer int64) *CommitBundle {
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: n}, Acked: n - 1, Bytes: 1 << 30})
	for i := range count {
		b.Section(commit.Section{Partition: id.TopicPartition{Topic: topic, Partition: int32(first + i)}, Position: uint32(i) * 61})
		batch := commit.Batch{Records: 1, Bytes: 61, ProducerID: -1}
		if producer >= 0 {
			batch.ProducerID = producer + int64(i)
		}
		b.Batch(batch)
	}
	return &CommitBundle{Encoded: b.AppendTo(nil)}
}

// transactional is a commit of one batch of the transactional producer 0 to each of count partitions.
func transactional(n uint32, topic id.Topic, first, count int) *CommitBundle {
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: n}, Acked: n - 1, Bytes: 1 << 30})
	for i := range count {
		b.Section(commit.Section{Partition: id.TopicPartition{Topic: topic, Partition: int32(first + i)}, Position: uint32(i) * 61})
		b.Batch(commit.Batch{Records: 1, Bytes: 61, BaseSequence: int32(n - 1), Transactional: true, TransactionVersion: ProtocolOne, AsOf: 1 << 40})
	}
	return &CommitBundle{Encoded: b.AppendTo(nil)}
}

func offsetsOf(topic id.Topic, count, metadata int) []OffsetCommit {
	list := make([]OffsetCommit, count)
	for i := range list {
		list[i] = OffsetCommit{Partition: id.TopicPartition{Topic: topic, Partition: int32(i)}, Offset: 1, ExpiresMs: -1, Metadata: strings.Repeat("m", metadata)}
	}
	return list
}

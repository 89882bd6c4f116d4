package metadata

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// Maximum number of items in one record.
const (
	extentsPerRecord = 1024
	itemsPerRecord   = 512
)

// Encode writes the state as a snapshot for Decode. Equal states have equal bytes. Encode walks the whole state, so call it on a
// Snapshot. It returns ErrStateTooLarge, or the writer's error.
func (s *machine) Encode(w io.Writer) error {
	_, err := s.encode(newLimitedWriter(w))
	return err
}

// Encodable returns the state's hash, or ErrStateTooLarge if Encode would fail. It walks the whole state, so call it on a Snapshot.
func (s *machine) Encodable() (hash uint64, err error) {
	return s.encode(newLimitedWriter(io.Discard))
}

// newLimitedWriter returns a sectionWriter that fails with ErrStateTooLarge if a record exceeds SectionBytes.
func newLimitedWriter(w io.Writer) *sectionWriter {
	f := newSectionWriter(w)
	f.strict = true
	return f
}

// Hash returns the xxhash64 of the state's encoding, which is also the last field of a snapshot. It walks the whole state, so call it on
// a Snapshot.
func (s *machine) Hash() uint64 {
	sum, err := s.encode(newSectionWriter(io.Discard))
	if err != nil {
		panic(fmt.Sprintf("metadata: hash: %v", err)) // io.Discard does not fail, and the writer is not strict
	}
	return sum
}

func (s *machine) encode(f *sectionWriter) (uint64, error) {
	s.encodeMeta(f)
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		encodeTopic(f, e)
		return f.err == nil
	})
	s.configs.Scan(func(key string, m map[string]string) bool {
		f.buf = append(f.buf, byte(recordConfig))
		f.buf = wire.AppendString(f.buf, key)
		f.buf = appendStringMap(f.buf, m)
		f.recordDone()
		return true
	})
	s.gone.Scan(func(name string, at int64) bool {
		f.buf = append(f.buf, byte(recordGone))
		f.buf = wire.AppendString(f.buf, name)
		f.buf = binary.AppendVarint(f.buf, at)
		f.recordDone()
		return true
	})
	s.encodeTransactions(f)
	s.encodeGroups(f)
	s.sessions.Scan(func(n id.Session, e *session) bool {
		encodeSession(f, n, e)
		return f.err == nil
	})
	s.encodeBundles(f)
	s.encodeJobs(f)
	s.encodeEnded(f)
	s.encodeProducerLimit(f)
	s.encodeLimits(f)
	s.encodeBucket(f)
	s.cleanup.scan(func(t extent.Tree) bool {
		f.buf = append(f.buf, byte(recordCleanup))
		encodeExtents(f, &t)
		return f.err == nil
	})
	return f.end()
}

func (s *machine) encodeMeta(f *sectionWriter) {
	b := append(f.buf, byte(recordMeta))
	b = binary.AppendUvarint(b, s.index)
	b = binary.AppendVarint(b, s.now)
	b = binary.AppendUvarint(b, uint64(s.version))
	b = wire.AppendString(b, s.clusterID)
	b = binary.AppendUvarint(b, uint64(s.nextProducerID))
	b = binary.AppendUvarint(b, uint64(s.nextSession))
	b = binary.AppendUvarint(b, uint64(s.nextNode))
	b = binary.AppendUvarint(b, s.membership)
	b = wire.AppendString(b, s.sweep.topic)
	f.buf = binary.AppendVarint(b, int64(s.sweep.partition))
	f.recordDone()
}

func encodeTopic(f *sectionWriter, e *topicEntry) {
	b := append(f.buf, byte(recordTopic))
	b = append(b, e.topic.ID[:]...)
	b = wire.AppendString(b, e.topic.Name)
	b = binary.AppendUvarint(b, uint64(e.topic.Partitions))
	b = binary.AppendUvarint(b, uint64(e.topic.ReplicationFactor))
	b = appendStringMap(b, e.topic.Configs)
	b = binary.AppendVarint(b, e.topic.CreatedMs)
	f.buf = appendDeletion(binary.AppendUvarint(b, uint64(e.earlier)), e.deletion)
	f.recordDone()
	e.partitions.Scan(func(n int32, p *partition) bool {
		b := append(f.buf, byte(recordPartition))
		b = binary.AppendUvarint(b, uint64(n))
		b = binary.AppendUvarint(b, uint64(p.logStart))
		b = binary.AppendUvarint(b, uint64(p.high))
		f.buf = binary.AppendUvarint(b, uint64(p.cleaned))
		f.recordDone()
		encodeExtents(f, &p.extents)
		encodeItems(f, recordProducers, &p.producers, appendProducer)
		if p.resting != nil {
			encodeItems(f, recordResting, p.resting, appendResting)
		}
		encodeForgotten(f, p.forgotten)
		if p.transactions != nil {
			encodePartitionTransactions(f, p.transactions)
		}
		return f.err == nil
	})
}

// encodeExtents writes the extents of a tree in records of their own.
func encodeExtents(f *sectionWriter, t *extent.Tree) {
	left := t.Totals().Extents
	var n int64
	var e extent.Encoder
	t.Ascend(0, func(x *extent.Extent) bool {
		if n == 0 {
			n, e = min(left, extentsPerRecord), extent.Encoder{}
			left -= n
			f.recordDone()
			f.buf = append(f.buf, byte(recordExtents))
			f.buf = binary.AppendUvarint(f.buf, uint64(n))
		}
		f.buf = e.Append(f.buf, x)
		n--
		return f.err == nil
	})
	f.recordDone()
}

// encodeItems writes a table's items, many to a record.
func encodeItems[K ~int32 | ~int64 | ~uint32 | ~uint64, V any](
	f *sectionWriter, tag recordTag, items *btree.Map[K, V], add func([]byte, *V) []byte,
) {
	f.beginList(byte(tag))
	items.Scan(func(k K, v V) bool {
		f.list.items = binary.AppendUvarint(f.list.items, uint64(k))
		f.list.items = add(f.list.items, &v)
		f.itemDone()
		return f.err == nil
	})
	f.endList()
}

func appendProducer(b []byte, p *producer) []byte {
	b = binary.AppendUvarint(b, uint64(p.base))
	b = binary.AppendUvarint(b, uint64(p.next))
	b = binary.AppendUvarint(b, uint64(p.seen))
	b = binary.AppendUvarint(b, uint64(uint16(p.epoch)))
	b = append(b, p.kept, p.flags)
	for i := range int(p.kept) {
		b = binary.AppendUvarint(b, uint64(p.records[i]))
		if i > 0 {
			b = binary.AppendUvarint(b, uint64(p.back[i-1]))
		}
	}
	return b
}

func appendResting(b []byte, r *resting) []byte {
	b = binary.AppendUvarint(b, uint64(r.next))
	b = binary.AppendUvarint(b, uint64(uint16(r.epoch)))
	return binary.AppendUvarint(append(b, r.flags), uint64(r.seen))
}

func encodeSession(f *sectionWriter, n id.Session, e *session) {
	b := append(f.buf, byte(recordSession))
	b = binary.AppendUvarint(b, uint64(n))
	b = wire.AppendString(b, e.instance)
	b = wire.AppendString(b, e.zone)
	b = wire.AppendString(b, e.software)
	b = appendEndpoints(b, e.endpoints)
	for _, node := range e.nodeIDs {
		b = binary.AppendUvarint(b, uint64(node))
	}
	b = wire.AppendString(b, e.peer)
	b = append(b, byte(e.roles))
	b = binary.AppendUvarint(b, uint64(e.nextN))
	b = wire.AppendBool(b, e.draining)
	b = wire.AppendBool(b, e.hidden)
	b = wire.AppendBool(b, e.closed)
	f.buf = binary.AppendVarint(binary.AppendVarint(b, e.openedAt), e.closedAt)
	f.recordDone()
	var result []byte
	e.results.Scan(func(n uint32, r *commit.Result) bool {
		result = commit.AppendResult(result[:0], r)
		f.buf = append(f.buf, byte(recordResult))
		f.buf = binary.AppendUvarint(f.buf, uint64(n))
		f.buf = wire.AppendBytes(f.buf, result)
		f.recordDone()
		return f.err == nil
	})
}

func (s *machine) encodeBundles(f *sectionWriter) {
	encodeItems(f, recordBundles, &s.bundles, func(b []byte, l *liveBundle) []byte {
		b = binary.AppendUvarint(b, uint64(l.bytes))
		b = binary.AppendUvarint(b, uint64(l.extents))
		b = append(binary.AppendUvarint(b, uint64(l.liveBytes)), l.level)
		return binary.AppendVarint(binary.AppendVarint(b, l.madeMs), l.atMs)
	})
	encodeItems(f, recordDead, &s.dead, func(b []byte, d *DeadBundle) []byte {
		b = binary.AppendUvarint(b, uint64(d.Bytes))
		b = binary.AppendUvarint(b, d.Index)
		return binary.AppendVarint(b, d.AtMs)
	})
}

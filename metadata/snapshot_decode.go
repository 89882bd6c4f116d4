package metadata

import (
	"fmt"
	"io"
	"math"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

func decode(r io.Reader) (*machine, error) {
	f, err := newSectionReader(r)
	if err != nil {
		return nil, err
	}
	d := snapshotDecoder{s: newMachine()}
	for {
		payload, err := f.next()
		if err != nil {
			return nil, err
		}
		if payload == nil {
			break
		}
		w := wire.NewReader(payload)
		for w.Len() > 0 {
			d.record(&w)
			if err := d.unsupported(); err != nil {
				return nil, err
			}
		}
		if err := w.Err(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformedSnapshot, err)
		}
	}
	if !d.meta {
		return nil, fmt.Errorf("%w: empty", ErrMalformedSnapshot)
	}
	d.endTree()
	d.s.countLoad()
	return d.s, nil
}

// snapshotDecoder holds the decoded state and the parents of the next records.
type snapshotDecoder struct {
	s         *machine
	meta      bool
	topic     *topicEntry
	partition *partition
	number    int32 // of the partition
	session   *session
	sessionID id.Session
	result    uint32       // n of the last result of the session
	tree      *extent.Tree // that extents go to: the partition's or the cleanup item's
	cleanup   *extent.Tree
	next      int64 // least base of the next extent
	groups    groupDecoder
	unknown   recordTag // first unknown tag, 0 if none

	transaction *transaction // that partitions and groups belong to
}

func (d *snapshotDecoder) record(w *wire.Reader) {
	tag := recordTag(w.Byte())
	if d.meta == (tag == recordMeta) {
		w.Fail("record %d: the first record, and only the first, must be meta", tag)
		return
	}
	if !tag.known() {
		d.unknown = tag
		w.Fail("unknown record %d", tag)
		return
	}
	records[tag].read(d, w)
}

// unsupported returns ErrUnsupported if the state's version is newer than MaxVersion. For an unknown tag at a known version it returns
// both ErrUnsupported and ErrMalformedSnapshot: a newer program or a defect wrote it. Section checksums rule out damage.
func (d *snapshotDecoder) unsupported() error {
	switch {
	case d.s.version > MaxVersion:
		return unsupportedVersion(d.s.version)
	case d.unknown != 0:
		return fmt.Errorf("%w: %w: record of kind %d", ErrMalformedSnapshot, ErrUnsupported, uint8(d.unknown))
	}
	return nil
}

func (d *snapshotDecoder) readMeta(w *wire.Reader) {
	s := d.s
	d.meta = true
	s.index = w.Uvarint()
	s.now = w.Varint()
	s.version = w.Uint32()
	s.clusterID = w.String()
	s.nextProducerID = w.Offset()
	s.nextSession = id.Session(w.Uint32())
	node := w.Offset()
	s.nextNode = int32(node)
	s.membership = w.Uvarint()
	s.sweep = sweepCursor{topic: w.String(), partition: w.Int32()}
	if s.version == 0 || s.nextSession == 0 || node < 1 || node > math.MaxInt32 {
		w.Fail("meta: version %d, next session %d, next node %d", s.version, s.nextSession, node)
	}
}

func (d *snapshotDecoder) readTopic(w *wire.Reader) {
	t := &Topic{ID: readTopicID(w), Name: w.String()}
	count := w.Offset()
	factor := w.Offset()
	t.Partitions, t.ReplicationFactor, t.Configs, t.CreatedMs = int32(count), int16(factor), readStringMap(w), w.Varint()
	if count < 1 || count > MaxPartitions || factor < 1 || factor > MaxReplicationFactor {
		w.Fail("topic of %d partitions with replication factor %d", count, factor)
	}
	e := &topicEntry{gen: d.s.gen, topic: t, earlier: w.Offset(), deletion: readDeletion(w)}
	d.topic, d.partition, d.tree, d.number = e, nil, nil, -1
	if _, twice := d.s.topics.Set(topicKey(t.ID), e); twice {
		w.Fail("duplicate topic id %x", t.ID)
	}
	if e.deletion != nil {
		if _, twice := d.s.deletions.Set(e.deletion.order, t.ID); twice || e.deletion.index() > d.s.index || e.deletion.at > d.s.now {
			w.Fail("deletion %d at %d", e.deletion.order, e.deletion.at)
		}
		d.s.deletedNames.Set(t.Name, d.s.deletedOf(t.Name)+1)
		return
	}
	if _, twice := d.s.names.Set(t.Name, t.ID); twice {
		w.Fail("duplicate topic name %q", t.Name)
	}
}

func (d *snapshotDecoder) readPartition(w *wire.Reader) {
	n := w.Offset()
	p := &partition{gen: d.s.gen, producers: newProducers()}
	p.logStart, p.high, p.cleaned = w.Offset(), w.Offset(), w.Offset()
	if w.Err() != nil {
		return
	}
	if d.topic == nil || n >= int64(d.topic.topic.Partitions) || n <= int64(d.number) || p.logStart > p.high || p.high < 1 || p.cleaned > p.high {
		w.Fail("partition %d [%d, %d)", n, p.logStart, p.high)
		return
	}
	d.topic.partitions.Set(int32(n), p)
	d.partition, d.number, d.tree, d.next = p, int32(n), &p.extents, 0
}

// beginCleanup begins a tree of extents to be cleaned up.
func (d *snapshotDecoder) beginCleanup(*wire.Reader) {
	d.endTree()
	d.cleanup = new(extent.Tree)
	d.tree, d.next, d.partition = d.cleanup, 0, nil
}

func (d *snapshotDecoder) readConfig(w *wire.Reader) {
	key, m := w.String(), readStringMap(w)
	if len(m) == 0 || key == "" {
		w.Fail("empty configs")
	}
	d.s.configs.Set(key, m)
}

func (d *snapshotDecoder) readGone(w *wire.Reader) {
	name, at := w.String(), w.Varint()
	if _, twice := d.s.gone.Set(name, at); twice {
		w.Fail("deleted topic twice")
	}
}

func (d *snapshotDecoder) readExtents(w *wire.Reader) {
	n := w.Count(1)
	if d.tree == nil {
		w.Fail("extents without a partition or cleanup record before them")
	}
	var e extent.Decoder
	for range n {
		x := e.Read(w)
		if w.Err() == nil && (x.Base < d.next || d.partition != nil && x.Last >= d.partition.high) {
			w.Fail("extent [%d, %d]", x.Base, x.Last)
		}
		if w.Err() != nil {
			return
		}
		d.tree.Append(d.s.gen, x)
		d.next = x.Last + 1
	}
}

// endTree queues the cleanup tree that was read.
func (d *snapshotDecoder) endTree() {
	if d.cleanup != nil && !d.cleanup.Empty() {
		d.s.cleanup.push(cleanupItem{extents: *d.cleanup})
	}
	d.cleanup = nil
}

func (d *snapshotDecoder) readProducers(w *wire.Reader) {
	n := w.Count(1)
	if d.partition == nil {
		w.Fail("producers without a partition record before them")
	}
	for range n {
		producerID, p := w.Offset(), readProducer(w)
		if w.Err() != nil {
			return
		}
		if _, twice := d.partition.producers.Get(producerID); twice {
			w.Fail("producer %d twice", producerID)
			return
		}
		d.partition.setProducer(producerID, p)
	}
}

func (d *snapshotDecoder) readResting(w *wire.Reader) {
	n := w.Count(1)
	if d.partition == nil {
		w.Fail("producers at rest without a partition record before them")
		return
	}
	for range n {
		producerID, next, epoch, flags := w.Offset(), w.Uint32(), w.Uint32(), w.Byte()
		r := resting{next: int32(next), epoch: int16(epoch), flags: flags, seen: w.Uint32()}
		_, active := d.partition.producers.Get(producerID)
		if next > math.MaxInt32 || epoch > math.MaxInt16 || flags > allFlags || active {
			w.Fail("producer %d at rest", producerID)
		}
		if w.Err() != nil {
			return
		}
		if _, twice := d.partition.restingOf(producerID); twice {
			w.Fail("producer %d at rest twice", producerID)
			return
		}
		d.partition.setResting(producerID, r)
	}
}

func readProducer(w *wire.Reader) producer {
	p := producer{base: w.Offset()}
	next := w.Uint32()
	p.seen = w.Uint32()
	epoch := w.Uint32()
	p.next, p.epoch = int32(next), int16(epoch)
	p.kept, p.flags = w.Byte(), w.Byte()
	if next > math.MaxInt32 || epoch > math.MaxInt16 || p.kept > window || p.flags > allFlags {
		w.Fail("producer state: next %d, epoch %d, kept %d, flags %#x", next, epoch, p.kept, p.flags)
		return p
	}
	oldest := p.base
	for i := range int(p.kept) {
		p.records[i] = w.Uint32()
		if i > 0 {
			p.back[i-1] = w.Uint32()
			oldest -= int64(p.back[i-1])
		}
		if p.records[i] < 1 || p.records[i] > math.MaxInt32 || oldest < 0 {
			w.Fail("producer's batch of %d at %d", p.records[i], oldest)
			return p
		}
	}
	return p
}

func (d *snapshotDecoder) readSession(w *wire.Reader) {
	n := id.Session(w.Uint32())
	e := &session{gen: d.s.gen, instance: w.String(), zone: w.String(), software: w.String(), endpoints: readEndpoints(w)}
	for range e.endpoints {
		e.nodeIDs = append(e.nodeIDs, int32(w.Uint32()))
	}
	e.peer, e.roles, e.nextN = w.String(), Roles(w.Byte()), w.Uint32()
	e.draining, e.hidden, e.closed, e.openedAt, e.closedAt = w.Bool(), w.Bool(), w.Bool(), w.Varint(), w.Varint()
	if n <= d.sessionID || n >= d.s.nextSession || e.nextN == 0 {
		w.Fail("session %d: out of order, not opened, or without NextN", n)
	}
	d.session, d.sessionID, d.result = e, n, 0
	d.s.sessions.Set(n, e)
	d.s.instances.Set(e.instance, n)
}

func (d *snapshotDecoder) readResult(w *wire.Reader) {
	n := w.Uint32()
	p := w.Bytes()
	if w.Err() != nil {
		return
	}
	r, err := commit.ParseResult(p)
	if err != nil || d.session == nil || n <= d.result || n >= d.session.nextN {
		w.Fail("result %d: %v", n, err)
		return
	}
	d.session.results.Set(n, r)
	d.result = n
}

func (d *snapshotDecoder) readBundles(w *wire.Reader) {
	for range w.Count(1) {
		b := id.Bundle(w.Uvarint())
		l := liveBundle{
			bytes: w.Uint32(), extents: w.Uint32(), liveBytes: w.Uint32(), level: w.Byte(), madeMs: w.Varint(), atMs: w.Varint(),
		}
		if l.extents == 0 || l.madeMs > d.s.now || l.atMs < 0 || l.atMs > d.s.now {
			w.Fail("live bundle %s of %d extents, made at %d, appended at %d", b, l.extents, l.madeMs, l.atMs)
			return
		}
		d.s.bundles.Set(b, l)
	}
}

func (d *snapshotDecoder) readDead(w *wire.Reader) {
	for range w.Count(1) {
		b := id.Bundle(w.Uvarint())
		dead := DeadBundle{Bytes: w.Uint32(), Index: w.Uvarint(), AtMs: w.Varint()}
		if w.Err() != nil {
			return
		}
		if _, live := d.s.bundles.Get(b); live {
			w.Fail("bundle %s is live and dead", b)
			return
		}
		d.s.dead.Set(b, dead)
	}
}

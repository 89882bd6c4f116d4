package fetch

import (
	"encoding/binary"
	"net"

	"github.com/freshet-io/freshet/metadata/id"
)

// Versions at which the Fetch response changes (KIP-516, KIP-482 and the message's own history).
const (
	versionLogStart  = 5
	versionSession   = 7
	versionPreferred = 11
	versionFlexible  = 12
	versionTopicID   = 13
	versionEndpoints = 16
)

// Answer is a Fetch response that is to be encoded. Fields that name a preferred replica or a diverging epoch keep their
// defaults: any agent serves any partition, and logs never diverge.
type Answer struct {
	Version       int16
	ThrottleMs    int32 // time for which the client should not send
	ErrorCode     int16 // since version 7
	SessionID     int32 // since version 7
	ReadCommitted bool  // lists of aborted transactions are there, if empty
	Partitions    []PartitionAnswer
	Endpoints     []Endpoint // of the leaders that partitions name; sent since version 16 (KIP-951)
}

// Leader is who to ask for a partition instead.
type Leader struct {
	NodeID int32
	Epoch  int32
}

// Endpoint is where a node is.
type Endpoint struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string
}

// PartitionAnswer is one partition of an Answer. Partitions of one topic that follow each other share its header.
type PartitionAnswer struct {
	TopicID   id.Topic // sent since version 13
	Topic     string   // sent before
	Partition int32
	ErrorCode int16
	Leader    *Leader // nil: none is named; sent since version 16
	*Result
}

// sameTopic tells whether two answers belong under one topic header.
func (a *Answer) sameTopic(i, j int) bool {
	p, q := &a.Partitions[i], &a.Partitions[j]
	if a.Version >= versionTopicID {
		return p.TopicID == q.TopicID
	}
	return p.Topic == q.Topic
}

// Encode gives the response's body as buffers to be written in order: the first one is all up to the first records,
// records are those of the results, not copied. It equals kmsg's encoding of the same response.
func (a *Answer) Encode() (head []byte, tail net.Buffers) {
	e := encoder{version: a.Version, buf: make([]byte, 0, a.sizeHint())}
	e.int32(a.ThrottleMs)
	if a.Version >= versionSession {
		e.int16(a.ErrorCode)
		e.int32(a.SessionID)
	}
	e.length(a.topics())
	for i := 0; i < len(a.Partitions); {
		end := i + 1
		for end < len(a.Partitions) && a.sameTopic(i, end) {
			end++
		}
		e.topic(a, i, end)
		i = end
	}
	e.endpoints(a.Endpoints)
	return e.finish()
}

func (a *Answer) topics() int {
	n := 0
	for i := range a.Partitions {
		if i == 0 || !a.sameTopic(i-1, i) {
			n++
		}
	}
	return n
}

// sizeHint is about what the buffer around the records takes.
func (a *Answer) sizeHint() int {
	n := 32
	for i := range a.Partitions {
		n += 56 + 17*len(a.Partitions[i].Aborted)
		if i == 0 || !a.sameTopic(i-1, i) {
			n += 24 + len(a.Partitions[i].Topic)
		}
	}
	for i := range a.Endpoints {
		n += 32 + len(a.Endpoints[i].Host)
	}
	return n
}

// encoder appends the response around records, whose places it notes.
type encoder struct {
	version int16
	buf     []byte
	cuts    []cut
}

// cut is where records go in between.
type cut struct {
	at      int
	records net.Buffers
}

func (e *encoder) flexible() bool { return e.version >= versionFlexible }

func (e *encoder) topic(a *Answer, from, to int) {
	if e.version >= versionTopicID {
		e.buf = append(e.buf, a.Partitions[from].TopicID[:]...)
	} else {
		e.string(a.Partitions[from].Topic)
	}
	e.length(to - from)
	for i := from; i < to; i++ {
		e.partition(&a.Partitions[i], a.ReadCommitted)
	}
	e.tags()
}

func (e *encoder) partition(p *PartitionAnswer, readCommitted bool) {
	e.int32(p.Partition)
	e.int16(p.ErrorCode)
	e.int64(p.Marks.HighWatermark)
	e.int64(p.Marks.LastStable)
	if e.version >= versionLogStart {
		e.int64(p.Marks.LogStart)
	}
	e.aborted(p, readCommitted)
	if e.version >= versionPreferred {
		e.int32(-1)
	}
	e.length(p.Size)
	if p.Size > 0 {
		e.cuts = append(e.cuts, cut{at: len(e.buf), records: p.Records})
	}
	e.leader(p.Leader)
}

// Numbers of tagged fields, and the size of the fixed one.
const (
	tagEndpoints  = 0 // of the response
	tagLeader     = 1 // of a partition
	leaderTagSize = 4 + 4 + 1
)

// leader ends a partition: the leader as a tagged field, if there is one.
func (e *encoder) leader(l *Leader) {
	if l == nil || e.version < versionEndpoints {
		e.tags()
		return
	}
	e.buf = append(e.buf, 1, tagLeader, leaderTagSize)
	e.int32(l.NodeID)
	e.int32(l.Epoch)
	e.tags()
}

// endpoints ends the response: the endpoints as a tagged field, if there are any.
func (e *encoder) endpoints(all []Endpoint) {
	if len(all) == 0 || e.version < versionEndpoints {
		e.tags()
		return
	}
	field := encoder{version: e.version}
	field.length(len(all))
	for i := range all {
		field.int32(all[i].NodeID)
		field.string(all[i].Host)
		field.int32(all[i].Port)
		if all[i].Rack == nil {
			field.null()
		} else {
			field.string(*all[i].Rack)
		}
		field.tags()
	}
	e.buf = append(e.buf, 1, tagEndpoints)
	e.buf = binary.AppendUvarint(e.buf, uint64(len(field.buf)))
	e.buf = append(e.buf, field.buf...)
}

// aborted transactions are null where they were not asked for and where reading failed, as in Kafka; a partition that
// was refused before has Kafka's default, none (FetchResponse.partitionResponse).
func (e *encoder) aborted(p *PartitionAnswer, readCommitted bool) {
	switch {
	case p.Err != nil && p.Refused:
		e.length(0)
	case p.Err != nil || !readCommitted:
		e.null()
	default:
		e.length(len(p.Aborted))
		for i := range p.Aborted {
			e.int64(p.Aborted[i].ProducerID)
			e.int64(p.Aborted[i].First)
			e.tags()
		}
	}
}

// finish cuts the buffer at the records.
func (e *encoder) finish() (head []byte, tail net.Buffers) {
	if len(e.cuts) == 0 {
		return e.buf, nil
	}
	n := len(e.cuts)
	for i := range e.cuts {
		n += len(e.cuts[i].records)
	}
	tail = make(net.Buffers, 0, n)
	at := e.cuts[0].at
	head = e.buf[:at:at]
	for i := range e.cuts {
		tail = append(tail, e.cuts[i].records...)
		end := len(e.buf)
		if i+1 < len(e.cuts) {
			end = e.cuts[i+1].at
		}
		if end > at {
			tail = append(tail, e.buf[at:end:end])
		}
		at = end
	}
	return head, tail
}

func (e *encoder) int16(v int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }
func (e *encoder) int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }
func (e *encoder) int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

// length of an array or of bytes.
func (e *encoder) length(n int) {
	if e.flexible() {
		e.buf = binary.AppendUvarint(e.buf, uint64(n)+1)
	} else {
		e.int32(int32(n))
	}
}

// null array.
func (e *encoder) null() {
	if e.flexible() {
		e.buf = append(e.buf, 0)
	} else {
		e.int32(-1)
	}
}

func (e *encoder) string(s string) {
	if e.flexible() {
		e.length(len(s))
	} else {
		e.int16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

// tags: none.
func (e *encoder) tags() {
	if e.flexible() {
		e.buf = append(e.buf, 0)
	}
}

package zonewriter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// Protocol is what a connection is upgraded to.
const Protocol = "freshet-batches/4"

// Kinds of frames, of both sides.
const (
	kindBatches  byte = 1
	kindResults  byte = 1
	kindFlush    byte = 2
	kindAlive    byte = 3
	kindBeat     byte = 4
	kindWithdraw byte = 4
	kindAsk      byte = 5
	kindRoom     byte = 5

	frameHead  = 12
	batchHead  = 34
	pieceHead  = 8
	resultSize = 24

	// beatUnfit is the count of a beat whose agent does not reach the object store or the owner.
	beatUnfit = 1

	// maxFrameBatches and frameBytes bound a frame: a larger batch comes alone.
	maxFrameBatches = 64
	frameBytes      = 64 << 10
	// frameOverhead is what a frame counts in the window beyond its batches.
	frameOverhead = 256
	// maxBatchBytes is the largest batch taken: the largest request that an agent can be set to take.
	maxBatchBytes = 1 << 30
)

// errProtocol: the other side does not keep to the protocol.
var errProtocol = errors.New("not of the protocol " + Protocol)

// head begins a frame.
type head struct {
	kind   byte
	count  uint16
	number uint64
}

func (h head) append(p []byte) []byte {
	p = append(p, h.kind, 0)
	p = binary.BigEndian.AppendUint16(p, h.count)
	return binary.BigEndian.AppendUint64(p, h.number)
}

func readHead(r io.Reader) (h head, err error) {
	var raw [frameHead]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return h, fmt.Errorf("read frame: %w", err)
	}
	return head{raw[0], binary.BigEndian.Uint16(raw[2:]), binary.BigEndian.Uint64(raw[4:])}, nil
}

// appendBatchHead encodes what precedes a batch's bytes. The stamp has been waited for.
func appendBatchHead(p []byte, b *writer.Batch) []byte {
	p = append(p, b.Partition.Topic[:]...)
	p = binary.BigEndian.AppendUint32(p, uint32(b.Partition.Partition))
	p = binary.BigEndian.AppendUint32(p, uint32(len(b.Bytes)))
	p = append(p, byte(b.Latency), byte(b.Commit.TransactionVersion))
	return binary.BigEndian.AppendUint64(p, b.Commit.AsOf)
}

// place is what precedes a batch's bytes.
type place struct {
	partition id.TopicPartition
	size      uint32
	latency   writer.Latency
	version   int8 // of the transaction protocol
	asOf      uint64
}

func readPlace(r io.Reader) (p place, err error) {
	var raw [batchHead]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return p, fmt.Errorf("read batch: %w", err)
	}
	p = place{
		partition: id.TopicPartition{Topic: id.Topic(raw[:16]), Partition: int32(binary.BigEndian.Uint32(raw[16:]))},
		size:      binary.BigEndian.Uint32(raw[20:]), latency: writer.Latency(raw[24]), version: int8(raw[25]),
		asOf: binary.BigEndian.Uint64(raw[26:]),
	}
	if p.size > maxBatchBytes || !p.latency.Known() || p.version < 0 || p.version > 2 || p.partition.Partition < 0 {
		return p, fmt.Errorf("%w: a batch of %d bytes, latency %d, transaction version %d", errProtocol, p.size, p.latency, p.version)
	}
	return p, nil
}

// readBatch reads the batch itself into the arena. Its rooms are appended to those of its frame, also with an error. heard
// is called with the beat before each piece. The batch's form and its checksum are checked, since the bundle and the
// object's checksum are made of them.
func (p *place) readBatch(r io.Reader, a *arena, rooms []room, heard func(beat uint64)) (b writer.Batch, _ []room, err error) {
	var buf []byte
	if p.size <= ownBytes {
		buf, rooms = a.small(int(p.size), rooms)
		_, err = io.ReadFull(r, buf)
	} else {
		rooms = append(rooms, room{})
		buf, err = readOwn(r, a, &rooms[len(rooms)-1], int(p.size), heard)
	}
	if err != nil {
		return b, rooms, fmt.Errorf("read batch: %w", err)
	}
	batch, rest, err := kafkaproto.NextBatch(buf)
	switch {
	case err != nil || len(rest) > 0:
		return b, rooms, fmt.Errorf("%w: what came is no batch", errProtocol)
	case batch.ComputeCRC() != batch.CRC():
		return b, rooms, fmt.Errorf("%w: a batch came damaged", errProtocol)
	}
	b = writer.BatchOf(p.partition, batch)
	b.Latency, b.Commit.TransactionVersion, b.Commit.AsOf = p.latency, p.version, p.asOf
	return b, rooms, nil
}

// pieceBytes is how much of a batch comes at a time: one above it comes in pieces, so that the stream is not silent while it
// does. It gets memory as they come, never by a claimed length alone.
const pieceBytes = 256 << 10

// readOwn reads a batch of n bytes into memory of its own, which grows up to n as the bytes come.
func readOwn(r io.Reader, a *arena, held *room, n int, heard func(beat uint64)) (buf []byte, err error) {
	for len(buf) < n {
		if n > pieceBytes {
			var raw [pieceHead]byte
			if _, err := io.ReadFull(r, raw[:]); err != nil {
				return nil, err
			}
			heard(binary.BigEndian.Uint64(raw[:]))
		}
		at := len(buf)
		step := min(n-at, pieceBytes)
		if cap(buf)-at < step {
			grown := make([]byte, at, min(max(2*cap(buf), at+step), n))
			a.grown(held, cap(grown))
			copy(grown, buf)
			buf = grown
		}
		buf = buf[:at+step]
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// fault is a writer's error as it goes over the wire.
type fault byte

// faults in the order of their numbers, from 1 on. A number that is not known is an outcome that is not known.
var faults = []error{
	writer.ErrSessionClosed, writer.ErrStore, writer.ErrRefused, writer.ErrGap, writer.ErrUnknownOutcome, writer.ErrNotTaken,
	writer.ErrNoStamp, writer.ErrDraining, writer.ErrTooManyProducers, writer.ErrMalformed, writer.ErrSetAside,
}

func faultOf(err error) fault {
	for i, known := range faults {
		if errors.Is(err, known) {
			return fault(i + 1)
		}
	}
	return faultOf(writer.ErrUnknownOutcome)
}

func (f fault) err() error {
	if int(f) > len(faults) {
		return fmt.Errorf("%w: error %d of another agent", writer.ErrUnknownOutcome, f)
	}
	return fmt.Errorf("another agent's writer: %w", faults[f-1])
}

func appendResult(p []byte, r *writer.Result) []byte {
	var f fault
	if r.Err != nil {
		f = faultOf(r.Err)
	}
	p = append(p, byte(r.Outcome), byte(f), 0, 0, 0, 0, 0, 0)
	p = binary.BigEndian.AppendUint64(p, uint64(r.Base))
	return binary.BigEndian.AppendUint64(p, uint64(r.LogStart))
}

func decodeResult(p []byte) writer.Result {
	if f := fault(p[1]); f != 0 {
		return writer.Failed(f.err())
	}
	return writer.Result{
		Outcome: commit.Outcome(p[0]), Base: int64(binary.BigEndian.Uint64(p[8:])), LogStart: int64(binary.BigEndian.Uint64(p[16:])),
	}
}

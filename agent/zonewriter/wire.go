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
const Protocol = "freshet-batches/3"

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
	batchHead  = 36
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
	p = binary.BigEndian.AppendUint16(p, b.Connection)
	return binary.BigEndian.AppendUint64(p, b.Commit.AsOf)
}

// place is what precedes a batch's bytes.
type place struct {
	partition  id.TopicPartition
	size       uint32
	latency    writer.Latency
	version    int8 // of the transaction protocol
	connection uint16
	asOf       uint64
}

func readPlace(r io.Reader) (p place, err error) {
	var raw [batchHead]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return p, fmt.Errorf("read batch: %w", err)
	}
	p = place{
		partition: id.TopicPartition{Topic: id.Topic(raw[:16]), Partition: int32(binary.BigEndian.Uint32(raw[16:]))},
		size:      binary.BigEndian.Uint32(raw[20:]), latency: writer.Latency(raw[24]), version: int8(raw[25]),
		connection: binary.BigEndian.Uint16(raw[26:]), asOf: binary.BigEndian.Uint64(raw[28:]),
	}
	if p.size > maxBatchBytes || !p.latency.Known() || p.version < 0 || p.version > 2 || p.partition.Partition < 0 {
		return p, fmt.Errorf("%w: a batch of %d bytes, latency %d, transaction version %d", errProtocol, p.size, p.latency, p.version)
	}
	return p, nil
}

// readBatch reads the batch itself; its bytes are appended to buf, which is given back. heard is called with the beat
// before each piece. What arrives is checked as far as the bundle rests on it: its form, and its checksum, of which the
// object's is made.
func (p *place) readBatch(r io.Reader, buf []byte, heard func(beat uint64)) (b writer.Batch, _ []byte, err error) {
	from := len(buf)
	if buf, err = readPieces(r, buf, int(p.size), heard); err != nil {
		return b, buf, err
	}
	batch, rest, err := kafkaproto.NextBatch(buf[from:])
	switch {
	case err != nil || len(rest) > 0:
		return b, buf, fmt.Errorf("%w: what came is no batch", errProtocol)
	case batch.ComputeCRC() != batch.CRC():
		return b, buf, fmt.Errorf("%w: a batch came damaged", errProtocol)
	}
	b = writer.BatchOf(p.partition, batch)
	b.Latency, b.Connection, b.Commit.TransactionVersion, b.Commit.AsOf = p.latency, p.connection, p.version, p.asOf
	return b, buf, nil
}

// pieceBytes is how much of a batch comes at a time: one above it comes in pieces, so that the stream is not silent while it
// does. It gets memory as they come, never by a claimed length alone.
const pieceBytes = 256 << 10

// readPieces appends n bytes to buf.
func readPieces(r io.Reader, buf []byte, n int, heard func(beat uint64)) ([]byte, error) {
	for several := n > pieceBytes; n > 0; {
		if several {
			var raw [pieceHead]byte
			if _, err := io.ReadFull(r, raw[:]); err != nil {
				return buf, fmt.Errorf("read batch: %w", err)
			}
			heard(binary.BigEndian.Uint64(raw[:]))
		}
		step := min(n, pieceBytes)
		at := len(buf)
		if cap(buf)-at < step {
			buf = append(make([]byte, 0, max(2*cap(buf), at+step)), buf...)
		}
		buf = buf[:at+step]
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			return buf, fmt.Errorf("read batch: %w", err)
		}
		n -= step
	}
	return buf, nil
}

// fault is a writer's error as it goes over the wire.
type fault byte

// faults in the order of their numbers, from 1 on. A number that is not known is an outcome that is not known.
var faults = []error{
	writer.ErrSessionClosed, writer.ErrStore, writer.ErrRefused, writer.ErrGap, writer.ErrUnknownOutcome, writer.ErrNotTaken,
	writer.ErrNoStamp, writer.ErrDraining,
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

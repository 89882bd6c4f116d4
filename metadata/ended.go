package metadata

import (
	"encoding/binary"
	"iter"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// endedWriter is an agent session or a background job that has ended: nothing that is put under its name from now on is ever
// referred to. It is in the table until its orphans were swept.
type endedWriter struct {
	opened int64  // command time
	ended  int64  // command time
	nextN  uint32 // the lowest submission of a session that was not settled; 0 for a job
}

// EndedWriter describes an agent session or a background job that has ended and whose orphans were not swept.
type EndedWriter struct {
	ID       id.Session
	OpenedMs int64 // command time
	EndedMs  int64 // command time
	Job      bool
	// NextN is the lowest submission of an agent session that was not settled when the session was closed: all below were
	// committed or abandoned. It is 0 for a job.
	NextN uint32
}

// RecordSweep notes that the objects of ended writers were swept, which are then forgotten. Writers that have not ended, or
// are unknown, are left alone. Result: none.
type RecordSweep struct {
	Writers []id.Session // best in order
}

func (s *machine) recordSweep(c *RecordSweep, _ *Effects) Result {
	for _, n := range c.Writers {
		s.ended.Delete(n)
	}
	return Result{}
}

// EndedWriters returns the ended writers that are still to be swept, in the order they began.
func (s *machine) EndedWriters() iter.Seq[EndedWriter] {
	return func(yield func(EndedWriter) bool) {
		s.ended.Scan(func(n id.Session, w endedWriter) bool { return yield(w.info(n)) })
	}
}

// EndedWriter returns one of EndedWriters, or false if it is open, unknown or swept.
func (s *machine) EndedWriter(n id.Session) (EndedWriter, bool) {
	w, ok := s.ended.Get(n)
	return w.info(n), ok
}

func (w endedWriter) info(n id.Session) EndedWriter {
	return EndedWriter{ID: n, OpenedMs: w.opened, EndedMs: w.ended, Job: w.nextN == 0, NextN: w.nextN}
}

func (c *RecordSweep) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Writers)))
	for _, n := range c.Writers {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

func (c *RecordSweep) readBody(w *wire.Reader) {
	n := w.Count(1)
	if n == 0 {
		return
	}
	c.Writers = make([]id.Session, 0, n)
	for range n {
		c.Writers = append(c.Writers, id.Session(w.Uint32()))
	}
}

func (s *machine) encodeEnded(f *sectionWriter) {
	encodeItems(f, recordEnded, &s.ended, func(b []byte, w *endedWriter) []byte {
		b = binary.AppendVarint(binary.AppendVarint(b, w.opened), w.ended)
		return binary.AppendUvarint(b, uint64(w.nextN))
	})
}

func (d *snapshotDecoder) readEnded(r *wire.Reader) {
	for range r.Count(4) {
		n := id.Session(r.Uint32())
		w := endedWriter{opened: r.Varint(), ended: r.Varint(), nextN: r.Uint32()}
		if n == 0 || n >= d.s.nextSession || w.ended < w.opened {
			r.Fail("ended session or job %d", n)
		}
		if r.Err() != nil {
			return
		}
		d.s.ended.Set(n, w)
	}
}

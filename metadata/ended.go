package metadata

import (
	"encoding/binary"
	"iter"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// endedWriter is an ended agent session or background job whose orphans are not swept yet. No commit will refer to an object that is put
// under its id from now on.
type endedWriter struct {
	opened int64  // command time
	ended  int64  // command time
	nextN  uint32 // the lowest submission of a session that was not settled; 0 for a job
}

// EndedWriter describes an ended agent session or background job whose orphans are not swept yet.
type EndedWriter struct {
	ID       id.Session
	OpenedMs int64 // command time
	EndedMs  int64 // command time
	Job      bool
	// NextN is the lowest submission of an agent session that was unsettled when the session was closed, 0 for a job. All submissions
	// below NextN were committed or abandoned.
	NextN uint32
}

// RecordSweep removes ended sessions and jobs from the state after the sweep of their orphans. It ignores ids that are open or unknown.
// Result: none.
type RecordSweep struct {
	Writers []id.Session // session and job ids
}

func (s *machine) recordSweep(c *RecordSweep, _ *Effects) Result {
	for _, n := range c.Writers {
		s.ended.Delete(n)
	}
	return Result{}
}

// EndedWriters returns the ended sessions and jobs whose orphans are not swept yet, by ascending id.
func (s *machine) EndedWriters() iter.Seq[EndedWriter] {
	return func(yield func(EndedWriter) bool) {
		s.ended.Scan(func(n id.Session, w endedWriter) bool { return yield(w.info(n)) })
	}
}

// EndedWriter returns the entry of one session or job, or false if that is open, unknown or swept.
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
		e, session := d.s.sessions.Get(n)
		_, open := d.s.jobs.Get(n)
		if open = open || session && !e.closed; open || n == 0 || n >= d.s.nextSession || w.ended < w.opened {
			r.Fail("ended session or job %d: open %t, opened at %d, ended at %d", n, open, w.opened, w.ended)
		}
		if r.Err() != nil {
			return
		}
		d.s.ended.Set(n, w)
	}
}

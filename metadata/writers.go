package metadata

import (
	"encoding/binary"
	"iter"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// writer is who puts bundles into the bucket under its own id: an agent session or a background job. It is in the table
// from its beginning until the objects of it that no commit made known were looked for the last time. A writer that is not
// in the table is none of this state's: nothing of it is ever looked for.
type writer struct {
	opened int64 // command time
	ended  int64 // command time; stillOpen before
	swept  bool  // once since it ended
	job    bool
}

const stillOpen int64 = -1

// EndedWriter is an agent session or a background job that has ended, and whose orphans were not swept for the last time:
// nothing that is put under its name from now on is ever referred to.
type EndedWriter struct {
	ID       id.Session
	OpenedMs int64 // command time
	EndedMs  int64 // command time
	Swept    bool  // once
	Job      bool
	// NextN is the lowest submission of an agent session that was not settled when the session was closed: all below were
	// committed or abandoned. It is 0 for a job.
	NextN uint32
}

// RecordSweep notes that the objects of ended writers were swept. After the last sweep they are forgotten. Those that have
// not ended, or are unknown, are left alone. Result: none.
type RecordSweep struct {
	Writers []id.Session // best in order
	Last    bool
}

const kindRecordSweep commandKind = 42

func (*RecordSweep) kind() commandKind { return kindRecordSweep }

func (s *machine) openWriter(n id.Session, job bool) {
	s.writers.Set(n, writer{opened: s.now, ended: stillOpen, job: job})
}

// endWriter notes the end of a session or job, once.
func (s *machine) endWriter(n id.Session) {
	if w, ok := s.writers.Get(n); ok && w.ended == stillOpen {
		w.ended = s.now
		s.writers.Set(n, w)
	}
}

func (s *machine) recordSweep(c *RecordSweep) {
	for _, n := range c.Writers {
		w, ok := s.writers.Get(n)
		switch {
		case !ok || w.ended == stillOpen:
		case c.Last:
			s.writers.Delete(n)
		default:
			w.swept = true
			s.writers.Set(n, w)
		}
	}
}

// EndedWriters gives the ended writers that are still to be swept, in the order they began.
func (s *machine) EndedWriters() iter.Seq[EndedWriter] {
	return func(yield func(EndedWriter) bool) {
		s.writers.Scan(func(n id.Session, w writer) bool {
			return w.ended == stillOpen || yield(s.endedWriter(n, w))
		})
	}
}

// EndedWriter gives one of EndedWriters; false if it is open, unknown or swept for the last time.
func (s *machine) EndedWriter(n id.Session) (EndedWriter, bool) {
	w, ok := s.writers.Get(n)
	if !ok || w.ended == stillOpen {
		return EndedWriter{}, false
	}
	return s.endedWriter(n, w), true
}

func (s *machine) endedWriter(n id.Session, w writer) EndedWriter {
	info := EndedWriter{ID: n, OpenedMs: w.opened, EndedMs: w.ended, Swept: w.swept, Job: w.job}
	if e, ok := s.sessions.Get(n); ok {
		info.NextN = e.nextN
	} else if nextN, ok := s.retired.Get(n); ok {
		info.NextN = nextN
	}
	return info
}

func (c *RecordSweep) appendBody(dst []byte) []byte {
	dst = wire.AppendBool(dst, c.Last)
	dst = binary.AppendUvarint(dst, uint64(len(c.Writers)))
	for _, n := range c.Writers {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

func readRecordSweep(w *wire.Reader) *RecordSweep {
	c := &RecordSweep{Last: w.Bool()}
	if n := w.Count(1); n > 0 {
		c.Writers = make([]id.Session, 0, n)
		for range n {
			c.Writers = append(c.Writers, id.Session(w.Uint32()))
		}
	}
	return c
}

// recordWriters are writers: id, flags, opened, ended.
const recordWriters recordTag = 37

const (
	writerEnded = 1 << iota
	writerSwept
	writerIsJob

	allWriterFlags = writerEnded | writerSwept | writerIsJob
)

func (s *machine) encodeWriters(f *sectionWriter) {
	encodeItems(f, recordWriters, &s.writers, func(b []byte, w *writer) []byte {
		flags := byte(0)
		if w.ended != stillOpen {
			flags |= writerEnded
		}
		if w.swept {
			flags |= writerSwept
		}
		if w.job {
			flags |= writerIsJob
		}
		b = binary.AppendVarint(append(b, flags), w.opened)
		if w.ended != stillOpen {
			b = binary.AppendVarint(b, w.ended)
		}
		return b
	})
}

func (s *machine) readWriters(r *wire.Reader) {
	for range r.Count(3) {
		n, flags := id.Session(r.Uint32()), r.Byte()
		w := writer{opened: r.Varint(), ended: stillOpen, swept: flags&writerSwept != 0, job: flags&writerIsJob != 0}
		if flags&writerEnded != 0 {
			w.ended = r.Varint()
		}
		ended := w.ended != stillOpen
		if n == 0 || n >= s.nextSession || flags > allWriterFlags || ended != (flags&writerEnded != 0) || w.swept && !ended {
			r.Fail("writer %d", n)
		}
		if r.Err() != nil {
			return
		}
		s.writers.Set(n, w)
	}
}

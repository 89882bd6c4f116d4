package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
	"github.com/freshet-io/freshet/metadata/job"
)

func (s *machine) encodeJobs(f *sectionWriter) {
	s.jobs.Scan(func(n id.Session, j *openJob) bool {
		b := append(f.buf, byte(recordJob))
		b = binary.AppendUvarint(b, uint64(n))
		b = append(b, byte(j.kind), j.level)
		b = binary.AppendUvarint(b, uint64(j.runner))
		b = appendPartition(b, j.first)
		b = appendPartition(b, j.last)
		b = appendBundles(b, j.inputs)
		b = binary.AppendVarint(b, j.startedMs)
		f.buf = binary.AppendVarint(b, j.handedMs)
		f.recordDone()
		return f.err == nil
	})
}

func (d *snapshotDecoder) readJob(w *wire.Reader) {
	n := id.Session(w.Uint32())
	j := &openJob{
		kind: job.Kind(w.Byte()), level: w.Byte(), runner: id.Session(w.Uint32()),
		first: readPartition(w), last: readPartition(w), inputs: readBundles(w), startedMs: w.Varint(), handedMs: w.Varint(),
	}
	if n == 0 || n >= d.s.nextSession {
		w.Fail("job %d", n)
		return
	}
	d.s.jobs.Set(n, j)
}

func (d *snapshotDecoder) readCleaned(w *wire.Reader) {
	cleaned := w.Offset()
	if d.partition == nil || cleaned < 1 || cleaned > d.partition.high {
		w.Fail("cleaned to %d", cleaned)
		return
	}
	d.partition.cleaned = cleaned
}

func (d *snapshotDecoder) readRoles(w *wire.Reader) {
	roles, peer := Roles(w.Byte()), w.String()
	if d.session == nil {
		w.Fail("roles of nothing")
		return
	}
	d.session.roles, d.session.peer = roles, peer
}

func (d *snapshotDecoder) readBundleLevels(w *wire.Reader) {
	for range w.Count(1) {
		b := id.Bundle(w.Uvarint())
		l, ok := d.s.bundles.Get(b)
		l.index, l.level = w.Uvarint(), w.Byte()
		if !ok || l.index > d.s.index {
			w.Fail("level of bundle %s", b)
			return
		}
		d.s.bundles.Set(b, l)
	}
}

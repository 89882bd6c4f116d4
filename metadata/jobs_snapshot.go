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
		if j.clean != nil {
			f.buf = appendBounds(append(f.buf, byte(recordCleaning)), j.clean)
		}
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
	d.job = j
}

const (
	recordCleaning    recordTag = 60 // bounds of the Clean job before
	recordBundleTimes recordTag = 61 // when the newest records of live bundles were appended
)

func (d *snapshotDecoder) readCleaning(w *wire.Reader) {
	b := readBounds(w)
	if d.job == nil || d.job.kind != job.Clean || d.job.clean != nil {
		w.Fail("bounds of no cleaning")
		return
	}
	d.job.clean = &b
}

func (s *machine) encodeBundleTimes(f *sectionWriter) {
	encodeItems(f, recordBundleTimes, &s.bundles, func(b []byte, l *liveBundle) []byte { return binary.AppendVarint(b, l.atMs) })
}

func (d *snapshotDecoder) readBundleTimes(w *wire.Reader) {
	for range w.Count(2) {
		b := id.Bundle(w.Uvarint())
		l, ok := d.s.bundles.Get(b)
		if l.atMs = w.Varint(); !ok || l.atMs < 0 || l.atMs > d.s.now {
			w.Fail("time %d of bundle %s", l.atMs, b)
			return
		}
		d.s.bundles.Set(b, l)
	}
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

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

const recordCleaning recordTag = 60 // bounds of the Clean job before

func (d *snapshotDecoder) readCleaning(w *wire.Reader) {
	b := readBounds(w)
	if d.job == nil || d.job.kind != job.Clean || d.job.clean != nil {
		w.Fail("bounds of no cleaning")
		return
	}
	d.job.clean = &b
}

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
		b = binary.AppendVarint(b, j.handedMs)
		f.buf = wire.AppendBool(b, j.clean != nil)
		if j.clean != nil {
			f.buf = appendBounds(f.buf, j.clean)
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
	if w.Bool() {
		bounds := readBounds(w)
		j.clean = &bounds
	}
	runner, ok := d.s.sessions.Get(j.runner)
	_, session := d.s.sessions.Get(n)
	if n == 0 || n >= d.s.nextSession || session || !ok || runner.closed || (j.clean != nil) != (j.kind == job.Clean) {
		w.Fail("job %d of kind %d with runner %d", n, j.kind, j.runner)
		return
	}
	d.s.jobs.Set(n, j)
}

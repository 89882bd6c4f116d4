package metadata

import (
	"slices"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// completeJob takes over what a job hands in, partition by partition: each is replaced where its extents still are what
// the job rewrote, and stays as it is elsewhere. The same again changes nothing. A bundle of the job may die at once, so
// the parts must come before its object could be deleted: later ones end the job.
func (s *machine) completeJob(c *CompleteJob, _ *Effects) Result {
	j, ok := s.jobs.Get(c.Job)
	if ok && j.handedMs > 0 && s.now-j.handedMs >= reviveMs {
		s.endJob(c.Job)
		ok = false
	}
	if !ok {
		return Result{Err: ErrUnknownJob}
	}
	o, err := job.ParseOutcome(c.Outcome)
	if err != nil || !j.owns(c.Job, o) || !s.accepts(j, c.Job, o) {
		return Result{Err: ErrInvalidOutcome}
	}
	if j.handedMs == 0 {
		begun := *j
		begun.handedMs = max(s.now, 1)
		s.jobs.Set(c.Job, &begun)
	}
	sw := swap{machine: s, job: j, freed: make(map[id.Bundle]counts)}
	for _, b := range o.Bundles {
		name := id.Submission{Session: c.Job, N: b.N}.Bundle()
		s.addExtents(name, b.Bytes, j.level, 0, 0) // dead, unless something takes
	}
	for i := range o.Partitions {
		sw.replace(&o.Partitions[i])
	}
	sw.release()
	if c.Last {
		s.endJob(c.Job)
	}
	return Result{Value: sw.result}
}

// owns tells whether an outcome names nothing but the job's own bundles and partitions.
func (j *openJob) owns(n id.Session, o *job.Outcome) bool {
	for i := range o.Partitions {
		r := &o.Partitions[i]
		if j.first.Compare(r.ID) > 0 || r.ID.Compare(j.last) > 0 || r.Extents[0].Bundle.Submission().Session != n {
			return false
		}
	}
	return true
}

// accepts reports whether an outcome does no more than the job was started for, and does not contradict its earlier parts.
func (s *machine) accepts(j *openJob, n id.Session, o *job.Outcome) bool {
	for _, b := range o.Bundles {
		bytes, _, _, known := s.Bundle(id.Submission{Session: n, N: b.N}.Bundle())
		if known && bytes != b.Bytes {
			return false
		}
	}
	return o.Check(j.kind, j.clean) == nil
}

// JobResult answers CompleteJob.
type JobResult struct {
	Replaced int // runs of extents that were
	Kept     int // runs that stay as they are, because their extents are not the job's inputs any more
}

// counts are extents and bytes of one bundle.
type counts struct{ extents, bytes uint32 }

// swap is one outcome being applied.
type swap struct {
	*machine
	job    *openJob
	freed  map[id.Bundle]counts // what left its bundle; looked up and taken in the order of replaced
	order  []id.Bundle          // keys of freed in the order of their first extent
	old    []extent.Extent      // scratch
	result JobResult
}

// replace swaps one run of extents for those that the job wrote. What the log start has passed meanwhile is left out.
func (w *swap) replace(r *job.Replacement) {
	e, ok := w.topics.Get(topicKey(r.ID.Topic))
	if !ok {
		w.result.Kept++
		return
	}
	p, ok := e.partition(r.ID.Partition)
	if !ok || p == nil || !w.matches(p, r) {
		w.result.Kept++
		return
	}
	w.result.Replaced++
	e = w.mutableTopic(e)
	p = w.mutablePartition(e, r.ID.Partition, p)
	added := r.Extents
	for len(added) > 0 && added[0].Last < p.logStart {
		added = added[1:]
	}
	added = w.holdTimestamps(added)
	p.extents.Replace(w.gen, r.From, r.To, added)
	at := w.appendedMs()
	for i := range added {
		x := &added[i]
		w.addExtents(x.Bundle, 0, w.job.level, 1, x.Length)
		w.inherit(x.Bundle, at)
	}
	for i := range w.old {
		w.free(&w.old[i])
	}
	p.cleaned = max(p.cleaned, r.CleanedTo)
	w.counting(e, p, func() { p.forgetAborted(r.DroppedAborted) })
}

// matches collects the live extents of the run into old and tells whether they may be replaced: they begin and end
// where the run does, but for what is below the log start; and those of a Compact job are of its inputs, so that
// whatever else was done to them meanwhile wins. A Clean job has its partitions for itself.
func (w *swap) matches(p *partition, r *job.Replacement) bool {
	w.old = w.old[:0]
	ours := true
	p.extents.Ascend(r.From, func(x *extent.Extent) bool {
		if x.Base > r.To {
			return false
		}
		w.old = append(w.old, *x)
		if w.job.kind == job.Compact && x.Kind != extent.Marker {
			_, ours = slices.BinarySearch(w.job.inputs, x.Bundle)
		}
		return ours
	})
	if !ours || len(w.old) == 0 || w.old[len(w.old)-1].Last != r.To {
		return false
	}
	return w.old[0].Base == r.From || w.old[0].Base > r.From && p.logStart > r.From
}

// holdTimestamps returns the extents with timestamps that those which they replace allow: retention and look-ups by time
// go by them. A Compact job keeps records, so timestamps neither rise nor fall; a Clean job drops some.
func (w *swap) holdTimestamps(added []extent.Extent) []extent.Extent {
	held := slices.Clone(added)
	old := w.old
	for i := range held {
		x := &held[i]
		for len(old) > 0 && old[0].Last < x.Base {
			old = old[1:]
		}
		lowest, highest := int64(-1), int64(-1)
		for j := 0; j < len(old) && old[j].Base <= x.Last; j++ {
			highest = max(highest, old[j].MaxTimestamp)
			if w.job.kind == job.Compact && old[j].Base >= x.Base && old[j].Last <= x.Last {
				lowest = max(lowest, old[j].MaxTimestamp)
			}
		}
		x.MaxTimestamp = min(max(x.MaxTimestamp, lowest), highest)
	}
	return held
}

// appendedMs returns when the newest of the replaced records were appended, as far as known.
func (w *swap) appendedMs() (at int64) {
	for i := range w.old {
		x := &w.old[i]
		if x.Kind == extent.Marker {
			at = max(at, x.MaxTimestamp)
		} else if l, ok := w.bundles.Get(x.Bundle); ok {
			at = max(at, l.atMs)
		}
	}
	return at
}

// inherit gives a bundle of the job the age of the records that it holds now.
func (w *swap) inherit(b id.Bundle, at int64) {
	if l, ok := w.bundles.Get(b); ok && l.atMs < at {
		l.atMs = at
		w.bundles.Set(b, l)
	}
}

// free notes that an extent is not referred to any more.
func (w *swap) free(x *extent.Extent) {
	if x.Kind == extent.Marker {
		w.load.Extents--
		return
	}
	c, ok := w.freed[x.Bundle]
	if !ok {
		w.order = append(w.order, x.Bundle)
	}
	w.freed[x.Bundle] = counts{extents: c.extents + 1, bytes: c.bytes + x.Length}
}

// release takes what was freed from its bundles, each once.
func (w *swap) release() {
	for _, b := range w.order {
		w.releaseExtents(b, w.freed[b].extents, w.freed[b].bytes)
	}
}

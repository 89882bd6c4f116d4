package curve

import (
	"context"
	"time"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// Sizes as package merge has them.
const (
	longExtent    = 16 << 20 // an output extent ends at the first batch that reaches it
	longBundle    = 1 << 30  // an output bundle ends after the extent that reaches it
	bundleHead    = 16
	markerBytes   = 78 // of a control batch
	trailerExtent = 24 // of a bundle's index, for each extent
)

// merger makes up what a runner would write, in the time that it would take.
type merger struct {
	speed int64 // bytes of input a second
	count func(bytes int64)
}

// work is runner.Work of Compact jobs.
func (m *merger) work(ctx context.Context, plan *job.Plan, progress func(int64)) (job.Outcome, error) {
	var total int64
	for i := range plan.Partitions {
		for j := range plan.Partitions[i].Extents {
			total += int64(plan.Partitions[i].Extents[j].Length)
		}
	}
	select {
	case <-time.After(time.Duration(float64(total) / float64(m.speed) * float64(time.Second))):
	case <-ctx.Done():
		return job.Outcome{}, context.Cause(ctx)
	}
	progress(total)
	m.count(total)
	w := output{job: plan.ID, n: 1, position: bundleHead}
	for i := range plan.Partitions {
		p := &plan.Partitions[i]
		p.Runs(func(run []extent.Extent) bool {
			w.run(p.ID, run)
			return true
		})
	}
	w.roll()
	return w.outcome, nil
}

// output is what a job writes.
type output struct {
	job      id.Session
	n        uint32
	position uint32
	extents  uint32 // of the open bundle
	outcome  job.Outcome
	open     extent.Extent // the one being written; no length if there is none
	into     *job.Replacement
}

func (w *output) run(p id.TopicPartition, run []extent.Extent) {
	w.outcome.Partitions = append(w.outcome.Partitions, job.Replacement{ID: p, From: run[0].Base, To: run[len(run)-1].Last})
	w.into = &w.outcome.Partitions[len(w.outcome.Partitions)-1]
	for i := range run {
		w.extent(run[i])
	}
	w.cut()
}

// extent copies the batches of an extent, which are alike.
func (w *output) extent(x extent.Extent) {
	if x.Kind == extent.Marker {
		x.Length = markerBytes
	}
	size, records := max(x.Length/x.Batches, 1), (x.Last-x.Base+1)/int64(x.Batches)
	for x.Batches > 0 {
		take := min(x.Batches, (longExtent-w.open.Length+size-1)/size)
		part := x
		if take < x.Batches {
			part.Batches, part.Length, part.Last = take, take*size, x.Base+int64(take)*records-1
		}
		w.batches(&part)
		x.Batches, x.Length, x.Base = x.Batches-take, x.Length-part.Length, part.Last+1
		if w.open.Length >= longExtent {
			w.cut()
		}
	}
}

func (w *output) batches(x *extent.Extent) {
	if w.open.Length == 0 {
		w.open = extent.Extent{
			Base: x.Base, MaxTimestamp: -1, Bundle: id.Submission{Session: w.job, N: w.n}.Bundle(), Position: w.position,
			Kind: extent.Absolute,
		}
	}
	w.open.Last = x.Last
	w.open.MaxTimestamp = max(w.open.MaxTimestamp, x.MaxTimestamp)
	w.open.Batches += x.Batches
	w.open.Length += x.Length
	w.position += x.Length
}

// cut ends the open extent, and the bundle if that is long.
func (w *output) cut() {
	if w.open.Length == 0 {
		return
	}
	w.into.Extents = append(w.into.Extents, w.open)
	w.open = extent.Extent{}
	w.extents++
	if w.position >= longBundle {
		w.roll()
	}
}

func (w *output) roll() {
	if w.extents > 0 {
		w.outcome.Bundles = append(w.outcome.Bundles, job.Bundle{N: w.n, Bytes: w.position + w.extents*trailerExtent})
	}
	w.n, w.position, w.extents = w.n+1, bundleHead, 0
}

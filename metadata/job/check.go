package job

import "fmt"

// Bounds of what one outcome, which is one part of a job's, may name. A part of a runner has at most 256 partitions, or one
// partition with all its extents; a job has at most 327,680 extents as input, and writes an extent for every 16 MiB.
const (
	MaxBundles = 1 << 16
	MaxExtents = 1 << 20
)

// minBatchBytes is the size of a record batch without records.
const minBatchBytes = 61

// Bounds are the offsets that a Clean job was started for.
type Bounds struct {
	From       int64 // first offset of the first extent
	FirstDirty int64 // the job cleans from there on, >= From
	To         int64 // last offset of the last extent, >= FirstDirty
}

// Bounds returns the bounds of a partition of a Clean job's plan. It has at least one extent.
func (p *Partition) Bounds() Bounds {
	return Bounds{From: p.Extents[0].Base, FirstDirty: max(p.Clean.FirstDirty, p.Extents[0].Base), To: p.Extents[len(p.Extents)-1].Last}
}

// Check returns an error if the outcome says more than a job of that kind can have done, given that ParseOutcome accepted
// it. A Compact job keeps records and so neither cleans nor forgets aborted transactions. A Clean job rewrites one partition
// from the first offset of its plan on, up to the last one or less. bounds is nil if they are unknown.
func (o *Outcome) Check(kind Kind, bounds *Bounds) error {
	extents := 0
	for i := range o.Partitions {
		r := &o.Partitions[i]
		extents += len(r.Extents)
		if err := r.check(kind, bounds); err != nil {
			return fmt.Errorf("partition %s: %w", r.ID, err)
		}
	}
	if len(o.Bundles) > MaxBundles || extents > MaxExtents {
		return fmt.Errorf("%w: %d bundles, %d extents in one part: at most %d, %d", ErrMalformed, len(o.Bundles), extents, MaxBundles, MaxExtents)
	}
	if kind == Clean && len(o.Partitions) > 1 {
		return fmt.Errorf("%w: %d replacements of one partition", ErrMalformed, len(o.Partitions))
	}
	return nil
}

func (r *Replacement) check(kind Kind, bounds *Bounds) error {
	for i := range r.Extents {
		if x := &r.Extents[i]; x.Batches == 0 || uint64(x.Batches)*minBatchBytes > uint64(x.Length) {
			return fmt.Errorf("%w: %d batches in %d bytes", ErrMalformed, x.Batches, x.Length)
		}
	}
	if kind != Clean {
		if len(r.DroppedAborted) > 0 || r.CleanedTo != 0 {
			return fmt.Errorf("%w: a %s job cleans up to %d and drops %d aborted transactions", ErrMalformed, kind, r.CleanedTo, len(r.DroppedAborted))
		}
		return nil
	}
	for _, marker := range r.DroppedAborted {
		if marker >= r.CleanedTo {
			return fmt.Errorf("%w: marker %d dropped, cleaned to %d", ErrMalformed, marker, r.CleanedTo)
		}
	}
	if bounds != nil && (r.From != bounds.From || r.To > bounds.To || r.To < bounds.FirstDirty || r.CleanedTo <= bounds.FirstDirty) {
		return fmt.Errorf("%w: cleaned [%d, %d] up to %d, the job is for [%d, %d] from %d on", ErrMalformed,
			r.From, r.To, r.CleanedTo, bounds.From, bounds.To, bounds.FirstDirty)
	}
	return nil
}

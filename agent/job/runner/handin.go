package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// A part of an outcome has at most so many replacements and extents: applying it holds up commits.
const (
	partReplacements = 256
	partExtents      = 4096
)

// Bounds of the pause before a part of an outcome is handed in again.
const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// handIn hands in an outcome, part by part. A part that the owner could not be asked about is handed in again until it
// was, or the job is cancelled.
func (r *Runner) handIn(ctx context.Context, n id.Session, o *job.Outcome) error {
	for part, last := range parts(o) {
		encoded := job.AppendOutcome(nil, part)
		pause := backoff.NewExponentialBackOff()
		pause.InitialInterval, pause.MaxInterval = retryMin, retryMax
		_, err := backoff.Retry(ctx, func() (struct{}, error) {
			err := r.cfg.Owner.CompleteJob(ctx, n, encoded, last)
			if err != nil && !errors.Is(err, client.ErrUnavailable) {
				err = backoff.Permanent(err)
			}
			return struct{}{}, err
		}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0))
		if err != nil {
			return fmt.Errorf("hand in a part of %d partitions: %w", len(part.Partitions), err)
		}
	}
	return nil
}

// parts cuts an outcome between replacements. Each part names the bundles that it refers to; the last one names those
// too that none refers to, so that the owner knows all that were written.
func parts(o *job.Outcome) func(yield func(part *job.Outcome, last bool) bool) {
	return func(yield func(*job.Outcome, bool) bool) {
		named := make(map[uint32]bool, len(o.Bundles))
		rest := o.Partitions
		for {
			part := &job.Outcome{Partitions: rest[:partSize(rest)]}
			rest = rest[len(part.Partitions):]
			used := make(map[uint32]bool)
			for i := range part.Partitions {
				for x := range extentsOf(&part.Partitions[i]) {
					used[x.Bundle.Submission().N] = true
				}
			}
			for _, b := range o.Bundles {
				if used[b.N] || len(rest) == 0 && !named[b.N] {
					part.Bundles, named[b.N] = append(part.Bundles, b), true
				}
			}
			if !yield(part, len(rest) == 0) || len(rest) == 0 {
				return
			}
		}
	}
}

// partSize is how many of the replacements make the next part, at least one if there are any.
func partSize(rest []job.Replacement) int {
	extents := 0
	for i := range rest {
		extents += len(rest[i].Extents)
		if i == partReplacements || i > 0 && extents > partExtents {
			return i
		}
	}
	return len(rest)
}

func extentsOf(r *job.Replacement) func(yield func(*extent.Extent) bool) {
	return func(yield func(*extent.Extent) bool) {
		for i := range r.Extents {
			if !yield(&r.Extents[i]) {
				return
			}
		}
	}
}

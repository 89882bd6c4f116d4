package clean

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/job"
)

// ErrPlan says that a plan is none that Run can carry out.
var ErrPlan = errors.New("plan cannot be cleaned by")

// Run cleans the partitions of a plan, one after the other. The extents of each are one run, from the partition's log
// start on: all that was cleaned before, and above it the part of the dirty ones that is to be cleaned. progress is
// told the bytes read so far, those of dirty parts twice.
//
// Errors: ErrPlan; ErrUncleanable, which names the bundle to blame (runner.UnreadableInputs) and wraps objstore.ErrNotFound
// if its object is missing; those of the store; the context's. After an error, nothing that was written is of use.
func Run(ctx context.Context, plan *job.Plan, progress func(bytes int64), env Env) (job.Outcome, error) {
	env.applyDefaults()
	if plan.Kind != job.Clean {
		return job.Outcome{}, fmt.Errorf("%w: kind %s", ErrPlan, plan.Kind)
	}
	r := &run{env: &env, in: newInput(&env, progress), records: newOpener(env.MaxRecordBytes)}
	r.out = &output{env: &env, job: plan.ID}
	defer r.records.codecs.Close()
	defer r.out.abort(ctx)
	var o job.Outcome
	for i := range plan.Partitions {
		replacement, err := r.clean(ctx, &plan.Partitions[i])
		if err != nil {
			if errors.Is(err, ErrUncleanable) {
				env.Metrics.uncleanable.Inc()
			}
			return job.Outcome{}, fmt.Errorf("clean partition %s: %w", plan.Partitions[i].ID, err)
		}
		o.Partitions = append(o.Partitions, replacement)
	}
	if err := r.out.roll(ctx); err != nil {
		return job.Outcome{}, err
	}
	o.Bundles = r.out.bundles
	return o, nil
}

// run is one run of a plan.
type run struct {
	env     *Env
	in      *input
	records *opener
	out     *output
}

func (r *run) clean(ctx context.Context, p *job.Partition) (job.Replacement, error) {
	if err := check(p); err != nil {
		return job.Replacement{}, err
	}
	from := p.Extents[0].Base
	r.out.begin(p.ID, from)
	c := &cleaner{partition: p, spec: p.Clean, in: r.in, records: r.records, out: r.out}
	read, written := r.in.bytes, r.out.bytes
	if err := c.note(ctx, r.env.MapBytes); err != nil {
		return job.Replacement{}, fmt.Errorf("note keys: %w", err)
	}
	to, err := c.rewrite(ctx)
	if err != nil {
		return job.Replacement{}, fmt.Errorf("rewrite: %w", err)
	}
	exts, err := r.out.finish(ctx, to)
	if err != nil {
		return job.Replacement{}, fmt.Errorf("rewrite: %w", err)
	}
	r.env.Metrics.cleaned(&c.counts, r.in.bytes-read, r.out.bytes-written)
	r.env.Log.Info("partition cleaned", zap.Stringer("partition", p.ID), zap.Int64("first_dirty", p.Clean.FirstDirty),
		zap.Int64("cleaned_to", c.upTo), zap.Int64("records_read", c.counts.read), zap.Int64("records_kept", c.counts.kept),
		zap.Int64("bytes_written", r.out.bytes-written))
	if c.counts.oversized > 0 {
		r.env.Log.Warn("batches grew beyond max.message.bytes by their delete horizon", zap.Stringer("partition", p.ID),
			zap.Int64("batches", c.counts.oversized))
	}
	return job.Replacement{
		ID: p.ID, From: from, To: to, Extents: exts, DroppedAborted: c.dropped, CleanedTo: c.upTo,
	}, nil
}

// check tells whether a partition's plan makes sense: one run of extents that reaches beyond what is clean.
func check(p *job.Partition) error {
	if p.Clean == nil {
		return fmt.Errorf("%w: no spec for %s", ErrPlan, p.ID)
	}
	if len(p.Extents) == 0 || p.Extents[len(p.Extents)-1].Last < p.Clean.FirstDirty {
		return fmt.Errorf("%w: nothing dirty in %s from %d", ErrPlan, p.ID, p.Clean.FirstDirty)
	}
	for i := 1; i < len(p.Extents); i++ {
		if p.Extents[i].Base != p.Extents[i-1].Last+1 {
			return fmt.Errorf("%w: hole in %s before %d", ErrPlan, p.ID, p.Extents[i].Base)
		}
	}
	return nil
}

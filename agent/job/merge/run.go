package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
)

// progressStep is how many bytes are copied between two reports of progress.
const progressStep = 1 << 20

// Run copies the extents of a plan into bundles of the job. Its outcome has one replacement for each run of extents. All
// objects that the outcome names are durable when Run returns. Run calls progress with the bytes of extents done so far.
//
// For a Cut plan, Run leaves out corrupt batches. It also leaves out the extents of inputs whose objects are missing in all
// of cutAttempts attempts to open them.
//
// Errors: ErrPlan; *CorruptError; *MissingError; durable.ErrForeign if another process has written under the job's names;
// those of the store; the context's. After an error, nothing that was written is of use.
func Run(ctx context.Context, plan *job.Plan, progress func(bytes int64), env Env) (job.Outcome, error) {
	env.ApplyDefaults()
	if err := errors.Join(env.Validate(), check(plan)); err != nil {
		return job.Outcome{}, fmt.Errorf("merge: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{
		env: &env, inputs: newInputs(ctx, &env, plan), output: output{env: &env, job: plan.ID}, progress: progress,
		mayLose: plan.Kind == job.Cut,
	}
	defer r.inputs.close()
	defer r.output.abort(ctx)
	if err := r.open(ctx); err != nil {
		return job.Outcome{}, fmt.Errorf("merge: %w", err)
	}
	var o job.Outcome
	for i := range plan.Partitions {
		p := &plan.Partitions[i]
		for exts := range p.Runs {
			replacement, err := r.merge(ctx, p.ID, exts)
			if err != nil {
				return job.Outcome{}, fmt.Errorf("merge partition %s: %w", p.ID, err)
			}
			o.Partitions = append(o.Partitions, replacement)
		}
	}
	if err := r.output.roll(ctx); err != nil {
		return job.Outcome{}, fmt.Errorf("merge: %w", err)
	}
	r.progress(r.done)
	r.logLeftOut()
	o.Bundles = r.output.bundles
	return o, nil
}

// A Cut plan gives up records for good. So an object counts as missing only after cutAttempts GETs with pauses of cutPause.
const (
	cutAttempts = 4
	cutPause    = 5 * time.Second
)

// open sends the GETs of the inputs. Missing inputs of a Cut plan are no error.
func (r *run) open(ctx context.Context) error {
	err := r.inputs.open()
	for n := 1; err != nil && r.mayLose && n < cutAttempts; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(cutPause):
		}
		err = r.inputs.open()
	}
	if r.mayLose {
		return nil
	}
	return err
}

// check returns ErrPlan if Run cannot carry out the plan.
func check(plan *job.Plan) error {
	if plan.Kind != job.Compact && plan.Kind != job.Cut {
		return fmt.Errorf("%w: kind %s", ErrPlan, plan.Kind)
	}
	for i := range plan.Partitions {
		p := &plan.Partitions[i]
		if i > 0 && plan.Partitions[i-1].ID.Compare(p.ID) >= 0 {
			return fmt.Errorf("%w: partition %s after %s", ErrPlan, p.ID, plan.Partitions[i-1].ID)
		}
		next := int64(0)
		for j := range p.Extents {
			x := &p.Extents[j]
			if x.Base < next || x.Last < x.Base {
				return fmt.Errorf("%w: extent [%d, %d] of %s after %d", ErrPlan, x.Base, x.Last, p.ID, next)
			}
			next = x.Last + 1
		}
	}
	return nil
}

// run is one run of a plan.
type run struct {
	env      *Env
	inputs   *inputs
	output   output
	progress func(bytes int64)
	done     int64  // bytes of extents worked off
	told     int64  // of them progress knows
	buf      []byte // for a batch
	mayLose  bool   // leave out batches that cannot be read: a Cut plan
	leftOut  []cut  // the first maxCut ranges left out
	lost     int64  // number of offsets left out
}

// cut is a range of offsets, ends included, whose batches were left out.
type cut struct {
	tp       id.TopicPartition
	from, to int64
	reason   error
}

// maxCut bounds the ranges left out that are logged.
const maxCut = 20

// merge copies one run of extents without a hole between them.
func (r *run) merge(ctx context.Context, tp id.TopicPartition, exts []extent.Extent) (job.Replacement, error) {
	r.output.begin(tp, exts[0].Base, bytesOf(exts))
	for i := range exts {
		if err := r.copy(ctx, tp, &exts[i]); err != nil {
			return job.Replacement{}, err
		}
	}
	to := exts[len(exts)-1].Last
	merged, err := r.output.finish(ctx, to)
	if err != nil {
		return job.Replacement{}, err
	}
	return job.Replacement{ID: tp, From: exts[0].Base, To: to, Extents: merged}, nil
}

// bytesOf is what the batches of extents come to.
func bytesOf(exts []extent.Extent) (n int64) {
	for i := range exts {
		if n += int64(exts[i].Length); exts[i].Kind == extent.Marker {
			n += kafkaproto.ControlBatchSize
		}
	}
	return n
}

// copy copies one extent.
func (r *run) copy(ctx context.Context, tp id.TopicPartition, x *extent.Extent) error {
	if x.Kind == extent.Marker {
		r.buf = control(r.buf, x)
		return r.output.batch(ctx, r.buf)
	}
	s := batches{extent: x, next: x.Base}
	r.env.Metrics.read.Add(float64(x.Length))
	from := x.Base // offset after the last copied batch
	var lost error // why offsets from there on are left out, nil if none are
	for s.left() > 0 {
		b, err := r.next(ctx, &s)
		switch {
		case err == nil:
		case !r.mayLeaveOut(err):
			return err
		default:
			lost = cmp.Or(lost, err)
			if size := s.refused; s.skip() {
				r.account(size)
				continue
			}
			r.account(int(s.left()))
			s.at = int64(x.Length) // the position of the next batch is unknown
			continue
		}
		if lost != nil {
			r.leaveOut(tp, from, b.BaseOffset()-1, lost)
			lost = nil
		}
		from = s.next
		if err := r.output.batch(ctx, b); err != nil {
			return err
		}
		r.account(len(b))
	}
	r.inputs.done(x)
	if lost == nil {
		if lost = r.judge(s.complete(), &s); lost != nil && !r.mayLeaveOut(lost) {
			return lost
		}
	}
	if lost != nil {
		r.leaveOut(tp, from, x.Last, lost)
	}
	return nil
}

// mayLeaveOut reports whether Run continues after an error. An object that goes missing after open ends even a Cut plan.
func (r *run) mayLeaveOut(err error) bool {
	corrupt, missing := (*CorruptError)(nil), (*MissingError)(nil)
	return r.mayLose && (errors.As(err, &corrupt) || errors.As(err, &missing) && r.inputs.byBundle[missing.Bundles[0]].missing)
}

// leaveOut notes the offsets from and to, and those between, as left out.
func (r *run) leaveOut(tp id.TopicPartition, from, to int64, why error) {
	if len(r.leftOut) < maxCut {
		r.leftOut = append(r.leftOut, cut{tp, from, to, why})
	}
	r.lost += to + 1 - from
}

// logLeftOut logs the offsets that a Cut plan left out.
func (r *run) logLeftOut() {
	for _, c := range r.leftOut {
		r.env.Log.Warn("unreadable records given up, as an operator requested", zap.Stringer("partition", c.tp),
			zap.Int64("from", c.from), zap.Int64("to", c.to), zap.Error(c.reason))
	}
	if r.mayLose {
		r.env.Log.Warn("bundle was cut", zap.Int64("offsets_given_up", r.lost))
	}
}

// next reads a batch. A damaged batch is read once more, because the damage may come from the network.
func (r *run) next(ctx context.Context, s *batches) (kafkaproto.RecordBatch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.source == nil {
		source, err := r.inputs.reader(s.extent)
		if err != nil {
			return nil, r.judge(err, s)
		}
		s.source = source
	}
	b, err := s.read(r.buf)
	if err != nil {
		if b, err = r.again(err, s); err != nil {
			return nil, r.judge(err, s)
		}
	}
	r.buf = b[:cap(b)]
	return b, nil
}

// again reads a batch that is not what it should be by a GET of its own, as all that follows of the extent.
func (r *run) again(err error, s *batches) (kafkaproto.RecordBatch, error) {
	if wrong := (*errBatch)(nil); !errors.As(err, &wrong) {
		return nil, err
	}
	s.source = r.inputs.aside(s.extent, int64(s.extent.Position)+s.at)
	return s.read(r.buf)
}

// judge makes what reading says an error of the run.
func (r *run) judge(err error, s *batches) error {
	wrong := (*errBatch)(nil)
	if errors.Is(err, objstore.ErrRange) {
		err = &errBatch{reason: "the object ends before it"}
	}
	switch {
	case errors.As(err, &wrong):
		r.env.Metrics.corrupt.Inc()
		return &CorruptError{
			Bundle: s.extent.Bundle, Key: r.inputs.byBundle[s.extent.Bundle].key,
			Position: s.extent.Position + uint32(s.at), Offset: s.next,
			Stored: wrong.stored, Computed: wrong.computed, Reason: wrong.reason,
		}
	case errors.Is(err, objstore.ErrNotFound):
		return &MissingError{Bundles: []id.Bundle{s.extent.Bundle}}
	default:
		return err
	}
}

// account counts a batch that was copied.
func (r *run) account(n int) {
	r.done += int64(n)
	if r.done-r.told >= progressStep {
		r.told = r.done
		r.progress(r.done)
	}
}

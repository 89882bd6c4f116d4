package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// Complete implements session.Jobs: the part goes through the log, where a job that has ended takes nothing, and one that is open
// takes no more than it was started for.
func (t *Tenure) Complete(ctx context.Context, runner, n id.Session, outcome []byte, last bool) error {
	l, err := t.leaseOf(runner, n)
	if err != nil || l == nil {
		return err
	}
	parsed, err := job.ParseOutcome(outcome)
	if err != nil {
		return t.invalid(ctx, runner, n, err)
	}
	result, _, err := t.owner.Propose(ctx, &metadata.CompleteJob{Job: n, Outcome: outcome, Last: last})
	switch {
	case err != nil:
		return fmt.Errorf("complete job %d: %w", n, err)
	case errors.Is(result.Err, metadata.ErrUnknownJob):
		// Its end may be the part before whose answer was lost, or this one's first copy.
		t.ended(l, last)
		return nil
	case result.Err != nil:
		return t.invalid(ctx, runner, n, result.Err)
	}
	t.taken(l, parsed, result.Value.(metadata.JobResult))
	if last {
		t.ended(l, true)
	}
	return nil
}

// leaseOf returns what is kept of a job of that runner; nil if the job has ended. Errors: ErrBadRequest if the job is another
// runner's, those of reading the state.
func (t *Tenure) leaseOf(runner, n id.Session) (*lease, error) {
	l, err := t.lease(n)
	if err != nil || l == nil {
		return nil, err
	}
	if l.Runner != runner {
		return nil, fmt.Errorf("%w: job %d is not session %d's", session.ErrBadRequest, n, runner)
	}
	return l, nil
}

// cancelled drops the lease of a job that is not wanted any more, through no fault of its runner or its inputs.
func (t *Tenure) cancelled(l *lease, why string) {
	if _, dropped := t.drop(l, false, why); !dropped {
		return
	}
	t.metrics.aborted.WithLabelValues(abortedByConfigs).Inc()
	t.log.Info("background job cancelled", append(describe(l), zap.String("reason", why))...)
	t.runners.Cancel(l.Runner, l.ID)
	t.wake()
}

// invalid aborts a job whose outcome is none.
func (t *Tenure) invalid(ctx context.Context, runner, n id.Session, why error) error {
	if err := t.Abort(ctx, runner, n, why.Error(), job.Unreadable{}); err != nil {
		return err
	}
	return fmt.Errorf("%w: outcome of job %d: %w", session.ErrBadRequest, n, why)
}

// taken counts a part that was taken.
func (t *Tenure) taken(l *lease, o *job.Outcome, r metadata.JobResult) {
	t.metrics.replaced.Add(float64(r.Replaced))
	t.metrics.kept.Add(float64(r.Kept))
	t.mu.Lock()
	defer t.mu.Unlock()
	l.wrote(o)
	now := time.Now()
	l.moved = now
	l.renew(now, t.settings.Lease)
}

// ended drops the lease of a job that was completed, or that had ended before.
func (t *Tenure) ended(l *lease, completed bool) {
	was, dropped := t.drop(l, completed, "")
	if !dropped {
		return
	}
	if completed {
		t.metrics.completed(&was)
		t.log.Debug("background job completed", describe(l)...)
	}
	t.wake()
}

// drop removes a lease and remembers how the job ended; false if somebody else did.
func (t *Tenure) drop(l *lease, completed bool, reason string) (was lease, dropped bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.leases[l.ID] != l {
		return lease{}, false
	}
	delete(t.mu.leases, l.ID)
	if completed {
		l.done = max(l.done, l.bytes)
		t.mu.setbacks.succeed(l)
	}
	t.mu.history = append(t.mu.history, endedJob{lease: *l, at: now, completed: completed, reason: reason})
	if len(t.mu.history) > maxHistory {
		t.mu.history = slices.Delete(t.mu.history, 0, 1)
	}
	return *l, true
}

// Abort implements session.Jobs.
func (t *Tenure) Abort(ctx context.Context, runner, n id.Session, reason string, unreadable job.Unreadable) error {
	l, err := t.leaseOf(runner, n)
	if err != nil || l == nil {
		return err
	}
	if err := t.abort(ctx, n); err != nil {
		return err
	}
	t.fail(l, abortedByRunner, reason, t.accused(l, unreadable))
	return nil
}

// abort ends a job in the state; one that has ended is no error.
func (t *Tenure) abort(ctx context.Context, n id.Session) error {
	result, _, err := t.owner.Propose(ctx, &metadata.AbortJob{Job: n})
	if err == nil && !errors.Is(result.Err, metadata.ErrUnknownJob) {
		err = result.Err
	}
	if err != nil {
		return fmt.Errorf("abort job %d: %w", n, err)
	}
	return nil
}

// failed drops the lease of a job that came to nothing.
func (t *Tenure) failed(l *lease, how, reason string) { t.fail(l, how, reason, accusation{}) }

// fail is failed with the runner's accusation of inputs.
func (t *Tenure) fail(l *lease, how, reason string, a accusation) {
	if _, dropped := t.drop(l, false, reason); !dropped {
		return
	}
	t.mu.Lock()
	t.mu.setbacks.fail(l, t.accuse(l, a, reason), time.Now())
	t.mu.Unlock()
	t.metrics.aborted.WithLabelValues(how).Inc()
	t.log.Warn("background job aborted", append(describe(l), zap.String("how", how), zap.String("reason", reason))...)
	t.wake()
}

// accusation names the inputs that a runner blames for giving a job up.
type accusation struct {
	inputs []id.Bundle // live ones that it could not read
	sound  bool        // the runner named inputs, and nothing else
	only   bool        // no other runner is connected
	intact bool        // the inputs are intact, and only records in them cannot be decoded
}

// accused returns the accusation of a runner that names those bundles as corrupt or missing. It only counts for inputs.
func (t *Tenure) accused(l *lease, unreadable job.Unreadable) accusation {
	a := accusation{sound: len(unreadable.Bundles) > 0, only: true, intact: unreadable.Intact}
	if !a.sound {
		return a
	}
	_, err := t.owner.ReadFrozen(func(s *metadata.State) {
		inputs := l.Inputs
		if l.Clean != nil {
			inputs = cleanInputs(s, l)
		}
		for _, b := range slices.Compact(slices.Sorted(slices.Values(unreadable.Bundles))) {
			_, extents, _, _ := s.Bundle(b)
			if _, input := slices.BinarySearch(inputs, b); !input {
				a.sound = false
			} else if extents > 0 {
				a.inputs = append(a.inputs, b)
			}
		}
		for info := range s.Sessions() {
			a.only = a.only && (info.ID == l.Runner || !t.takesJobs(&info))
		}
	})
	if err != nil {
		return accusation{} // the next owner finds out
	}
	return a
}

// cleanInputs returns the bundles of the extents that a Clean job reads, as far as they are still there. The job's plan bounds the walk.
func cleanInputs(s *metadata.State, l *lease) []id.Bundle {
	p := job.Partition{}
	s.AscendExtents(l.First, l.Clean.From, func(x *extent.Extent) bool {
		if x.Base > l.Clean.To || len(p.Extents) == jobExtents {
			return false
		}
		if x.Kind != extent.Marker {
			p.Extents = append(p.Extents, *x)
		}
		return true
	})
	return inputsOf([]job.Partition{p})
}

// accuse notes bundles that cannot be read, and reports whether such inputs alone are to blame for the job's failure. Called with mu held.
func (t *Tenure) accuse(l *lease, a accusation, reason string) (byInputs bool) {
	byInputs = a.sound
	for _, b := range a.inputs {
		of := bundleKind{bundle: b, kind: l.Kind, intact: a.intact}
		known := t.mu.setbacks.known(of)
		if !t.mu.setbacks.accuse(of, l.Runner, a.only, time.Now()) {
			byInputs = false
		} else if !known {
			t.log.Error(advice(a.intact), zap.Stringer("bundle", b), zap.Uint32("job", uint32(l.ID)), zap.String("reason", reason))
		}
	}
	t.metrics.unreadable.Set(float64(t.mu.setbacks.countUnreadable()))
	return byInputs
}

// advice returns the log message for a bundle that jobs cannot read. Cutting a bundle drops damaged batches and missing objects, and keeps
// intact batches.
func advice(intact bool) string {
	if intact {
		return "a partition cannot be cleaned: records in an intact bundle cannot be decoded. Cleaning waits until retention or DeleteRecords removes them; fetches continue"
	}
	return "a bundle that holds records cannot be read: restore its object, or give its unreadable records up by freshet bundle cut"
}

func describe(l *lease) []zap.Field {
	return []zap.Field{
		zap.Uint32("job", uint32(l.ID)), zap.Stringer("kind", l.Kind), zap.Uint8("level", l.Level),
		zap.Uint32("runner", uint32(l.Runner)), zap.Int("inputs", len(l.Inputs)), zap.Int64("bytes", l.bytes),
		zap.Duration("took", time.Since(l.started())),
	}
}

package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// Complete implements session.Jobs: the part goes through the log, where a job that has ended takes nothing.
func (t *Tenure) Complete(ctx context.Context, runner, n id.Session, outcome []byte, last bool) error {
	l, err := t.leaseOf(runner, n)
	if err != nil || l == nil {
		return err
	}
	parsed, err := job.ParseOutcome(outcome)
	if err == nil {
		err = t.check(l, parsed)
	}
	if err != nil {
		return t.invalid(ctx, runner, n, err)
	}
	if changed, err := t.changed(l); err != nil || changed != "" {
		return t.withdraw(ctx, l, changed, err)
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

// check returns an error if an outcome says more than the job was handed out for, or contradicts its earlier parts.
func (t *Tenure) check(l *lease, o *job.Outcome) error {
	if err := o.Check(l.Kind, l.Clean); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range o.Bundles {
		if bytes, known := l.written[b.N]; known && bytes != b.Bytes {
			return fmt.Errorf("%w: bundle %d of %d bytes has %d", job.ErrMalformed, b.N, bytes, b.Bytes)
		}
	}
	for i := range o.Partitions {
		if r := &o.Partitions[i]; !l.Covers(r.ID) {
			return fmt.Errorf("%w: partition %s is not of the job", job.ErrMalformed, r.ID)
		}
	}
	return nil
}

// changed says why a Clean job must not be completed any more, "" if nothing speaks against it. From
// metadata.CleanupVersion on Apply sees to it; before, this leaves the moment until the command is applied.
func (t *Tenure) changed(l *lease) (why string, err error) {
	if l.Kind != job.Clean {
		return "", nil
	}
	_, err = t.owner.Read(func(s *metadata.State) {
		topic, ok := s.Topic(l.First.Topic)
		if !ok {
			return // the state keeps what a deleted topic has
		}
		sum, _ := s.CleanupConfigs(topic.ID)
		values := topicconfig.Resolve(topic.Configs, s.Configs(metadata.ConfigBroker, ""))
		switch {
		case !values.Compact:
			why = "its topic is not compacted any more"
		case l.configs != nil && *l.configs != sum:
			why = "the configs of its topic changed"
		}
	})
	if err != nil {
		return "", fmt.Errorf("look at the configs of job %d: %w", l.ID, err)
	}
	return why, nil
}

// withdraw aborts a job whose outcome is not wanted any more. To its runner, that is a job which has ended.
func (t *Tenure) withdraw(ctx context.Context, l *lease, why string, err error) error {
	if err != nil {
		return err
	}
	if err := t.abort(ctx, l.ID); err != nil {
		return err
	}
	t.cancelled(l, why)
	return nil
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
	if err := t.Abort(ctx, runner, n, why.Error(), nil); err != nil {
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
		t.mu.setbacks.succeed(&l.JobInfo)
	}
	t.mu.history = append(t.mu.history, endedJob{lease: *l, at: now, completed: completed, reason: reason})
	if len(t.mu.history) > maxHistory {
		t.mu.history = slices.Delete(t.mu.history, 0, 1)
	}
	return *l, true
}

// Abort implements session.Jobs.
func (t *Tenure) Abort(ctx context.Context, runner, n id.Session, reason string, corrupt []id.Bundle) error {
	l, err := t.leaseOf(runner, n)
	if err != nil || l == nil {
		return err
	}
	if err := t.abort(ctx, n); err != nil {
		return err
	}
	t.noteCorrupt(l, corrupt)
	t.fail(l, abortedByRunner, reason, len(corrupt) > 0)
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
func (t *Tenure) failed(l *lease, how, reason string) { t.fail(l, how, reason, false) }

// fail is failed; byInputs says that the runner found inputs corrupt.
func (t *Tenure) fail(l *lease, how, reason string, byInputs bool) {
	if _, dropped := t.drop(l, false, reason); !dropped {
		return
	}
	t.mu.Lock()
	t.mu.setbacks.fail(&l.JobInfo, byInputs, time.Now())
	t.mu.Unlock()
	t.metrics.aborted.WithLabelValues(how).Inc()
	t.log.Warn("background job aborted", append(describe(l), zap.String("how", how), zap.String("reason", reason))...)
	t.wake()
}

// noteCorrupt leaves bundles that a runner found corrupt out of further jobs. Only inputs are believed.
func (t *Tenure) noteCorrupt(l *lease, corrupt []id.Bundle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range corrupt {
		_, input := slices.BinarySearch(l.Inputs, b)
		if !input || t.mu.setbacks.corrupt[b] || len(t.mu.setbacks.corrupt) >= maxSetbacks {
			continue
		}
		t.mu.setbacks.corrupt[b] = true
		t.metrics.corrupt.Inc()
		t.log.Error("corrupt bundle, left out of background jobs", zap.Stringer("bundle", b), zap.Uint32("job", uint32(l.ID)))
	}
}

func describe(l *lease) []zap.Field {
	return []zap.Field{
		zap.Uint32("job", uint32(l.ID)), zap.Stringer("kind", l.Kind), zap.Uint8("level", l.Level),
		zap.Uint32("runner", uint32(l.Runner)), zap.Int("inputs", len(l.Inputs)), zap.Int64("bytes", l.bytes),
		zap.Duration("took", time.Since(l.started())),
	}
}

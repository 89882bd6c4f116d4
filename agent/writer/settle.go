package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/commit"
)

// Pauses between attempts to have a submission settled.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// again calls submit until the outcome is known: the same name gets the same answer (I3). It ends with
// client.ErrSessionClosed, client.ErrInvalid, client.ErrLate, or when ctx does.
func again(ctx context.Context, submit func() (*commit.Result, error)) (*commit.Result, error) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		result, err := submit()
		if err == nil || errors.Is(err, client.ErrSessionClosed) || errors.Is(err, client.ErrInvalid) || errors.Is(err, client.ErrLate) {
			return result, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
		}
	}
}

// commit submits the bundle once all bundles before it were submitted or abandoned, and returns the sequencer's result. If the
// session ends meanwhile, commit still asks for the true result by name. A submission that the owner refuses as late is
// repeated without the batches whose lease has ended.
func (b *sealed) commit() (*commit.Result, error) {
	if !b.awaitTurn() {
		return nil, ErrSessionClosed
	}
	acked, ok := b.s.handIn(b)
	if !ok {
		return nil, ErrSessionClosed
	}
	until := b.leaveOut()
	b.s.passOn(b)
	for len(b.groups) > 0 {
		result, err := b.submit(b.encode(b.groups, acked), until)
		switch {
		case errors.Is(err, client.ErrInvalid):
			return b.isolate(acked, until, err)
		case !errors.Is(err, client.ErrLate):
			return result, err
		}
		until = b.leaveOut()
	}
	b.giveUp()
	return nil, ErrWithdrawn
}

// submit asks for the result of a commit until it is known.
func (b *sealed) submit(encoded []byte, until time.Time) (*commit.Result, error) {
	w := b.s.w
	began := time.Now()
	result, err := again(w.life, func() (*commit.Result, error) { return w.cfg.Committer.Commit(w.life, encoded, until) })
	w.metrics.commitSeconds.Observe(time.Since(began).Seconds())
	if errors.Is(err, client.ErrSessionClosed) {
		return nil, fmt.Errorf("%w: %w", ErrSessionClosed, err)
	}
	return result, err
}

// giveUp settles a bundle that was refused, or of which nothing is wanted any more, so that those after it are not held back.
func (b *sealed) giveUp() {
	_, _ = again(b.s.ctx, func() (*commit.Result, error) { return b.s.w.cfg.Committer.Abandon(b.s.ctx, b.name()) })
}

func (b *sealed) encode(groups []group, acked uint32) []byte {
	var c commit.Builder
	c.Reset(commit.Header{Submission: b.name(), Acked: acked, Bytes: b.size})
	for _, g := range groups {
		c.Section(commit.Section{Partition: g.partition, Position: b.entries[g.first].position})
		for i := g.first; i >= 0; i = b.entries[i].next {
			c.Batch(b.entries[i].meta)
		}
	}
	return c.AppendTo(nil)
}

// statusError is the error of a submission that was not settled batch by batch.
func statusError(s commit.Status) error {
	switch s {
	case commit.Settled:
		return nil
	case commit.SessionClosed:
		return ErrSessionClosed
	case commit.Abandoned:
		return fmt.Errorf("%w: the submission was abandoned", ErrStore)
	case commit.Forgotten:
		return fmt.Errorf("%w: the result was dropped", ErrUnknownOutcome)
	default:
		return fmt.Errorf("%w: status %d", ErrUnknownOutcome, s)
	}
}

// answer tells the waiters what became of their batches, notes base offsets, and hands gapped batches in again.
func (b *sealed) answer(result *commit.Result) {
	if len(result.Sections) != len(b.groups) {
		b.s.w.log.Error("commit result does not fit its commit", zap.Stringer("bundle", b.name()),
			zap.Int("sections", len(result.Sections)), zap.Int("expected", len(b.groups)))
		b.fail(fmt.Errorf("%w: the result does not fit", ErrUnknownOutcome))
		return
	}
	var gaps []gap
	for i := range b.groups {
		members := b.members(b.groups[i])
		gapped := b.settleSection(&result.Sections[i], members, true)
		gaps = append(gaps, b.gapsOf(b.groups[i], gapped)...)
	}
	b.resubmit(gaps)
}

// members gives the entries of a group in order.
func (b *sealed) members(g group) []int32 {
	var m []int32
	for i := g.first; i >= 0; i = b.entries[i].next {
		m = append(m, i)
	}
	return m
}

// settleSection resolves a section's entries, except those that were answered Gap, which it gives. The base offsets of
// accepted ones are noted for the hand-over, unless that is past.
func (b *sealed) settleSection(r *commit.SectionResult, members []int32, note bool) (gapped []int32) {
	for _, span := range r.Spans {
		base := span.Base
		for range span.Batches {
			if len(members) == 0 {
				return gapped
			}
			i := members[0]
			members = members[1:]
			if span.Outcome == commit.Gap {
				gapped = append(gapped, i)
				continue
			}
			e := &b.entries[i]
			answer := Result{Outcome: span.Outcome, Base: -1, LogStart: r.LogStart}
			switch span.Outcome {
			case commit.Accepted:
				answer.Base = base
				if note {
					e.base = base
				}
				base += int64(e.meta.Records)
			case commit.Duplicate:
				answer.Base = base
			case commit.InvalidTxn:
				if e.unstamped() {
					answer = Failed(ErrNoStamp)
				}
			case commit.TooManyProducers:
				answer = Failed(ErrTooManyProducers)
			default: // the batch has no offset
			}
			b.s.w.resolve(e.owner, e.index, answer)
		}
	}
	for _, i := range members { // the sequencer answers every batch; this is a fault of it
		b.s.w.resolve(b.entries[i].owner, b.entries[i].index, Failed(ErrUnknownOutcome))
	}
	return gapped
}

// resolve sets one batch's result.
func (w *Writer) resolve(p *Produce, index int32, r Result) {
	if p.Resolve(index, r) {
		w.metrics.batchSeconds.Observe(time.Since(p.arrived).Seconds())
	}
}

func (w *Writer) onRetry(also func(error, time.Duration)) func(error, time.Duration) {
	return func(err error, pause time.Duration) {
		w.metrics.putRetries.Inc()
		w.trouble.warn("object store fails: put of a bundle is tried again", zap.Duration("pause", pause), zap.Error(err))
		if also != nil {
			also(err, pause)
		}
	}
}

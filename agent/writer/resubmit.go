package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/internal/wait"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// gapPause is the least time between two resubmissions of the same batches, should the sequencer not park them.
const gapPause = 250 * time.Millisecond

// gap is one producer's batches of one partition that are ahead of its sequence there. They are handed in again on
// their own: another producer's gap may close at another time.
type gap struct {
	partition id.TopicPartition
	entries   []int32 // in order
}

// gapsOf splits a section's gapped entries by producer.
func (b *sealed) gapsOf(g group, gapped []int32) []gap {
	if len(gapped) == 0 {
		return nil
	}
	var gaps []gap
	at := map[int64]int{}
	for _, i := range gapped {
		producer := b.entries[i].meta.ProducerID
		k, ok := at[producer]
		if !ok {
			k = len(gaps)
			at[producer] = k
			gaps = append(gaps, gap{partition: g.partition})
		}
		gaps[k].entries = append(gaps[k].entries, i)
	}
	return gaps
}

// resubmit starts handing the gaps in again, as far as the bound on resubmissions allows.
func (b *sealed) resubmit(gaps []gap) {
	w := b.s.w
	for _, g := range gaps {
		if !w.resubmissions.TryAcquire(1) {
			w.metrics.waits.WithLabelValues(waitResubmissions).Inc()
			b.failGap(g, ErrGap)
			continue
		}
		b.s.resubmitting(1)
		ctx, cancel := context.WithTimeout(b.s.gaps, w.cfg.GapTimeout)
		w.tasks.Go(func() {
			defer w.resubmissions.Release(1)
			defer b.s.resubmitting(-1)
			defer cancel()
			b.closeGap(ctx, g)
		})
	}
}

// closeGap hands the batches in again, under the same name, until each has another answer than Gap or the time is
// up. The sequencer parks them meanwhile, so this is one call as a rule.
func (b *sealed) closeGap(ctx context.Context, g gap) {
	w := b.s.w
	for len(g.entries) > 0 {
		w.metrics.resubmissions.Inc()
		encoded, sections := b.encodeGap(g)
		result, err := again(ctx, func() (*commit.Result, error) { return w.cfg.Committer.Commit(ctx, encoded, time.Time{}) })
		if err == nil {
			err = statusError(result.Status)
		}
		if err == nil && len(result.Sections) != len(sections) {
			err = fmt.Errorf("%w: the result does not fit", ErrUnknownOutcome)
		}
		if err == nil {
			g.entries = nil
			for i, members := range sections {
				g.entries = append(g.entries, b.settleSection(&result.Sections[i], members, false)...)
			}
		}
		if err != nil || len(g.entries) > 0 && wait.For(ctx, gapPause) != nil {
			b.failGap(g, gapError(b.s.ctx, err))
			return
		}
	}
}

// gapError is what batches end with whose gap did not close. They are idempotent: trying again is safe whatever
// became of the last resubmission.
func gapError(session context.Context, err error) error {
	if session.Err() != nil || errors.Is(err, ErrSessionClosed) || errors.Is(err, client.ErrSessionClosed) {
		return ErrSessionClosed
	}
	return ErrGap
}

func (b *sealed) failGap(g gap, err error) {
	for _, i := range g.entries {
		b.s.w.metrics.gaps.Inc()
		b.s.w.resolve(b.entries[i].owner, b.entries[i].index, Failed(err))
	}
}

// encodeGap encodes the gap's batches, one section per stretch that is adjacent in the object, and gives each
// section's entries.
func (b *sealed) encodeGap(g gap) (encoded []byte, sections [][]int32) {
	var c commit.Builder
	b.s.mu.Lock()
	acked := b.s.mu.acked
	b.s.mu.Unlock()
	c.Reset(commit.Header{Submission: b.name(), Acked: acked, Bytes: b.size, Resubmit: true})
	before := int32(-1)
	for _, i := range g.entries {
		if before < 0 || b.entries[before].next != i {
			c.Section(commit.Section{Partition: g.partition, Position: b.entries[i].position})
			sections = append(sections, nil)
		}
		c.Batch(b.entries[i].meta)
		sections[len(sections)-1] = append(sections[len(sections)-1], i)
		before = i
	}
	return c.AppendTo(nil), sections
}

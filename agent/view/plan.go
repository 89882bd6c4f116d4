package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// ErrUnsettled says that the windows changed under the plan again and again; the caller may try anew.
var ErrUnsettled = errors.New("partition views keep changing")

// maxRounds bounds the look-ups of one Plan call; more than two need disconnects in between.
const maxRounds = 5

// Want asks to read one partition from Offset on.
type Want struct {
	Partition id.TopicPartition
	Offset    int64
}

// Plan says what there is to read, as of one log index.
type Plan struct {
	// Unknown: there was no such topic or partition when asked. Nothing else is set then, except AsOf.
	Unknown bool
	Marks   Watermarks
	// Extents are contiguous and begin with the one that holds the wanted offset; they need not reach the high
	// watermark. None if the offset is outside [log start, high watermark). Not to be changed.
	Extents []extent.Extent
	// Live: the extents come from the window at the live edge; others are catch-up reads.
	Live bool
	// AsOf: the plan holds everything committed before this time (I4).
	AsOf time.Time
}

// FreshFor tells whether the plan is no older than a request that arrived then, so that an absence, an end or an
// emptiness in it may be answered (I4).
func (p Plan) FreshFor(arrived time.Time) bool { return !p.AsOf.Before(arrived) }

// Plan fills plans, one per want in order, from the windows where they reach and else from one look-up for all the
// rest, which also subscribes. A partition wanted twice is planned twice. The error is the look-up's, or
// ErrUnsettled; the plans say nothing then.
func (p *Partitions) Plan(ctx context.Context, wants []Want, plans []Plan) error {
	todo := make([]int, 0, len(wants))
	for i := range wants {
		todo = append(todo, i)
	}
	for range maxRounds {
		r := round{set: p, wants: wants, plans: plans}
		for _, i := range todo {
			r.plan(i)
		}
		if len(r.ask) == 0 && len(r.again) == 0 {
			return nil
		}
		if err := r.lookup(ctx); err != nil {
			return err
		}
		if err := r.await(ctx); err != nil {
			return err
		}
		if todo = r.again; len(todo) == 0 {
			return nil
		}
	}
	return ErrUnsettled
}

// round is one pass over what is not planned yet.
type round struct {
	set    *Partitions
	wants  []Want
	plans  []Plan
	ask    []question
	others []<-chan struct{} // look-ups of others under way
	again  []int             // wants to plan again after those
}

// question is one partition of the round's look-up.
type question struct {
	want      int
	part      *partition
	subscribe bool // the partition is in state filling, to be ended by this round
}

// plan plans one want from what is known, or notes what to ask.
func (r *round) plan(i int) {
	want := &r.wants[i]
	// Read before the marks: what it confirms is then in them.
	confirmed := r.set.confirmedAt()
	part, bounded := r.set.partition(want.Partition)
	if bounded {
		r.ask = append(r.ask, question{want: i})
		return
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	part.mu.used = time.Now()
	switch part.mu.state {
	case absent:
		part.mu.state = filling
		part.mu.done = make(chan struct{})
		r.ask = append(r.ask, question{want: i, part: part, subscribe: true})
	case live:
		if !part.plan(want.Offset, confirmed, &r.plans[i]) {
			r.ask = append(r.ask, question{want: i, part: part})
		}
	case filling, leaving:
		r.others = append(r.others, part.mu.done)
		r.again = append(r.again, i)
	case gone:
		r.again = append(r.again, i)
	}
}

// plan plans from a live window; it reports whether it reaches the offset.
func (p *partition) plan(offset int64, confirmed time.Time, plan *Plan) bool {
	*plan = Plan{Marks: p.mu.marks, AsOf: p.mu.asked, Live: true}
	if confirmed.After(plan.AsOf) {
		plan.AsOf = confirmed
	}
	switch {
	case offset < p.mu.marks.LogStart || offset >= p.mu.marks.HighWatermark:
		return true
	case offset >= p.start():
		plan.Extents = from(p.mu.window, offset)
		return true
	}
	plan.Live = false
	plan.Extents = p.behind(offset)
	return plan.Extents != nil
}

// lookup asks the round's questions in one message and plans from the answers.
func (r *round) lookup(ctx context.Context) error {
	if len(r.ask) == 0 {
		return nil
	}
	set := r.set
	set.metrics.lookups.Inc()
	set.metrics.looked.Add(float64(len(r.ask)))
	asked, generation := time.Now(), set.generation.Load()
	answer, err := set.cfg.Source.Lookup(ctx, r.questions())
	if err == nil && len(answer.GetPartitions()) != len(r.ask) {
		err = fmt.Errorf("look-up of %d partitions answered for %d", len(r.ask), len(answer.GetPartitions()))
	}
	if err != nil {
		for _, q := range r.ask {
			set.settle(q, generation, asked, 0, nil, nil)
		}
		return fmt.Errorf("look up partitions: %w", err)
	}
	for i, q := range r.ask {
		a := answer.GetPartitions()[i]
		exts, perr := ParseExtents(a.GetExtents())
		if perr != nil {
			err = errors.Join(err, fmt.Errorf("parse extents of look-up: %w", perr))
			set.settle(q, generation, asked, 0, nil, nil)
			continue
		}
		set.settle(q, generation, asked, answer.GetIndex(), a, exts)
		r.plans[q.want] = planOf(r.wants[q.want].Offset, asked, a, exts)
	}
	return err
}

func (r *round) questions() []*api.PartitionLookup {
	out := make([]*api.PartitionLookup, len(r.ask))
	for i, q := range r.ask {
		want := &r.wants[q.want]
		out[i] = &api.PartitionLookup{
			Topic:      want.Partition.Topic[:],
			Partition:  want.Partition.Partition,
			Want:       &api.PartitionLookup_ExtentsFrom{ExtentsFrom: want.Offset},
			MaxExtents: uint32(r.set.cfg.LookupExtents),
			MaxBytes:   uint64(r.set.cfg.LookupBytes),
			Subscribe:  q.subscribe,
		}
	}
	return out
}

// planOf makes a plan of a look-up's answer.
func planOf(offset int64, asked time.Time, a *api.PartitionAnswer, exts []extent.Extent) Plan {
	if a.GetUnknown() {
		return Plan{Unknown: true, AsOf: asked}
	}
	plan := Plan{Marks: marksOf(a), AsOf: asked, Live: !a.GetMore()}
	if offset >= plan.Marks.LogStart && offset < plan.Marks.HighWatermark {
		plan.Extents = from(exts, offset)
	}
	return plan
}

func marksOf(a *api.PartitionAnswer) Watermarks {
	return Watermarks{
		LogStart: a.GetLogStart(), HighWatermark: a.GetHighWatermark(), LastStable: a.GetLastStable(),
	}
}

// settle ends a question: with an answer the partition goes live (or remembers a run), without one it is absent
// again. An answer by a stream that broke since is no subscription.
func (p *Partitions) settle(q question, generation uint64, asked time.Time, index uint64, a *api.PartitionAnswer,
	exts []extent.Extent,
) {
	if q.part == nil {
		return
	}
	q.part.mu.Lock()
	defer q.part.mu.Unlock()
	if !q.subscribe {
		if a != nil && q.part.mu.state == live && p.generation.Load() == generation && !a.GetUnknown() {
			q.part.keepRun(exts, p.cfg.MaxExtents)
		}
		return
	}
	pending, indexes := q.part.mu.pending, q.part.mu.indexes
	q.part.mu.pending, q.part.mu.indexes = nil, nil
	q.part.mu.state = absent
	close(q.part.mu.done)
	if a == nil || a.GetUnknown() || p.generation.Load() != generation || len(pending) >= maxPending {
		return
	}
	q.part.open(index, asked, marksOf(a), exts, a.GetMore(), &p.cfg)
	q.part.mu.state = live
	for i, n := range pending {
		p.apply(q.part, indexes[i], n)
	}
}

// apply gives a live partition one notice, and voids it where that does not fit.
func (p *Partitions) apply(part *partition, index uint64, n *api.PartitionNotice) {
	if part.mu.state != live {
		return
	}
	if err := part.notice(index, n, &p.cfg, p.metrics); err != nil {
		p.metrics.gaps.Inc()
		p.cfg.Log.Warn("partition window dropped", zap.Stringer("partition", part.tp), zap.Uint64("index", index),
			zap.Error(err))
		part.mu.state = absent
		part.void()
	}
}

// await waits for look-ups of others, whose results are then planned from.
func (r *round) await(ctx context.Context) error {
	for _, done := range r.others {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("await look-up: %w", context.Cause(ctx))
		}
	}
	return nil
}

// PlanAnew fills plans from one look-up, whatever is known: for answers that must be fresh when no probe comes back
// (I4). It subscribes to nothing.
func (p *Partitions) PlanAnew(ctx context.Context, wants []Want, plans []Plan) error {
	r := round{set: p, wants: wants, plans: plans}
	for i := range wants {
		r.ask = append(r.ask, question{want: i})
	}
	return r.lookup(ctx)
}

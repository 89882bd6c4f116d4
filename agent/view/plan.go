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
	Committed bool // read no further than the last stable offset (isolation level read_committed)
}

// Plan says what there is to read, as of one log index.
type Plan struct {
	// Unknown: there was no such topic or partition when asked. Nothing else is set then, except AsOf.
	Unknown bool
	// Away: the owner could not be asked, and nothing is known. Nothing else is set then.
	Away bool
	// Stale: the plan is of a time before the session stream broke. It has extents, and they are what is there to read
	// below End; the marks say nothing of now.
	Stale bool
	Marks Watermarks
	// End is the first offset that is not to be read: the high watermark, or what of the last stable offset Aborted
	// covers.
	End int64
	// Extents are contiguous and begin with the one that holds the wanted offset; they need not reach End, and may go
	// beyond. None if the offset is outside [log start, End). Not to be changed.
	Extents []extent.Extent
	// Aborted are the aborted transactions whose marker is at or above the wanted offset, in the order of markers: all
	// that reach into the extents below End. Only where committed records are wanted. Not to be changed.
	Aborted []extent.Aborted
	// Live: the extents come from the window at the live edge; others are catch-up reads.
	Live bool
	// AsOf: the plan holds everything committed before this time (I4). Zero if it is stale.
	AsOf time.Time
}

// FreshFor tells whether the plan is no older than a request that arrived then, so that an absence, an end or an
// emptiness in it may be answered (I4).
func (p Plan) FreshFor(arrived time.Time) bool { return !p.AsOf.Before(arrived) }

// Limit is the first offset that is not readable as of these marks.
func (w Watermarks) Limit(committed bool) int64 {
	if committed {
		return w.LastStable
	}
	return w.HighWatermark
}

// Plan fills plans, one per want in order, from the windows where they reach and else from one look-up for all the
// rest, which also subscribes. A partition wanted twice is planned twice. Where the owner cannot be asked, records that
// were known before are planned (Stale), and partitions without any are Away; if there are none at all, the error is
// the look-up's, or ErrUnsettled, and the plans say nothing.
func (p *Partitions) Plan(ctx context.Context, wants []Want, plans []Plan) error {
	if !p.connected.Load() && p.planKnown(wants, plans) {
		return nil
	}
	err := p.planAll(ctx, wants, plans)
	if err != nil && p.planKnown(wants, plans) {
		return nil
	}
	return err
}

func (p *Partitions) planAll(ctx context.Context, wants []Want, plans []Plan) error {
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

// behind tells whether there is a window, which the wanted offset lies behind.
func (q *question) behind() bool { return q.part != nil && !q.subscribe }

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
		if !part.planLive(want, confirmed, &r.plans[i]) {
			r.ask = append(r.ask, question{want: i, part: part})
		}
	case filling, leaving:
		r.others = append(r.others, part.mu.done)
		r.again = append(r.again, i)
	case gone:
		r.again = append(r.again, i)
	}
}

// planLive plans from a live window; it reports whether what is known reaches the offset.
func (p *partition) planLive(w *Want, confirmed time.Time, plan *Plan) bool {
	if !p.plan(w, plan) {
		return false
	}
	plan.AsOf = p.mu.asked
	if confirmed.After(plan.AsOf) {
		plan.AsOf = confirmed
	}
	return true
}

// plan plans from what is known; it reports whether that reaches the offset.
func (p *partition) plan(w *Want, plan *Plan) bool {
	*plan = Plan{Marks: p.mu.marks, End: p.mu.marks.Limit(w.Committed), Live: true}
	aborted := p.mu.aborted
	switch {
	case w.Offset < plan.Marks.LogStart || w.Offset >= plan.End:
		return true
	case w.Offset >= p.start():
		plan.Extents = from(p.mu.window, w.Offset)
	default:
		r := p.behind(w.Offset, w.Committed)
		if r == nil {
			return false
		}
		plan.Live, plan.Extents, aborted = false, from(r.extents, w.Offset), r.aborted
		if w.Committed {
			plan.End = min(plan.End, r.stable)
		}
	}
	if w.Committed {
		plan.Aborted = reaching(aborted, w.Offset)
	}
	return true
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
	reply, err := set.cfg.Source.Lookup(ctx, r.questions())
	if err == nil && len(reply.GetPartitions()) != len(r.ask) {
		err = fmt.Errorf("look-up of %d partitions answered for %d", len(r.ask), len(reply.GetPartitions()))
	}
	if err != nil {
		for _, q := range r.ask {
			set.settle(q, generation, asked, 0, nil)
		}
		return fmt.Errorf("look up partitions: %w", err)
	}
	for i, q := range r.ask {
		a, perr := parseAnswer(reply.GetPartitions()[i])
		if perr != nil {
			err = errors.Join(err, fmt.Errorf("parse look-up: %w", perr))
		}
		set.settle(q, generation, asked, reply.GetIndex(), a)
		if a != nil {
			r.plans[q.want] = planOf(&r.wants[q.want], asked, a, q.behind())
		}
	}
	return err
}

const (
	// lookupBytes bounds the record bytes of one partition in one look-up's answer.
	lookupBytes = 32 << 20
	// behindBytes is lookupBytes for readers that go on through history: so far as read-ahead knows its way.
	behindBytes = 256 << 20
)

func (r *round) questions() []*api.PartitionLookup {
	out := make([]*api.PartitionLookup, len(r.ask))
	for i, q := range r.ask {
		want, bytes := &r.wants[q.want], int64(lookupBytes)
		if q.behind() {
			bytes = behindBytes
		}
		out[i] = &api.PartitionLookup{
			Topic:      want.Partition.Topic[:],
			Partition:  want.Partition.Partition,
			Want:       &api.PartitionLookup_ExtentsFrom{ExtentsFrom: want.Offset},
			MaxExtents: uint32(r.set.cfg.LookupExtents),
			MaxBytes:   uint64(bytes),
			Subscribe:  q.subscribe,
		}
	}
	return out
}

// planOf makes a plan of a look-up's answer.
func planOf(w *Want, asked time.Time, a *answer, behind bool) Plan {
	if a.unknown {
		return Plan{Unknown: true, AsOf: asked}
	}
	plan := Plan{Marks: a.marks, End: a.marks.Limit(w.Committed), AsOf: asked, Live: !a.more && !behind}
	if w.Offset < plan.Marks.LogStart || w.Offset >= plan.End {
		return plan
	}
	plan.Extents = from(a.extents, w.Offset)
	if w.Committed {
		plan.Aborted = reaching(a.aborted, w.Offset)
	}
	return plan
}

// settle ends a question: with an answer the partition goes live (or remembers a run), without one it is absent
// again. An answer by a stream that broke since is no subscription.
func (p *Partitions) settle(q question, generation uint64, asked time.Time, index uint64, a *answer) {
	if q.part == nil {
		return
	}
	q.part.mu.Lock()
	defer q.part.mu.Unlock()
	if !q.subscribe {
		if a != nil && q.part.mu.state == live && p.generation.Load() == generation && !a.unknown {
			q.part.keepRun(a.run, p.cfg.MaxExtents)
		}
		return
	}
	pending, indexes := q.part.mu.pending, q.part.mu.indexes
	q.part.mu.pending, q.part.mu.indexes = nil, nil
	q.part.mu.state = absent
	close(q.part.mu.done)
	if a != nil && a.unknown {
		q.part.void() // what was known of it is no more
	}
	if a == nil || a.unknown || p.generation.Load() != generation || len(pending) >= maxPending {
		return
	}
	q.part.open(index, asked, a, &p.cfg)
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

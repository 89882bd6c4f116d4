package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// group is the proposals of one log entry, or of a span of entries.
type group struct {
	proposals []*Proposal
	batch     metadata.Batch
	index     uint64 // of its last entry
	began     time.Time
}

// errStopped is returned when the owner's context ended between appends.
var errStopped = errors.New("owner stopped")

// appendGroups is the append loop. It returns errStopped when ctx ended, else the error that ends the tenure.
func (o *Owner) appendGroups(ctx context.Context, groups chan<- *group) error {
	appendCtx, cancel := o.drainable(ctx)
	defer cancel()
	for {
		proposals, err := o.nextProposals(ctx)
		if err != nil {
			return err
		}
		g, err := o.append(appendCtx, proposals)
		if err != nil {
			o.failGroup(proposals, err)
			return err
		}
		groups <- g
	}
}

// drainTimeout is the time that the append under way has left once the context of Run ended.
const drainTimeout = 2 * time.Second

// drainable returns the context of appends, which ends drainTimeout after ctx.
func (o *Owner) drainable(ctx context.Context) (context.Context, context.CancelFunc) {
	appendCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(drainTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-appendCtx.Done():
		}
	})
	return appendCtx, func() {
		stop()
		cancel()
	}
}

// nextProposals waits for proposals, then for the delay of the log budget, and returns the next group.
func (o *Owner) nextProposals(ctx context.Context) ([]*Proposal, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, errStopped
		case <-o.cfg.Tenure.Lost():
			return nil, metalog.ErrFenced
		case <-o.queue.wake:
		}
		if err := o.holdBack(ctx); err != nil {
			o.queue.signal()
			return nil, err
		}
		if ps := o.take(); len(ps) > 0 {
			return ps, nil
		}
	}
}

// take returns the next group of the queue without the refused proposals, or nil if the queue is empty. If a whole group is refused, take
// goes on with the next one without another delay.
func (o *Owner) take() []*Proposal {
	for {
		ps := o.queue.take(nil, o.cfg.GroupBytes, o.cfg.GroupCommands)
		if len(ps) == 0 {
			return nil
		}
		if kept := o.refuseIfFull(ps); len(kept) > 0 {
			return kept
		}
	}
}

func (o *Owner) holdBack(ctx context.Context) error {
	if ctx.Err() != nil {
		return errStopped
	}
	if !o.cfg.Tenure.Valid() {
		return metalog.ErrFenced
	}
	d := o.delay()
	if d == 0 {
		return nil
	}
	o.metrics.delayed.Add(d.Seconds())
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errStopped
	case <-o.cfg.Tenure.Lost():
		return metalog.ErrFenced
	case <-timer.C:
		return nil
	}
}

// refuseIfFull fails the proposals of a group for which the log or Config.ReserveRoom has no room. While groups are delayed, it also fails proposals
// older than Config.MaxWait. It never fails urgent commands. It returns the proposals that are left.
func (o *Owner) refuseIfFull(ps []*Proposal) []*Proposal {
	room, delayed := 0, o.delay() > 0
	if !o.logFull() {
		room = o.reserveRoom(ps)
	}
	if room == len(ps) && !delayed {
		return ps
	}
	var kept, refused []*Proposal
	for i, p := range ps {
		if urgent(p.cmd) || i < room && (!delayed || time.Since(p.came) <= o.cfg.MaxWait) {
			kept = append(kept, p)
			continue
		}
		p.fail(metalog.ErrLogFull)
		refused = append(refused, p)
	}
	o.metrics.refused.Add(float64(len(refused)))
	o.queue.release(refused)
	if len(kept) == 0 {
		o.endReservation()
	}
	return kept
}

// SmallGroupBytes is the size of the first commands of a group for which the owner asks Config.ReserveRoom again if the whole group has no room.
const SmallGroupBytes = 64 << 10

// reserveRoom reserves room for a group in the store of logs until endReservation, and returns the number of its first commands that have room. A
// large command must not keep out the small ones that came before it.
func (o *Owner) reserveRoom(ps []*Proposal) (count int) {
	all, small := 0, 0
	for _, p := range ps {
		if all += p.size; all <= SmallGroupBytes {
			count, small = count+1, all
		}
	}
	var ok bool
	if o.reserved, ok = o.cfg.ReserveRoom(int64(all)); ok {
		return len(ps)
	}
	if count == 0 || count == len(ps) {
		return 0
	}
	if o.reserved, ok = o.cfg.ReserveRoom(int64(small)); !ok {
		return 0
	}
	return count
}

// endReservation ends the reservation of a group, if it has one: a group of urgent commands is appended without room too.
func (o *Owner) endReservation() {
	if o.reserved != nil {
		o.reserved()
		o.reserved = nil
	}
}

// append makes the proposals durable as one batch.
func (o *Owner) append(ctx context.Context, proposals []*Proposal) (*group, error) {
	g := &group{proposals: proposals, began: time.Now()}
	g.batch.Now = o.time()
	g.batch.Commands = make([]metadata.Command, len(proposals))
	for i, p := range proposals {
		g.batch.Commands[i] = p.cmd
	}
	o.scratch = metadata.AppendBatch(o.scratch[:0], &g.batch)
	defer o.endReservation()
	last, err := o.cfg.Tenure.Append(ctx, o.next, o.scratch)
	if err != nil {
		return nil, err
	}
	o.metrics.groupBytes.Observe(float64(len(o.scratch)))
	o.metrics.groupCommands.Observe(float64(len(proposals)))
	if cap(o.scratch) > 4*o.cfg.GroupBytes { // one huge command must not hold its memory for ever
		o.scratch = nil
	}
	g.index, o.next = last, last+1
	return g, nil
}

func (o *Owner) failGroup(proposals []*Proposal, err error) {
	for _, p := range proposals {
		p.fail(&OutcomeUnknownError{Err: fmt.Errorf("%w: %w", ErrNotOwner, err)})
	}
	o.queue.release(proposals)
}

// apply applies a group to the state, calls the hooks, then answers the proposals.
func (o *Owner) apply(g *group, fx *metadata.Effects) {
	fx.Reset()
	results := o.applyLocked(g, fx)
	for _, hook := range o.hooks {
		hook(o.state, g.index, fx)
	}
	o.queue.release(g.proposals)
	for i, p := range g.proposals {
		p.succeed(results[i], g.index)
	}
	o.metrics.groupSeconds.Observe(time.Since(g.began).Seconds())
}

func (o *Owner) applyLocked(g *group, fx *metadata.Effects) []metadata.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	results := o.state.Apply(g.index, &g.batch, fx, make([]metadata.Result, 0, len(g.proposals)))
	o.logged = g.batch.Now
	Observe(o.state, g.index, fx, o.cfg.Marked, o.cfg.Checked)
	o.weigh()
	return results
}

// Observe handles the CheckHash commands of one applied entry, on the owner and on followers. It calls marked with a snapshot of the state
// after the entry, and checked with the hash of an earlier one.
func Observe(
	s *metadata.State, index uint64, fx *metadata.Effects,
	marked func(uint64, *metadata.State), checked func(metadata.CheckHash),
) {
	for _, c := range fx.Checks {
		if c.Index == 0 {
			marked(index, s.Snapshot())
		} else {
			checked(c)
		}
	}
}

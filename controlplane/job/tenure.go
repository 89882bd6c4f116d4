package job

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Tenure plans for the length of one ownership (session.Jobs).
type Tenure struct {
	settings   Settings
	maxExtents int64
	log        *zap.Logger
	metrics    *metrics
	owner      Owner
	runners    Runners
	looks      periodic.Loop // woken when there may be something to start, or for cuts
	kicked     atomic.Bool   // there may be something to start
	resting    atomic.Bool   // rounds are rare until the next change of the state

	cuts chan *cut     // operators' calls, taken by looks
	over chan struct{} // closed after the last call of looks: calls in cuts are not taken any more

	// Of looks alone.
	storeTime storeClock
	frontiers *frontiers
	judged    map[id.Bundle]bool // bundles of level 1: whether their long extents are final
	left      int64              // extents that level 1 left, as of the last round
	turns     uint64
	planned   uint64                // index of the newest round
	quiet     int                   // newest rounds in a row in which the state was as before and nothing was to be done
	served    [classes]uint64       // the turn at which a class was served last
	given     map[id.Session]uint64 // the turn at which a runner was last given a job
	// vacant are live bundles of which no partition has an extent, and until when they are passed over: one forgotten would
	// hide those behind it, so there is no bound but that of live bundles.
	vacant map[id.Bundle]time.Time
	hidden bool // the last round found vacant bundles: there may be many more before those to be compacted

	reclaims reclaims

	mu struct {
		sync.Mutex
		leases   map[id.Session]*lease
		setbacks *setbacks
		history  []endedJob // oldest first, at most maxHistory
	}
}

// Applied is an apply hook of the owner. It ends the rest of a quiet virtual cluster.
func (t *Tenure) Applied(*metadata.State, uint64, *metadata.Effects) {
	if t.resting.CompareAndSwap(true, false) {
		t.wake()
	}
}

// rests reports whether rounds may be rare until Applied: the state has been the same for some rounds, and they had nothing to do.
func (t *Tenure) rests() bool {
	if t.quiet < quietRounds {
		return false
	}
	t.resting.Store(true)
	index, err := t.owner.Read(func(*metadata.State) {})
	return err == nil && index == t.planned && t.resting.Load() // else Applied came before it could see the rest
}

// wake has a round begin soon.
func (t *Tenure) wake() {
	t.kicked.Store(true)
	t.looks.Wake()
}

// Start implements session.Jobs: it plans, hands out and watches leases until ctx ends. Failures are logged and tried again
// in the next round.
func (t *Tenure) Start(ctx context.Context) (wait func()) {
	pause := min(minPause, t.settings.Interval)
	check := min(leaseCheck, t.settings.Interval)
	next := time.Now().Add(pause)
	soonest := next
	t.looks.Start(ctx, check, func(ctx context.Context) time.Duration {
		select {
		case c := <-t.cuts:
			t.cut(ctx, c)
		default:
		}
		if t.kicked.Swap(false) && soonest.Before(next) {
			next = soonest
		}
		t.expire(ctx)
		t.show()
		began := time.Now()
		if t.settings.Off || began.Before(next) {
			return t.rest(check, next)
		}
		if err := t.round(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, owner.ErrNotOwner) {
			t.log.Warn("planning of background jobs failed, it is tried again", zap.Error(err))
		}
		took := time.Since(began)
		t.metrics.rounds.Observe(took.Seconds())
		soonest = time.Now().Add(max(pause, load*took))
		next = began.Add(max(t.settings.Interval, load*took))
		if t.rests() {
			next = began.Add(max(t.settings.Interval, quietPause))
		}
		return t.rest(check, next)
	})
	return func() {
		t.looks.Wait()
		close(t.over)
		t.metrics.clear()
	}
}

// rest returns the pause before the next look: until the next round while there is no lease.
func (t *Tenure) rest(check time.Duration, next time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.mu.leases) > 0:
		return check
	case t.settings.Off:
		return t.settings.Interval
	}
	return max(check, time.Until(next))
}

// round plans on a frozen state and starts what it came to.
func (t *Tenure) round(ctx context.Context) error {
	var p plans
	index, err := t.owner.ReadFrozen(func(s *metadata.State) { p = t.plan(ctx, s) })
	if err != nil {
		return err
	}
	if t.quiet++; index != t.planned || len(p.orders) > 0 || len(p.vacant) > 0 {
		t.quiet = 0
	}
	t.planned = index
	for _, l := range p.ended {
		t.failed(l, abortedBySession, "the session of its runner was closed")
	}
	for _, l := range p.lost {
		t.cancelled(l, "the state ended it: its topic or the topic's configs changed")
	}
	for _, b := range p.vacant {
		t.vacant[b] = time.Now().Add(vacantPause)
	}
	if t.hidden = len(p.vacant) > 0; t.hidden {
		t.wake() // others wait behind them
	}
	for i := range p.orders {
		if _, err := t.handOut(ctx, &p.orders[i]); err != nil {
			return err
		}
		p.orders[i] = order{} // a plan takes memory
	}
	return nil
}

// expire aborts the jobs of runners that were silent, or made no progress, for too long.
func (t *Tenure) expire(ctx context.Context) {
	overdue := t.overdue(time.Now())
	for _, n := range slices.Sorted(maps.Keys(overdue)) {
		how := overdue[n]
		proposing, cancel := context.WithTimeout(ctx, proposeTimeout)
		err := t.abort(proposing, n)
		cancel()
		if err != nil {
			return // it is tried again
		}
		t.mu.Lock()
		l := t.mu.leases[n]
		t.mu.Unlock()
		if l == nil {
			continue // it has come to an end meanwhile
		}
		reason := "its runner was silent"
		if how == abortedByStall {
			reason = "its runner made no progress"
		}
		t.failed(l, how, reason)
		t.runners.Cancel(l.Runner, n)
	}
}

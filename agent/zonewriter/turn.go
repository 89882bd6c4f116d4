package zonewriter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/id"
)

// Bounds of the pause between attempts to reach a writer.
const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Run turns to the writer that is wanted until ctx ends, and then lets the stream go: what is on its way gets a
// retriable error; call Drain first to lose nothing.
func (r *Route) Run(ctx context.Context) error {
	defer r.tasks.Wait()
	var now *link // what the route uses, unless it broke
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = retryMin, retryMax
	for ctx.Err() == nil {
		want, pause := r.wanted(), time.Duration(0)
		switch {
		case want == sessionOf(now) && (now == nil || r.usable(now)):
			pauses.Reset()
		case want == 0 || now != nil:
			if err := r.leave(ctx, now); err != nil {
				return nil // ctx ended
			}
			now = nil
			if want != 0 {
				pause = pauses.NextBackOff() // it broke, or is draining
			}
		default:
			l, err := r.connect(ctx, want)
			if err == nil {
				err = r.turn(ctx, l, time.Now())
			}
			if err != nil {
				pause = pauses.NextBackOff()
				break
			}
			now = l
			continue
		}
		r.wait(ctx, now, pause)
	}
	return nil
}

func sessionOf(l *link) id.Session {
	if l == nil {
		return 0
	}
	return l.session
}

// usable tells whether the stream stands and its writer takes batches.
func (r *Route) usable(l *link) bool {
	select {
	case <-l.draining:
		return false
	default:
		return l.alive() && (!l.unfit.Load() || !r.cfg.Fit())
	}
}

// wait returns when there may be something to do: at the latest after pause, if that is above 0.
func (r *Route) wait(ctx context.Context, now *link, pause time.Duration) {
	var broken, draining, again <-chan struct{}
	if now != nil {
		broken, draining = now.broken, now.draining
	}
	if pause > 0 {
		timed, cancel := context.WithTimeout(ctx, pause)
		defer cancel()
		again = timed.Done()
	}
	select {
	case <-ctx.Done():
	case <-r.changed:
	case <-broken:
	case <-draining:
	case <-again:
	}
}

// connect opens a stream to another agent that takes batches.
func (r *Route) connect(ctx context.Context, to id.Session) (*link, error) {
	l, err := r.open(ctx, to)
	if err != nil && ctx.Err() == nil {
		r.metrics.failures.Inc()
		if r.unreached.to != to || time.Since(r.unreached.said) >= sayEvery {
			r.unreached.to, r.unreached.said = to, time.Now()
			r.log.Info("the zone's writer cannot be reached; this agent writes itself", nameOf(to, r.cfg.Address), zap.Error(err))
		}
	}
	return l, err
}

// sayEvery is how often it is said that a writer cannot be reached.
const sayEvery = 10 * time.Second

func (r *Route) open(ctx context.Context, to id.Session) (*link, error) {
	conn, in, err := r.cfg.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	l := newLink(to, conn, in, r.cfg.Silence, r.poke)
	stop := context.AfterFunc(ctx, func() { l.fail(ctx.Err()) })
	name := nameOf(to, r.cfg.Address) // it may have left the membership when the stream ends
	r.tasks.Go(func() {
		defer stop()
		err := l.run()
		if l.used.Load() && !errors.Is(err, errTurned) && ctx.Err() == nil {
			r.metrics.failures.Inc()
			r.log.Warn("stream to the zone's writer is lost; this agent writes itself", name, zap.Error(err))
		}
	})
	select {
	case <-l.first:
	case <-l.broken:
		return nil, l.failure()
	case <-time.After(r.cfg.Silence):
		l.fail(errNoBeat)
		return nil, l.failure()
	}
	if !r.usable(l) {
		l.fail(errUnfit)
		return nil, errUnfit
	}
	return l, nil
}

// errNoBeat is the failure of a stream whose writer sends signs of life, and no beat.
var errNoBeat = fmt.Errorf("%w: no beat", errProtocol)

// errUnfit: the zone's writer says that it does not reach the object store or the owner.
var errUnfit = errors.New("the zone's writer is cut off")

var errTurned = errors.New("turned to another writer")

// turn has all that comes from now on handed to l, nil being the agent's own writer, once what went before is settled. What
// another agent has after Patience, counted from began, and has not handed in for commit, it gives back; what is handed in
// and no sequence number keeps in order is waited for.
func (r *Route) turn(ctx context.Context, l *link, began time.Time) error {
	if err := r.intake.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait to turn to another writer: %w", err)
	}
	defer r.intake.Release(1)
	if l == r.link {
		return nil
	}
	if err := r.empty(ctx, began); err != nil {
		if l != nil {
			l.fail(err)
		}
		return fmt.Errorf("wait to turn to another writer: %w", err)
	}
	r.metrics.turnSeconds.Observe(time.Since(began).Seconds())
	r.use(l)
	return nil
}

// empty waits until nothing is under way that what follows could overtake. Called with the intake held.
func (r *Route) empty(ctx context.Context, began time.Time) error {
	if r.link != nil {
		r.link.flush()
	} else {
		r.cfg.Own.Flush()
	}
	all, err := r.lane.settle(ctx, r.cfg.Patience-time.Since(began))
	if err != nil || all {
		return err
	}
	if r.link != nil {
		r.link.leave() // no batch may follow the withdrawal
		r.link.withdraw()
	}
	return r.lane.settlePlain(ctx)
}

// leave turns to the agent's own writer.
func (r *Route) leave(ctx context.Context, from *link) error {
	if from != nil {
		r.tasks.Go(func() { r.hurry(from) })
	}
	return r.turn(ctx, nil, time.Now())
}

// hurry sees to it that a stream that is left ends, whatever its writer does: after Patience nobody waits for it to take
// something in; soon after that nobody waits for what sequence numbers keep in order, and it is given up if its writer's
// session is closed, since what such a session has not committed it never will (I9), but not if its writer is hidden or
// drains; and after leaveTimeout in any case.
func (r *Route) hurry(from *link) {
	began, tick := time.Now(), time.NewTicker(hurryEvery)
	defer tick.Stop()
	for {
		select {
		case <-from.broken:
			return
		case <-tick.C:
		}
		took := time.Since(began)
		if took < r.cfg.Patience {
			continue
		}
		from.leave()
		if took < r.cfg.Patience+lastResults {
			continue
		}
		if took >= leaveTimeout || !r.cfg.Open(from.session) {
			from.fail(errStuck)
			return
		}
		from.loseSequenced()
	}
}

const (
	// hurryEvery is how often a stream that is left is looked at.
	hurryEvery = 100 * time.Millisecond
	// leaveTimeout is the longest that a stream is kept that is left. An agent that the owner hears nothing of has lost
	// its session by then; one that hears nothing of the owner has had its commits settled.
	leaveTimeout = 5 * time.Second
)

var errStuck = errors.New("the zone's writer settles nothing")

// use changes the writer. Called with the intake held.
func (r *Route) use(l *link) {
	if r.link != nil {
		r.retire(r.link, r.lane)
	}
	r.link, r.lane = l, new(lane)
	r.handsOver.Store(l != nil)
	if l == nil {
		r.metrics.turns.WithLabelValues(handedOwn).Inc()
		r.log.Info("this agent writes its batches itself")
		return
	}
	l.used.Store(true)
	r.metrics.turns.WithLabelValues(handedOther).Inc()
	r.log.Info("batches go to another agent of the zone", nameOf(l.session, r.cfg.Address))
}

// retire lets the stream go when what is still on its way, if anything, is settled; leaveTimeout bounds that.
func (r *Route) retire(l *link, on *lane) {
	r.tasks.Go(func() {
		_, _ = on.settle(context.Background(), leaveTimeout) // at once if the stream broke: everything is settled then
		l.fail(errTurned)
	})
}

// Package replica is one virtual cluster on one control-plane replica. It follows the log, so that its state is warm, unless Config.Cold is set.
// When the log has no owner, the replica tries to become the owner. As the owner it runs the state machine (package owner), takes snapshots and
// trims the log; when it is told to end it hands ownership over.
//
// Losing ownership is nothing special: the replica goes on following. What ends it is its context, or knowledge that
// its state or its log is wrong: ErrHashMismatch, ErrWrongOwner, metalog.ErrCorrupt, metalog.ErrAhead, OlderError, or a newer program's:
// metalog.ErrUnsupported, metadata.ErrUnsupported.
package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/snapshot"
)

// ErrHashMismatch: this replica's state differs from the owner's after the same log entry. It must not go on.
var ErrHashMismatch = errors.New("state differs from the owner's")

// Replica is one virtual cluster on one control-plane replica. Its state belongs to Run's goroutine while it follows,
// and to the Owner during a tenure.
type Replica struct {
	cfg     Config
	metrics *metrics
	checker *checker
	clock   *clock
	owner   atomic.Pointer[owner.Owner]
	located atomic.Pointer[location]
	failed  atomic.Pointer[error] // of the last round; nil before it ended
	// clusterID is the state's, nil before it is known.
	clusterID atomic.Pointer[string]

	// end ends the tenure with a cause, nil while there is none.
	end atomic.Pointer[context.CancelCauseFunc]

	former string             // the replica that was the owner last, "" if that is not known
	state  *metadata.State    // nil until loaded
	asm    *metalog.Assembler // where in the log state is
	fx     metadata.Effects
	bad    map[string]bool // names of snapshots that were found corrupt

	encoder func(*metadata.State) snapshot.Encoder // the state itself, but for tests
}

// New returns a replica that has not started.
func New(cfg Config) (*Replica, error) {
	driven := cfg.Owner.Now != nil
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	m := newMetrics(cfg.Registerer)
	r := &Replica{
		cfg: cfg, metrics: m, checker: newChecker(), bad: map[string]bool{},
		clock:   newClock(cfg, m),
		encoder: func(s *metadata.State) snapshot.Encoder { return s },
	}
	if !driven { // the owner's own default is the machine's clock, which may step
		r.cfg.Owner.Now = r.clock.now
	}
	return r, nil
}

// Owner gives the running owner, nil when this replica is not the owner.
func (r *Replica) Owner() *owner.Owner { return r.owner.Load() }

// ClusterID returns the virtual cluster's id, "" while this replica does not know it.
func (r *Replica) ClusterID() string {
	if known := r.clusterID.Load(); known != nil {
		return *known
	}
	if o := r.Owner(); o != nil {
		_, _ = o.Read(func(s *metadata.State) { r.noteClusterID(s) })
	}
	if known := r.clusterID.Load(); known != nil {
		return *known
	}
	if r.cfg.Cold && r.cfg.Log.Ownership().Owned {
		return r.cfg.ClusterID
	}
	return ""
}

// noteClusterID keeps the id of a state that has one. It never changes.
func (r *Replica) noteClusterID(s *metadata.State) {
	if id := s.ClusterID(); id != "" && r.clusterID.Load() == nil {
		r.clusterID.Store(&id)
	}
}

// location is the owner of the log at the time when this replica looked.
type location struct {
	metalog.Status
	at time.Time
}

// locatedLife is how long that is told. A replica that cannot look any more, cut off or stopped, must not lead agents to an
// owner that is gone: a lease's time after it was seen, there may be another.
const locatedLife = 5 * time.Second

func (r *Replica) locatedAt(st metalog.Status) {
	r.located.Store(&location{Status: st, at: time.Now()})
}

// Located returns the owner as this replica last saw it, never longer than locatedLife ago. ok is false if it knows of none. It serves to
// direct agents, not to decide anything. This replica is the owner to others only when it has caught up.
func (r *Replica) Located() (o metalog.Owner, ok bool) {
	if seen := r.cfg.Log.Ownership(); seen.Known && seen.Owner.Replica != r.cfg.Replica {
		return seen.Owner, seen.Owner.Replica != "" // "": a malformed key
	}
	l := r.located.Load()
	if l == nil || !l.Owned || r.owner.Load() == nil && time.Since(l.at) > locatedLife {
		return metalog.Owner{}, false
	}
	return l.Owner, true
}

// Fault tells why this replica makes no progress, nil if it does.
func (r *Replica) Fault() error {
	if err := r.failed.Load(); err != nil && r.owner.Load() == nil {
		return *err
	}
	return nil
}

// ClockWarning returns which clocks differ and by how much, "" if this machine's clock and the object store's do not. A replica with a
// warning may be the owner.
func (r *Replica) ClockWarning() string { return r.clock.warning() }

// MayOwn returns nil if the clocks let this replica become the owner of a log that has entries.
func (r *Replica) MayOwn(ctx context.Context) error { return r.clock.mayOwn(ctx, false) }

const (
	// maxBackoff bounds the pause between failed rounds.
	maxBackoff = 2 * time.Second
	// maxPoll bounds the pause between two rounds of a follower, as a multiple of Config.Poll. The pause doubles while the log does not grow.
	maxPoll = 30
)

// Run follows and owns until ctx ends, then hands over and returns nil.
func (r *Replica) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	measures := r.clock.repeat(ctx, clockPeriod)
	defer func() {
		cancel()
		measures.Wait()
		r.checker.wait()
	}()
	wait, logged := r.cfg.Poll, ""
	for {
		r.rest(ctx)
		before, seen := r.next(), r.cfg.Log.Ownership()
		followed, err := r.round(ctx)
		r.failed.Store(&err)
		switch {
		case ctx.Err() != nil:
			return nil
		case fatal(err) || err != nil && r.cfg.Final(err):
			r.cfg.Logger.Error("replica stops", zap.Error(err))
			return fmt.Errorf("replica %s: %w", r.cfg.Replica, err)
		case err != nil:
			r.metrics.failedRounds.Inc()
			cause := err.Error()
			if errors.Is(err, errClockOff) {
				cause = errClockOff.Error() // the differences of clocks vary
			}
			if logged != cause { // the same cause in a row is logged once
				r.cfg.Logger.Warn("replica makes no progress", zap.Error(err))
				logged = cause
			}
			wait = min(2*wait, maxBackoff)
		case followed && r.next() == before:
			wait, logged = min(2*wait, maxPoll*r.cfg.Poll), ""
		default:
			wait, logged = r.cfg.Poll, ""
		}
		if err != nil { // a change may be why: the next attempt has its pause
			seen = r.cfg.Log.Ownership()
		}
		if err := r.pause(ctx, wait, seen.Changed); err != nil {
			r.cfg.Logger.Error("replica stops", zap.Error(err))
			return fmt.Errorf("replica %s: %w", r.cfg.Replica, err)
		}
	}
}

// rest keeps a cold replica without a state while another one, or an earlier process of its own, owns the log, or while the owner is not known.
func (r *Replica) rest(ctx context.Context) {
	for r.cfg.Cold && ctx.Err() == nil {
		seen := r.cfg.Log.Ownership()
		others := seen.Owned && seen.Owner.Replica != "" && (!r.cfg.TakeOver || seen.Owner.Replica != r.cfg.Replica)
		if seen.Known && !others {
			return
		}
		if others {
			none := error(nil)
			r.former, r.state, r.asm = seen.Owner.Replica, nil, nil
			r.failed.Store(&none)
		}
		select {
		case <-seen.Changed:
		case <-ctx.Done():
		}
	}
}

// next returns the log index that the state has not reached yet, 0 without a state.
func (r *Replica) next() uint64 {
	if r.asm == nil {
		return 0
	}
	return r.asm.Next()
}

// fatal errors mean that this replica's state or its log cannot be trusted.
func fatal(err error) bool {
	var older *OlderError
	if errors.As(err, &older) {
		return true
	}
	for _, target := range []error{
		ErrHashMismatch, ErrWrongOwner, metalog.ErrCorrupt, metalog.ErrUnsupported, metalog.ErrAhead, metadata.ErrUnsupported, metadata.ErrMalformedCommand,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// pause waits for the next round, or for a change of ownership since before the last one. An error is what the checker found.
func (r *Replica) pause(ctx context.Context, d time.Duration, changed <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-r.checker.failed:
		return err
	case <-changed:
	case <-ctx.Done():
	case <-timer.C:
	}
	return nil
}

// round looks at the log once: it catches up, and becomes the owner if there is none. followed reports whether there is another one.
func (r *Replica) round(ctx context.Context) (followed bool, err error) {
	st, err := r.cfg.Log.Status(ctx)
	if err != nil {
		return false, err
	}
	r.locatedAt(st)
	takeOver := r.cfg.TakeOver && st.Owner.Replica == r.cfg.Replica
	if st.Owned && !takeOver {
		r.former = st.Owner.Replica
		if r.cfg.Cold {
			return true, nil
		}
		return true, r.catchUp(ctx, st.Tail)
	}
	if !takeOver && !r.turn(ctx) {
		return false, nil
	}
	return false, r.take(ctx, st.Tail, takeOver)
}

// turn waits while better placed replicas may claim the log. It reports whether the log has no owner by then.
func (r *Replica) turn(ctx context.Context) bool {
	timer := time.NewTimer(r.cfg.Turn(r.former))
	defer timer.Stop()
	for {
		seen := r.cfg.Log.Ownership()
		if seen.Owned {
			r.former = seen.Owner.Replica
			return false
		}
		select {
		case <-seen.Changed:
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// take tries to become the owner of a log, and is the owner if it succeeds.
func (r *Replica) take(ctx context.Context, tail uint64, takeOver bool) error {
	done, err := r.cfg.Admit(ctx)
	if err != nil {
		return err
	}
	done = sync.OnceFunc(done)
	defer done()
	if r.cfg.Log.Ownership().Owned && !takeOver { // another replica was faster
		return nil
	}
	if err := r.catchUp(ctx, tail); err != nil {
		return err
	}
	if err := r.clock.mayOwn(ctx, tail == 0); err != nil {
		return err
	}
	tenure, err := r.cfg.Log.Acquire(ctx, metalog.Candidate{
		Replica: r.cfg.Replica, Address: r.cfg.Address, TakeOver: takeOver,
	})
	if errors.Is(err, metalog.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	r.former = r.cfg.Replica
	return r.own(ctx, tenure, done)
}

// HandOver has the owner give ownership up, for a better placed replica. It returns at once. It has no effect on a replica that is not the owner.
func (r *Replica) HandOver() {
	if end := r.end.Load(); end != nil {
		(*end)(errHandsOver)
	}
}

var errHandsOver = errors.New("hands over to a better placed replica")

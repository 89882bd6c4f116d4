package metalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Lease is the lease of one replica in the store. All tenures of the replica are under this one lease, whatever the number of virtual
// clusters, so one renewal keeps all of them.
//
// Run grants the lease and renews it, and keeps the replica's view of the ownership keys current (owners). A lease can be lost: if renewals fail for Timing.SelfFence, or if it ran out or was revoked. Then
// every tenure under this grant ends, and Run grants a new lease. A tenure never becomes valid again under a later grant.
type Lease struct {
	store   LeaseStore
	cfg     Config
	metrics *leaseMetrics
	owners  *owners

	mu struct {
		sync.Mutex
		grant    *Grant        // nil while there is none
		fault    error         // of the newest attempt to get one; nil after a success
		changed  chan struct{} // closed when grant changes, then replaced
		claims   map[uint64]struct{}
		removing map[int64]struct{} // tenures whose ownership keys Grant.repeat removes
	}
	repeats sync.WaitGroup // of operations that Grant.repeat runs
}

// Grant is one grant of a Lease. It ends for good when it is lost.
type Grant struct {
	lease *Lease
	id    LeaseID
	fence fence
	ctx   context.Context
	end   context.CancelCauseFunc // the cause wraps ErrFenced
}

// NewLease returns a lease in the store. Run grants it.
func NewLease(store LeaseStore, cfg Config) (*Lease, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l := &Lease{store: store, cfg: cfg, metrics: newLeaseMetrics(cfg.Registerer)}
	l.mu.changed = make(chan struct{})
	l.mu.claims, l.mu.removing = map[uint64]struct{}{}, map[int64]struct{}{}
	l.owners = newOwners(l)
	return l, nil
}

// Run grants and renews the lease and follows the ownership keys until ctx ends. Then it revokes the lease, which ends all tenures. It
// returns nil.
func (l *Lease) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { l.owners.follow(ctx) })
	watching.Go(func() { l.owners.confirm(ctx) })
	for pause := minBackoff; ; {
		if g, err := l.grant(ctx); err == nil {
			l.renew(ctx, g)
			pause = minBackoff
		} else {
			l.note(err)
			pause = min(2*pause, maxBackoff)
		}
		if sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// grant makes one attempt at a grant. If the answer is lost, the store has one lease too many, which runs out.
func (l *Lease) grant(ctx context.Context) (*Grant, error) {
	// The fence counts from before the request was sent: the lease cannot run out earlier than that plus its term.
	sent := time.Now()
	id, err := attempt(ctx, l.cfg.Timing.Attempt, func(ctx context.Context) (LeaseID, error) {
		return l.store.Grant(ctx, l.cfg.Timing.Lease)
	})
	if err != nil {
		return nil, err
	}
	g := &Grant{lease: l, id: id}
	g.fence.init(sent, &l.cfg.Timing)
	g.ctx, g.end = context.WithCancelCause(context.Background())
	l.set(g, nil)
	return g, nil
}

// renew keeps the grant until it is lost. If ctx ends, renew revokes the lease.
func (l *Lease) renew(ctx context.Context, g *Grant) {
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	err := g.fence.keep(over, &l.cfg.Timing, func(ctx context.Context) error {
		if err := l.store.Renew(ctx, g.id); err != nil {
			return err
		}
		l.metrics.renewals.Inc()
		return nil
	}, func(err error) {
		l.metrics.failed.Inc()
		l.cfg.Logger.Warn("lease not renewed", zap.Duration("fence_left", g.fence.left()), zap.Error(err))
	})
	if ctx.Err() == nil {
		g.lose(err)
	} else {
		g.end(fmt.Errorf("%w: the replica stops", ErrFenced))
	}
	l.set(nil, nil)
	l.repeats.Wait() // no other begins without a grant
	if ctx.Err() != nil {
		l.revoke(ctx, g.id)
	}
}

// revoke ends the lease and with it all keys that it holds. If that fails, the lease runs out.
func (l *Lease) revoke(ctx context.Context, id LeaseID) {
	_, err := attempt(context.WithoutCancel(ctx), l.cfg.Timing.Attempt, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.store.Revoke(ctx, id)
	})
	if err != nil {
		l.cfg.Logger.Info("lease not revoked, it runs out", zap.Error(err))
	}
}

// set changes the current grant.
func (l *Lease) set(g *Grant, fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.grant, l.mu.fault = g, fault
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
}

func (l *Lease) note(fault error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.fault = fault
}

// Granted returns the current grant. It waits for one until ctx ends, and then returns ErrUnavailable.
func (l *Lease) Granted(ctx context.Context) (*Grant, error) {
	for {
		l.mu.Lock()
		g, changed := l.mu.grant, l.mu.changed
		l.mu.Unlock()
		if g != nil && g.stands() {
			return g, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			return nil, fmt.Errorf("grant lease: %w: %w", ErrUnavailable, cmp.Or(l.mu.fault, ctx.Err()))
		}
	}
}

// ID returns the lease's name in the store, for keys under the lease.
func (g *Grant) ID() LeaseID { return g.id }

// stands reports whether the grant is neither over nor fenced.
func (g *Grant) stands() bool { return g.ctx.Err() == nil && g.fence.stands() }

// lose ends the grant because of err.
func (g *Grant) lose(err error) {
	if g.ctx.Err() != nil {
		return
	}
	reason := "the lease is gone"
	if errors.Is(err, errFell) {
		reason = "no renewal of the lease succeeded in time"
	}
	g.end(fmt.Errorf("%w: %s", ErrFenced, reason))
	g.lease.metrics.lost.Inc()
	g.lease.cfg.Logger.Warn("lost the lease", zap.String("reason", reason), zap.Error(err))
}

// claim registers the nonce of a claim before its request is sent.
func (l *Lease) claim(nonce uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.claims[nonce] = struct{}{}
}

// disclaim ends what claim began. An ownership key with this nonce is an orphan from now on.
func (l *Lease) disclaim(nonce uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.claims, nonce)
}

// removeOrphan removes an ownership key in the background, if the key is under this lease but of no claim or tenure: its removal has failed,
// or the request of a given-up claim has arrived late. The watch calls removeOrphan for each key that it shows.
func (l *Lease) removeOrphan(name string) {
	owner := l.owners.owner(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.mu.grant
	if _, claimed := l.mu.claims[owner.Nonce]; owner.Tenure == 0 || g == nil || owner.Lease != g.id || claimed {
		return
	}
	if _, removing := l.mu.removing[owner.Tenure]; removing {
		return
	}
	l.mu.removing[owner.Tenure] = struct{}{}
	l.repeats.Go(func() {
		g.repeat(func(ctx context.Context) error { return l.store.Disown(ctx, name, owner.Tenure) })
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.mu.removing, owner.Tenure)
	})
}

// repeat runs op until op succeeds or the grant is over, when the lease's end has the same effect.
func (g *Grant) repeat(op func(context.Context) error) {
	timing := &g.lease.cfg.Timing
	for pause := minBackoff; sleep(g.ctx, pause) == nil; pause = min(2*pause, maxBackoff) {
		_, err := attempt(g.ctx, timing.Attempt, func(ctx context.Context) (struct{}, error) { return struct{}{}, op(ctx) })
		if err == nil {
			g.lease.cfg.Logger.Info("removed an ownership key that no tenure has")
			return
		}
	}
}

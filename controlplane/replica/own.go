package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// own is this replica's time as owner. It calls taken when the replica serves. It returns when the tenure is over or ctx has ended, with
// ownership given up. The state is the follower's again.
func (r *Replica) own(ctx context.Context, tenure metalog.Tenure, taken func()) error {
	own, snaps, err := r.prepare(ctx, tenure)
	if err != nil {
		r.resign(ctx, tenure)
		return fmt.Errorf("take over: %w", err)
	}
	r.metrics.takeovers.Inc()
	r.cfg.Logger.Info("became the owner", zap.Int64("tenure", tenure.ID()), zap.Uint64("index", r.state.Index()))
	stop := r.cfg.OnOwner(own)
	r.locatedAt(metalog.Status{
		Owned: true, Owner: metalog.Owner{Replica: r.cfg.Replica, Address: r.cfg.Address, Tenure: tenure.ID()},
	})
	r.owner.Store(own)
	r.metrics.owning.Inc()
	taken()

	ownCtx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r.end.Store(&end)
	sideCtx, cancel := context.WithCancel(ownCtx)
	ticks := new(periodic.Loop)
	ticks.Start(sideCtx, r.cfg.Tick, func(ctx context.Context) time.Duration { return r.tick(ctx, own) })
	snaps.start(sideCtx, end)
	beside := r.cfg.Beside(sideCtx, Tenure{Owner: own, Kept: snaps.kept.Load, WantSnapshot: func() { snaps.wanted.Store(true) }})
	err = own.Run(ownCtx)
	if cause := context.Cause(ownCtx); ctx.Err() == nil && cause != nil {
		err = cause
	}

	cancel()
	r.end.Store(nil)
	r.owner.Store(nil)
	r.metrics.owning.Dec()
	r.locatedAt(metalog.Status{})
	stopped := r.stop(stop)
	r.resign(ctx, tenure)
	// Hashing a large state takes a while and cannot be stopped. So ownership is given up before the waits.
	<-stopped
	ticks.Wait()
	snaps.rounds.Wait()
	beside()
	r.metrics.logBytes.Set(0)
	r.metrics.unsnapshottable.Set(0)
	r.asm = metalog.NewAssembler(r.state.Index())
	if errors.Is(err, errHandsOver) {
		r.cfg.Logger.Info("handed ownership over", zap.Int64("tenure", tenure.ID()))
		return nil
	}
	return err
}

// prepare brings the state to the tenure's tail, which no other replica can move, and makes the owner. It refuses a log that is older
// than the bucket.
func (r *Replica) prepare(ctx context.Context, tenure metalog.Tenure) (*owner.Owner, *snapshots, error) {
	if err := r.catchUp(ctx, tenure.Tail()); err != nil {
		return nil, nil, err
	}
	if r.asm.Next() != tenure.Tail()+1 {
		return nil, nil, fmt.Errorf("%w: read to %d, the tenure began at %d", metalog.ErrFenced, r.asm.Next()-1, tenure.Tail())
	}
	r.clock.resume(r.state.Now())
	refs, err := r.cfg.Log.Snapshots(ctx)
	if err != nil {
		return nil, nil, err
	}
	first, err := r.firstCommands(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := r.refuseOlder(ctx, tenure.Tail()); err != nil {
		return nil, nil, err
	}
	snaps := newSnapshots(r, tenure, refs)
	cfg := r.cfg.Owner
	cfg.Tenure, cfg.State, cfg.First = tenure, r.state, first
	cfg.Marked = snaps.offer
	cfg.Checked = func(metadata.CheckHash) {} // its own
	own, err := owner.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	snaps.owner = own
	return own, snaps, nil
}

// firstCommands precede everything that agents ask for.
func (r *Replica) firstCommands(ctx context.Context) ([]metadata.Command, error) {
	var first []metadata.Command
	if r.state.ClusterID() == "" {
		if err := r.cfg.BeforeBootstrap(ctx); err != nil {
			return nil, err
		}
		first = append(first, &metadata.Bootstrap{ClusterID: cmp.Or(r.cfg.ClusterID, id.NewCluster())})
	}
	if v := r.cfg.Version(); v > metadata.MaxVersion {
		return nil, fmt.Errorf("%w: state machine version %d", metadata.ErrUnsupported, v)
	} else if v > r.state.Version() {
		first = append(first, &metadata.RaiseVersion{Version: v})
	}
	wanted := r.cfg.Limits()
	if limits, _ := r.state.Limits(); limits != wanted && max(r.cfg.Version(), r.state.Version()) >= metadata.LimitsVersion {
		first = append(first, &metadata.SetLimits{Limits: wanted})
	}
	return first, nil
}

// stop runs what OnOwner returned, and waits for it no longer than the hand-over may take.
func (r *Replica) stop(stop func()) (stopped <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if stop != nil {
			stop()
		}
	}()
	timer := time.NewTimer(r.cfg.StopTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		r.cfg.Logger.Warn("sessions are slow to end, handing over regardless")
	}
	return done
}

// resignTimeout bounds the attempt to give ownership up.
const resignTimeout = 2 * time.Second

func (r *Replica) resign(ctx context.Context, tenure metalog.Tenure) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if err := tenure.Resign(ctx); err != nil {
		r.cfg.Logger.Warn("ownership not given up, its lease will run out", zap.Error(err))
	}
}

// cleanupPause is the pause between Ticks while CleaningUp is true. Commits run in the pause.
const cleanupPause = 10 * time.Millisecond

// tick proposes a Tick, which runs time-driven rules, unless the clock cannot be trusted. It returns the pause before the next one. It raises the state version once all
// replicas support a higher one, and sets the configured bound of producers and limits.
//
// A Tick takes at most 4,096 extents of trimmed partitions and deleted topics from their bundles, in about a millisecond. While
// extents are left, the next Tick follows cleanupPause after the last one was applied. That makes 40,000 extents a second or more
// if a Tick is applied within 90 ms.
func (r *Replica) tick(ctx context.Context, own *owner.Owner) (pause time.Duration) {
	ticked := r.clock.near() && r.propose(ctx, own, &metadata.Tick{})
	var version uint32
	var producers int64
	var limits metadata.Limits
	var cleaning bool
	if _, err := own.Read(func(s *metadata.State) {
		version, producers, cleaning = s.Version(), s.ProducerLimit(), s.CleaningUp()
		limits, _ = s.Limits()
	}); err != nil {
		return r.cfg.Tick
	}
	r.metrics.version.Set(float64(version))
	if v := min(r.cfg.Version(), metadata.MaxVersion); v > version {
		r.cfg.Logger.Info("state version rises: all replicas can run it", zap.Uint32("from", version), zap.Uint32("to", v))
		if r.propose(ctx, own, &metadata.RaiseVersion{Version: v}) {
			r.metrics.version.Set(float64(v))
		}
	}
	if producers != r.cfg.MaxProducers {
		r.propose(ctx, own, &metadata.LimitProducers{Active: r.cfg.MaxProducers})
	}
	if wanted := r.cfg.Limits(); limits != wanted && version >= metadata.LimitsVersion {
		r.propose(ctx, own, &metadata.SetLimits{Limits: wanted})
	}
	if ticked && cleaning {
		return cleanupPause
	}
	return r.cfg.Tick
}

func (r *Replica) propose(ctx context.Context, own *owner.Owner, cmd metadata.Command) (applied bool) {
	_, _, err := own.Propose(ctx, cmd)
	if err != nil && ctx.Err() == nil && !errors.Is(err, owner.ErrNotOwner) {
		r.cfg.Logger.Warn("housekeeping command failed", zap.Error(err))
	}
	return err == nil
}

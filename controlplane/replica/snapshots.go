package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/snapshot"
)

// snapshots takes the snapshots of one tenure and trims the log behind them. The steps of one snapshot:
//
//  1. log a mark (CheckHash of index 0); the apply goroutine takes State.Snapshot right after it
//  2. hash the snapshot and let go of it, rebuild the state at the mark from an earlier snapshot and the log, and compare hashes
//  3. stream the rebuilt state to the bucket and let go of it, decode it from there, and compare hashes
//  4. point to it and to the newest one before it that is not known to be corrupt
//  5. trim the log up to that older one, delete the snapshots before it
//  6. log its hash, so that followers compare theirs of the same mark
//
// A failure at any step stops no commit: the log grows to its budget, and the next attempt begins anew. A state of which no
// snapshot can be read raises an alarm: freshet_replica_unsnapshottable, and an error in the log. If the hashes in step 2 differ,
// the replica ends, because its state is wrong and the log is right.
type snapshots struct {
	r      *Replica
	owner  *owner.Owner
	tenure metalog.Tenure

	refs     []metalog.SnapshotRef // as pointed to, newest first
	kept     atomic.Uint64         // index of the second of refs, 0 if there is none
	wanted   atomic.Bool           // garbage waits for one, however little log there is
	trimmed  uint64                // what Trim was last done up to
	total    int64                 // tenure.Total when the newest was taken
	at       time.Time             // and when; zero if never
	attempts int                   // in a row that found no earlier state to rebuild from
	rounds   periodic.Loop

	mu    sync.Mutex
	index uint64          // of taken; guarded by mu
	taken *metadata.State // at the newest mark; guarded by mu
}

func newSnapshots(r *Replica, tenure metalog.Tenure, refs []metalog.SnapshotRef) *snapshots {
	s := &snapshots{r: r, tenure: tenure}
	s.keep(refs)
	if len(refs) > 0 {
		// However often owners change, the interval goes on from the newest snapshot.
		age := max(r.clock.now().Sub(time.UnixMilli(refs[0].AtMs)), 0)
		s.total, s.at = refs[0].Total, time.Now().Add(-age)
	}
	return s
}

func (s *snapshots) keep(refs []metalog.SnapshotRef) {
	s.refs = refs
	if len(refs) > 1 {
		s.kept.Store(refs[1].Index)
	}
}

// offer keeps the snapshot taken at a mark. Called on the apply goroutine.
func (s *snapshots) offer(index uint64, state *metadata.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index, s.taken = index, state
}

// claim gives the snapshot taken at the mark at index, and forgets it.
func (s *snapshots) claim(index uint64) (*metadata.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil || s.index != index {
		return nil, fmt.Errorf("no snapshot was taken at the mark at %d", index)
	}
	state := s.taken
	s.taken = nil
	return state, nil
}

// start takes snapshots when they are due, until ctx ends. If the owner's state is wrong, it calls end with ErrWrongOwner, which ends ctx.
func (s *snapshots) start(ctx context.Context, end func(error)) {
	backoff, poll, total := s.r.cfg.SnapshotBackoff, s.r.cfg.SnapshotPoll, s.tenure.Total()
	s.rounds.Start(ctx, s.r.cfg.SnapshotPoll, func(ctx context.Context) (pause time.Duration) {
		err := s.round(ctx)
		switch {
		case err == nil:
			backoff = s.r.cfg.SnapshotBackoff
		case ctx.Err() != nil:
		case errors.Is(err, ErrWrongOwner):
			end(err)
		default:
			s.failed(err)
			pause, backoff = backoff, min(2*backoff, maxSnapshotBackoff)
			return pause
		}
		// While the log stays as it is, and is worth no snapshot, rounds become rare. Where logs have less room, a short log needs one soon.
		if now := s.tenure.Total(); now == total && now-s.total < s.r.cfg.SnapshotMinBytes && s.r.cfg.Owner.LogRoom() >= 1 {
			poll = min(2*poll, maxSnapshotPoll*s.r.cfg.SnapshotPoll)
		} else {
			poll, total = s.r.cfg.SnapshotPoll, now
		}
		return poll
	})
}

// failed reports a failed round. Whatever fails, the log keeps what no decoded snapshot has.
func (s *snapshots) failed(err error) {
	s.r.metrics.failedSnapshots.Inc()
	bytes := zap.Int64("log_bytes", s.tenure.Bytes())
	if !errors.Is(err, metadata.ErrStateTooLarge) && !errors.Is(err, snapshot.ErrUnreadable) {
		s.r.cfg.Logger.Warn("snapshot failed", bytes, zap.Error(err))
		return
	}
	s.r.metrics.unsnapshottable.Set(1)
	s.r.cfg.Logger.Error("no snapshot of this state can be read: the log is kept, and commits are refused once it is full; "+
		"remove the record that the error names, or start a newer program on every replica", bytes, zap.Error(err))
}

func (s *snapshots) round(ctx context.Context) error {
	s.r.metrics.logBytes.Set(float64(s.tenure.Bytes()))
	if index, err := s.owner.Read(func(*metadata.State) {}); err == nil {
		s.r.metrics.index.Set(float64(index))
	}
	if !s.due() {
		return s.trim(ctx)
	}
	if slots := s.r.cfg.SnapshotSlots; slots != nil {
		if err := slots.Acquire(ctx, 1); err != nil {
			return fmt.Errorf("wait for other snapshots: %w", err)
		}
		defer slots.Release(1)
	}
	return s.take(ctx)
}

// due reports whether there is enough log for a snapshot, or enough time with any log worth it. A log above its soft limit is always due: with only one
// usable snapshot behind it, nothing could be trimmed. Less room for logs makes snapshots more frequent, so that the largest logs are trimmed first.
func (s *snapshots) due() bool {
	since := s.tenure.Total() - s.total
	switch cfg := &s.r.cfg; {
	case since >= s.inRoom(cfg.SnapshotBytes), s.tenure.Bytes() >= s.inRoom(cfg.Owner.SoftLogBytes):
		return true
	default:
		return (since >= cfg.SnapshotMinBytes || s.wanted.Load()) && time.Since(s.at) >= cfg.SnapshotInterval
	}
}

// inRoom returns the part of a limit that owner.Config.LogRoom leaves, but enough that no short log has snapshots all the time.
func (s *snapshots) inRoom(limit int64) int64 {
	return max(int64(s.r.cfg.Owner.LogRoom()*float64(limit)), min(limit, s.r.cfg.SnapshotMinBytes))
}

func (s *snapshots) take(ctx context.Context) error {
	start := time.Now()
	_, index, err := s.owner.Propose(ctx, &metadata.CheckHash{})
	if err != nil {
		return fmt.Errorf("mark: %w", err)
	}
	total := s.tenure.Total()
	state, err := s.claim(index)
	if err != nil {
		return err
	}
	hash, err := s.r.encoder(state).Encodable()
	if err != nil {
		return fmt.Errorf("encode the state at %d: %w", index, err)
	}
	if s.attempts < baseAttempts-1 {
		state = nil // garbage from here on: confirm returns an equal state, and memory has room for two
	}
	if state, err = s.confirm(ctx, index, hash, state); err != nil {
		return err
	}
	at := state.Now()
	ref, hash, err := snapshot.Write(ctx, s.r.cfg.Bucket, s.r.cfg.SnapshotPrefix, s.r.encoder(state))
	if err != nil {
		return err
	}
	s.r.metrics.unsnapshottable.Set(0)
	ref.Total, ref.AtMs = total, at
	refs := append([]metalog.SnapshotRef{ref}, s.usable()...)
	if err := s.tenure.SetSnapshots(ctx, refs); err != nil {
		return fmt.Errorf("point to snapshot: %w", err)
	}
	s.keep(refs)
	s.wanted.Store(false)
	s.total, s.at = total, time.Now()
	s.r.metrics.snapshots.Inc()
	s.r.metrics.snapshotSeconds.Observe(time.Since(start).Seconds())
	s.r.cfg.Logger.Info("took snapshot", zap.String("snapshot", ref.Name), zap.Int64("bytes", ref.Bytes),
		zap.Duration("took", time.Since(start)))
	err = s.trim(ctx)
	if _, _, checkErr := s.owner.Propose(ctx, &metadata.CheckHash{Index: index, Hash: hash}); checkErr != nil {
		err = errors.Join(err, fmt.Errorf("log the hash: %w", checkErr))
	}
	return err
}

// usable returns the newest snapshot so far that is not known to be corrupt.
func (s *snapshots) usable() []metalog.SnapshotRef {
	for _, ref := range s.refs {
		if !s.r.bad[ref.Name] {
			return []metalog.SnapshotRef{ref}
		}
	}
	return nil
}

// trim drops the log up to the second newest snapshot and the snapshots before that, if not done yet.
func (s *snapshots) trim(ctx context.Context) error {
	if len(s.refs) < 2 || s.refs[1].Index <= s.trimmed {
		return nil
	}
	older := s.refs[1].Index
	if err := s.tenure.Trim(ctx, older); err != nil {
		return fmt.Errorf("trim: %w", err)
	}
	s.trimmed = older
	deleted, err := snapshot.DeleteOlder(ctx, s.r.cfg.Bucket, s.r.cfg.SnapshotPrefix, older)
	if err != nil {
		// Trying again next time is soon enough: old snapshots cost space only.
		s.r.cfg.Logger.Warn("old snapshots not deleted", zap.Error(err))
	}
	s.r.cfg.Logger.Info("trimmed log", zap.Uint64("index", older), zap.Int64("log_bytes", s.tenure.Bytes()),
		zap.Int("objects_deleted", deleted))
	return nil
}

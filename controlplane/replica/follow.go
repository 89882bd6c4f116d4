package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/snapshot"
)

// catchUp brings the state to the log's tail, which was at least at tail a moment ago. Where the log was trimmed past
// the state, it starts over from a snapshot, once.
func (r *Replica) catchUp(ctx context.Context, tail uint64) error {
	loaded := false
	if r.state == nil {
		if err := r.load(ctx); err != nil {
			return err
		}
		loaded = true
	}
	located := time.Now()
	for r.asm.Next() != tail+1 {
		if time.Since(located) >= r.cfg.Poll {
			if err := r.locate(ctx); err != nil {
				return err
			}
			located = time.Now()
		}
		entries, now, err := r.cfg.Log.Read(ctx, r.asm.Next(), r.cfg.ReadBytes)
		if errors.Is(err, metalog.ErrTrimmed) && !loaded {
			r.cfg.Logger.Info("behind the log's beginning, loading a snapshot", zap.Uint64("index", r.state.Index()))
			if err := r.load(ctx); err != nil {
				return err
			}
			loaded = true
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := r.applyEntry(e); err != nil {
				return err
			}
		}
		tail = now
	}
	r.noteClusterID(r.state)
	r.metrics.index.Set(float64(r.state.Index()))
	r.metrics.version.Set(float64(r.state.Version()))
	return nil
}

// locate looks who owns the log: replaying a long one takes longer than owners last. Not while that is this replica,
// which is the owner to others only when it has caught up.
func (r *Replica) locate(ctx context.Context) error {
	st, err := r.cfg.Log.Status(ctx)
	if err != nil {
		return err
	}
	if st.Owner.Replica != r.cfg.Replica {
		r.locatedAt(st)
	}
	return nil
}

func (r *Replica) applyEntry(e metalog.Entry) error {
	payload, done, err := r.asm.Add(e)
	if err != nil || !done {
		return err
	}
	batch, err := metadata.ParseBatch(payload)
	if err != nil {
		return fmt.Errorf("log entry %d: %w", e.Index, err)
	}
	r.fx.Reset()
	r.state.Apply(e.Index, batch, &r.fx, nil)
	owner.Observe(r.state, e.Index, &r.fx, r.checker.mark, r.checker.check)
	return nil
}

// load takes the state from the newest snapshot that can be read; without any, from the log's beginning. That the log
// goes on from there is proved by reading it.
func (r *Replica) load(ctx context.Context) error {
	refs, err := r.cfg.Log.Snapshots(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, ref := range refs {
		s, hash, err := snapshot.Read(ctx, r.cfg.Bucket, ref)
		if err == nil {
			r.adopt(s)
			r.checker.loaded(ref.Index, hash)
			r.cfg.Logger.Info("loaded snapshot", zap.String("snapshot", ref.Name), zap.Int64("bytes", ref.Bytes))
			return nil
		}
		if errors.Is(err, metadata.ErrUnsupported) && !errors.Is(err, snapshot.ErrCorrupt) {
			return err
		}
		r.unreadable(ref, err)
		errs = append(errs, err)
	}
	return r.replayAll(ctx, errs)
}

// unreadable notes that a snapshot could not be read. A corrupt one is never pointed to again.
func (r *Replica) unreadable(ref metalog.SnapshotRef, err error) {
	r.metrics.badSnapshots.Inc()
	r.cfg.Logger.Error("snapshot cannot be read", zap.String("snapshot", ref.Name), zap.Error(err))
	if errors.Is(err, snapshot.ErrCorrupt) {
		r.bad[ref.Name] = true
	}
}

// replayAll starts at the log's first entry, if that is still there.
func (r *Replica) replayAll(ctx context.Context, errs []error) error {
	if _, _, err := r.cfg.Log.Read(ctx, 1, 0); err != nil {
		return errors.Join(append([]error{fmt.Errorf("no readable snapshot: %w", err)}, errs...)...)
	}
	r.adopt(metadata.New())
	return nil
}

func (r *Replica) adopt(s *metadata.State) {
	r.state, r.asm = s, metalog.NewAssembler(s.Index())
}

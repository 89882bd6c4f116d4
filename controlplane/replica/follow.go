package replica

import (
	"context"
	"errors"
	"fmt"

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
	for r.asm.Next() != tail+1 {
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

func (r *Replica) applyEntry(e metalog.Entry) error {
	applied, err := apply(r.state, r.asm, e, &r.fx)
	if applied {
		owner.Observe(r.state, e.Index, &r.fx, r.checker.mark, r.checker.check)
	}
	return err
}

// apply adds entry e to asm. If the entry completes a batch of commands, apply applies that batch to s and sets applied.
func apply(s *metadata.State, asm *metalog.Assembler, e metalog.Entry, fx *metadata.Effects) (applied bool, err error) {
	payload, done, err := asm.Add(e)
	if err != nil || !done {
		return false, err
	}
	batch, err := metadata.ParseBatch(payload)
	if err != nil {
		return false, fmt.Errorf("log entry %d: %w", e.Index, err)
	}
	fx.Reset()
	s.Apply(e.Index, batch, fx, nil)
	return true, nil
}

// load takes the state from the newest snapshot that can be read; without any, from the log's beginning. That the log
// goes on from there is proved by reading it.
func (r *Replica) load(ctx context.Context) error {
	refs, err := r.cfg.Log.Snapshots(ctx)
	if err != nil {
		return err
	}
	s, err := r.newest(ctx, refs)
	switch {
	case s != nil:
		r.adopt(s.state)
		r.checker.loaded(s.ref.Index, s.hash)
		r.cfg.Logger.Info("loaded snapshot", zap.String("snapshot", s.ref.Name), zap.Int64("bytes", s.ref.Bytes))
		return nil
	case isNewer(err):
		return err
	}
	return r.replayAll(ctx, err)
}

// readSnapshot is a snapshot's state, with its hash.
type readSnapshot struct {
	ref   metalog.SnapshotRef
	state *metadata.State
	hash  uint64
}

// newest returns the newest snapshot that can be read. If none can be read, it returns nil and the errors of all. An error that
// isNewer and the context's error end the search: newest returns such an error alone.
func (r *Replica) newest(ctx context.Context, refs []metalog.SnapshotRef) (*readSnapshot, error) {
	var errs []error
	for _, ref := range refs {
		s, hash, err := snapshot.Read(ctx, r.cfg.Bucket, ref)
		switch {
		case err == nil:
			delete(r.bad, ref.Name)
			return &readSnapshot{ref, s, hash}, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		if isNewer(err) {
			return nil, err
		}
		r.unreadable(ref, err)
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// isNewer reports whether a snapshot cannot be read because a newer program wrote it.
func isNewer(err error) bool {
	return errors.Is(err, metadata.ErrUnsupported) && !errors.Is(err, snapshot.ErrCorrupt)
}

// unreadable notes that a snapshot could not be read. A corrupt one is never pointed to again.
func (r *Replica) unreadable(ref metalog.SnapshotRef, err error) {
	r.metrics.badSnapshots.Inc()
	r.cfg.Logger.Error("snapshot cannot be read", zap.String("snapshot", ref.Name), zap.Error(err))
	if errors.Is(err, snapshot.ErrCorrupt) {
		r.bad[ref.Name] = true
	}
}

// replayAll starts at the log's first entry, if that is still there. unread has the errors of the snapshots, nil if there are none.
func (r *Replica) replayAll(ctx context.Context, unread error) error {
	if _, _, err := r.cfg.Log.Read(ctx, 1, 0); err != nil {
		return errors.Join(fmt.Errorf("no readable snapshot: %w", err), unread)
	}
	r.adopt(metadata.New())
	return nil
}

func (r *Replica) adopt(s *metadata.State) {
	r.state, r.asm = s, metalog.NewAssembler(s.Index())
}

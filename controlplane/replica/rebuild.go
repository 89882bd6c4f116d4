package replica

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/snapshot"
)

// ErrWrongOwner is returned by Replica.Run if the owner's state differs from the state rebuilt from the log. The commands in the
// log are right in this case, so another replica takes over and applies them.
var ErrWrongOwner = errors.New("the owner's state differs from the state rebuilt from the log")

// errNoBase is returned by rebuild if no earlier snapshot can be read and the log was trimmed.
var errNoBase = errors.New("no earlier state to begin from")

// baseAttempts is the number of snapshots in a row that must find no earlier state before one is taken without the comparison.
const baseAttempts = 4

// confirm compares the hash of the owner's state after entry index with the hash of the state rebuilt from the log. Without this
// check, an owner with a damaged state would write the damage to the snapshot and trim the log that has the right commands.
//
// confirm returns the rebuilt state. If baseAttempts attempts find no earlier state, confirm logs that and returns fallback, the
// owner's state. In the attempts before, fallback may be nil. Errors: ErrWrongOwner, those of rebuild.
func (s *snapshots) confirm(ctx context.Context, index, hash uint64, fallback *metadata.State) (*metadata.State, error) {
	state, err := s.r.rebuild(ctx, s.refs, index)
	if errors.Is(err, errNoBase) {
		if s.attempts++; s.attempts < baseAttempts { // a store may return wrong answers for a while
			return nil, fmt.Errorf("build the state from the log, attempt %d of %d: %w", s.attempts, baseAttempts, err)
		}
		s.attempts = 0
		s.r.cfg.Logger.Error("the next snapshot is not compared with the log", zap.Uint64("index", index), zap.Error(err))
		return fallback, nil
	}
	if err != nil {
		return nil, fmt.Errorf("build the state from the log: %w", err)
	}
	s.attempts = 0
	if got := state.Hash(); got != hash {
		return nil, fmt.Errorf("%w: after entry %d the owner's hash is %016x, the log's %016x; restart the replica, and test its memory if this repeats",
			ErrWrongOwner, index, hash, got)
	}
	return state, nil
}

// rebuild returns the state after entry index as a starting replica would load it. It begins with the newest snapshot that can be
// read, or with the empty state, and applies the log after that. It takes the memory of a second state. Errors: errNoBase,
// snapshot.ErrUnavailable, metadata.ErrUnsupported, the context's, those of the log.
func (r *Replica) rebuild(ctx context.Context, refs []metalog.SnapshotRef, index uint64) (*metadata.State, error) {
	state := metadata.New()
	base, unread := r.newest(ctx, refs)
	switch {
	case base != nil:
		state = base.state
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(unread, snapshot.ErrUnavailable), isNewer(unread):
		return nil, unread
	}
	asm := metalog.NewAssembler(state.Index())
	var fx metadata.Effects
	for state.Index() < index {
		entries, _, err := r.cfg.Log.Read(ctx, asm.Next(), r.cfg.ReadBytes)
		if errors.Is(err, metalog.ErrTrimmed) {
			return nil, errors.Join(fmt.Errorf("%w: %w", errNoBase, err), unread)
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Index > index {
				break
			}
			if _, err := apply(state, asm, e, &fx); err != nil {
				return nil, err
			}
		}
	}
	return state, nil
}

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

// ErrWrongOwner is returned by an owner whose state differs from the one that the log gives. Commands in the log are right in
// any case: another replica takes over with the state that they give.
var ErrWrongOwner = errors.New("the owner's state differs from the one that the log gives")

// errNoBase: no earlier snapshot can be read, and the log does not begin at its first entry.
var errNoBase = errors.New("no earlier state to begin from")

// baseLooks is how many snapshots in a row are not taken because no earlier state can be read.
const baseLooks = 4

// confirm compares the hash of the owned state after entry index with that of the state that the log gives. Without it, an owner
// with a damaged state would make its damage the snapshot, and trim the log that has the truth. Where no earlier state could be read in
// baseLooks attempts, there is nothing to compare. Errors: ErrWrongOwner, those of rebuild.
func (s *snapshots) confirm(ctx context.Context, index, hash uint64) error {
	state, err := s.r.rebuild(ctx, s.refs, index)
	if errors.Is(err, errNoBase) {
		if s.looks++; s.looks < baseLooks { // a store may answer wrongly for a while
			return fmt.Errorf("build the state from the log, attempt %d of %d: %w", s.looks, baseLooks, err)
		}
		s.looks = 0
		s.r.cfg.Logger.Error("the next snapshot is not compared with the log", zap.Uint64("index", index), zap.Error(err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("build the state from the log: %w", err)
	}
	s.looks = 0
	if got := state.Hash(); got != hash {
		return fmt.Errorf("%w: after entry %d the owner's hash is %016x, the log's %016x; restart the replica, and test its memory if this repeats",
			ErrWrongOwner, index, hash, got)
	}
	return nil
}

// rebuild returns the state after entry index as a replica that starts now gets it: from the newest snapshot that can be read, or
// from the empty state, and the log after that. It takes the memory of a second state. Errors: errNoBase, snapshot.ErrUnavailable,
// metadata.ErrUnsupported, those of the log.
func (r *Replica) rebuild(ctx context.Context, refs []metalog.SnapshotRef, index uint64) (*metadata.State, error) {
	state := metadata.New()
	base, unread := r.newest(ctx, refs)
	switch {
	case base != nil:
		state = base.state
	case errors.Is(unread, snapshot.ErrUnavailable), isNewer(unread), ctx.Err() != nil:
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

package errand

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// DeleteBundles has an agent delete the objects of at most 1,000 bundles. It returns the errors of the objects that the store refused to
// delete. All others are gone. After an error, any of the objects may be left. ErrNoAgent means that no agent is left to ask.
func (d *Dispatcher) DeleteBundles(ctx context.Context, bundles []id.Bundle) (failed map[id.Bundle]error, err error) {
	names := make([]uint64, len(bundles))
	for i, b := range bundles {
		names[i] = uint64(b)
	}
	done, err := d.do(ctx, Agents.ErrandTakers, func(id uint64) *api.Errand {
		return &api.Errand{Id: id, Errand: &api.Errand_DeleteBundles{DeleteBundles: &api.DeleteBundles{Bundles: names}}}
	}, func(done *api.ErrandDone) bool { return fitsDeletion(bundles, done) })
	if err != nil {
		return nil, fmt.Errorf("delete %d bundles: %w", len(bundles), err)
	}
	for _, f := range done.GetDeletedBundles().Failed {
		if failed == nil {
			failed = map[id.Bundle]error{}
		}
		failed[id.Bundle(f.Bundle)] = errors.New(api.CutErrandError(f.Error))
	}
	return failed, nil
}

// fitsDeletion reports whether an answer names only bundles of the errand, and none twice.
func fitsDeletion(bundles []id.Bundle, done *api.ErrandDone) bool {
	deleted := done.GetDeletedBundles()
	if deleted == nil || len(deleted.Failed) > len(bundles) {
		return false
	}
	if len(deleted.Failed) == 0 {
		return true
	}
	left := make(map[id.Bundle]bool, len(bundles))
	for _, b := range bundles {
		left[b] = true
	}
	for _, f := range deleted.Failed {
		b := id.Bundle(f.GetBundle())
		if !left[b] {
			return false
		}
		delete(left, b)
	}
	return true
}

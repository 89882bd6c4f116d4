package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/objstore"
)

// deleteKeys is the most objects that are listed, or deleted, in one call.
const deleteKeys = 1000

// DeleteOlder deletes all snapshots under the prefix whose index is below the given one, whole and torn ones alike. It returns the
// number of deleted objects. If the store refuses to delete some objects, DeleteOlder deletes the others and returns an error. A
// former owner may call it: no later owner points to an older snapshot than those that this owner kept. Errors: ErrUnavailable.
func DeleteOlder(ctx context.Context, bucket objstore.Bucket, prefix string, index uint64) (deleted int, err error) {
	after, refused := "", 0
	var first error
	for {
		infos, err := bucket.List(ctx, prefix, after, deleteKeys)
		if err != nil {
			return deleted, fmt.Errorf("%w: list snapshots: %w", ErrUnavailable, err)
		}
		var keys []string
		for _, info := range infos {
			after = info.Key
			if i, ok := indexOf(prefix, info.Key); ok && i < index {
				keys = append(keys, info.Key)
			}
		}
		if len(keys) > 0 {
			err := bucket.Delete(ctx, keys)
			some := (*objstore.DeleteError)(nil)
			switch {
			case errors.As(err, &some):
				refused += len(some.Failed)
				first = cmp.Or(first, err)
				deleted -= len(some.Failed)
			case err != nil:
				return deleted, fmt.Errorf("%w: delete old snapshots: %w", ErrUnavailable, err)
			}
			deleted += len(keys)
		}
		if len(infos) == 0 || len(keys) < len(infos) { // keys are in order of index
			break
		}
	}
	if refused > 0 {
		return deleted, fmt.Errorf("%w: delete old snapshots: %d objects refused: %w", ErrUnavailable, refused, first)
	}
	return deleted, nil
}

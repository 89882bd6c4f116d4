package snapshot

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/objstore"
)

// deleteKeys is the most objects that are listed, or deleted, in one call.
const deleteKeys = 1000

// DeleteOlder removes all snapshots under the prefix whose index is below the given one, whole and torn ones alike,
// and tells how many objects went. It is safe for an owner that is none any more: no later owner points to anything
// older than what this one kept. Errors: ErrUnavailable.
func DeleteOlder(ctx context.Context, bucket objstore.Bucket, prefix string, index uint64) (deleted int, err error) {
	after := ""
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
			if err := bucket.Delete(ctx, keys); err != nil {
				return deleted, fmt.Errorf("%w: delete old snapshots: %w", ErrUnavailable, err)
			}
			deleted += len(keys)
		}
		if len(infos) == 0 || len(keys) < len(infos) { // keys are in order of index
			return deleted, nil
		}
	}
}

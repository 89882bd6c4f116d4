package snapshot

import (
	"context"
	"fmt"
	"strings"

	"github.com/freshet-io/freshet/objstore"
)

// Found is a snapshot as its object keys name it. Its objects may be torn.
type Found struct {
	Index uint64
	Name  string // key prefix in the bucket
}

// Newer returns the snapshots under the prefix whose index is above the given one, in order of index. Keys that name no
// snapshot are skipped. Newer takes one LIST if nothing is above the index, else one more for each 1000 objects.
// Errors: ErrUnavailable.
func Newer(ctx context.Context, bucket objstore.Bucket, prefix string, index uint64) ([]Found, error) {
	var found []Found
	after := fmt.Sprintf("%s%016x.", prefix, index) // a dot sorts right after the dash of this index
	for {
		infos, err := bucket.List(ctx, prefix, after, objstore.MaxKeys)
		if err != nil {
			return nil, fmt.Errorf("%w: list snapshots: %w", ErrUnavailable, err)
		}
		if len(infos) == 0 {
			return found, nil
		}
		for _, info := range infos {
			after = info.Key
			i, ok := indexOf(prefix, info.Key)
			name, _, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
			f := Found{Index: i, Name: prefix + name}
			if ok && i > index && (len(found) == 0 || found[len(found)-1] != f) {
				found = append(found, f)
			}
		}
	}
}

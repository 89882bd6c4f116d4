package errand

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// Bundles are the bundles of a virtual cluster in a bucket.
type Bundles struct {
	Bucket objstore.Bucket
	// Prefix returns the prefix of their keys, "" if it is not known yet.
	Prefix func() string
}

// errNoPrefix is returned before the first Welcome.
var errNoPrefix = errors.New("the prefix of the virtual cluster is not known yet")

// DeleteBundles deletes the objects of at most objstore.MaxKeys bundles. It returns the errors of the objects that the store refused to
// delete. All others are gone. After an error, any of the objects may be left.
func (b Bundles) DeleteBundles(ctx context.Context, names []id.Bundle) (failed map[id.Bundle]error, err error) {
	if len(names) == 0 || len(names) > objstore.MaxKeys {
		return nil, fmt.Errorf("%d bundles: an errand has 1 to %d", len(names), objstore.MaxKeys)
	}
	prefix := b.Prefix()
	if prefix == "" {
		return nil, errNoPrefix
	}
	keys := make([]string, len(names))
	for i, name := range names {
		if s := name.Submission(); s.Session == 0 || s.N == 0 {
			return nil, fmt.Errorf("%s is not a bundle", name)
		}
		keys[i] = bundle.Key(prefix, name)
	}
	err = b.Bucket.Delete(ctx, keys)
	if refused := new(objstore.DeleteError); errors.As(err, &refused) {
		failed = make(map[id.Bundle]error, len(refused.Failed))
		for i, key := range keys {
			if err := refused.Failed[key]; err != nil {
				failed[names[i]] = err
			}
		}
		return failed, nil
	}
	return nil, err
}

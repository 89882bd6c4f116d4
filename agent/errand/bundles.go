package errand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// Bundles are the bundles of a virtual cluster in a bucket.
type Bundles struct {
	Bucket objstore.Bucket
	// Prefix returns the prefix of their keys, "" if it is not known yet.
	Prefix func() string
	// MinAge is the minimum age of deleted objects and aborted uploads, by the store's clock. 0 or less means no minimum.
	MinAge time.Duration
	// Rate bounds the sum of deleted objects, aborted uploads and LISTs per second. nil means no limit. Its burst is at least
	// objstore.MaxKeys.
	Rate *rate.Limiter
}

// errNoPrefix is returned before the first Welcome.
var errNoPrefix = errors.New("the prefix of the virtual cluster is not known yet")

// DeleteBundles deletes the objects of at most objstore.MaxKeys bundles. It returns the errors of the objects that stay: they are younger
// than MinAge, or the store refused to delete them. All others are gone. After an error, any of the objects may be left.
func (b Bundles) DeleteBundles(ctx context.Context, names []id.Bundle) (failed map[id.Bundle]error, err error) {
	if len(names) == 0 || len(names) > objstore.MaxKeys {
		return nil, fmt.Errorf("%d bundles: an errand has 1 to %d", len(names), objstore.MaxKeys)
	}
	prefix := b.Prefix()
	if prefix == "" {
		return nil, errNoPrefix
	}
	for _, name := range names {
		if s := name.Submission(); s.Session == 0 || s.N == 0 {
			return nil, fmt.Errorf("%s is not a bundle", name)
		}
	}
	if err := b.wait(ctx, len(names)); err != nil {
		return nil, err
	}
	failed = make(map[id.Bundle]error)
	if b.MinAge > 0 {
		if names, err = b.old(ctx, prefix, names, failed); err != nil || len(names) == 0 {
			return failed, err
		}
	}
	return failed, b.delete(ctx, prefix, names, failed)
}

// old returns the bundles with objects that are old enough to be deleted. It puts those with younger ones into failed.
func (b Bundles) old(ctx context.Context, prefix string, names []id.Bundle, failed map[id.Bundle]error) (old []id.Bundle, err error) {
	modified, err := b.modifiedAt(ctx, prefix, names)
	if err != nil {
		return nil, err
	}
	now, err := b.Bucket.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the store's time: %w", err)
	}
	for _, name := range names {
		at, exists := modified[name]
		if !exists {
			continue
		}
		if age := now.Sub(at); age < b.MinAge {
			failed[name] = fmt.Errorf("the object is %v old, and agents delete none below %v", age, b.MinAge)
		} else {
			old = append(old, name)
		}
	}
	return old, nil
}

// delete deletes the objects of bundles, and puts the bundles that the store refused to delete into failed.
func (b Bundles) delete(ctx context.Context, prefix string, names []id.Bundle, failed map[id.Bundle]error) error {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = bundle.Key(prefix, name)
	}
	err := b.Bucket.Delete(ctx, keys)
	if refused := new(objstore.DeleteError); errors.As(err, &refused) {
		for i, key := range keys {
			if err := refused.Failed[key]; err != nil {
				failed[names[i]] = err
			}
		}
		return nil
	}
	return err //nolint:wrapcheck // names the request
}

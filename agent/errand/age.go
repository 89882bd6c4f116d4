package errand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

const (
	// headsPerList is the number of HEADs from which a LIST is cheaper: it costs as much as 12.5 of them.
	headsPerList = 13
	// maxHeads is the maximum number of HEADs of one errand in flight.
	maxHeads = 16
)

// ages finds the times of last modification of bundles' objects, by the store's clock.
type ages struct {
	Bundles
	prefix string

	mu       sync.Mutex
	modified map[id.Bundle]time.Time // of the objects that exist
}

// modifiedAt returns the times of last modification of the objects of the bundles that have one. The cost is that of a HEAD each or less.
func (b Bundles) modifiedAt(ctx context.Context, prefix string, names []id.Bundle) (map[id.Bundle]time.Time, error) {
	a := ages{Bundles: b, prefix: prefix, modified: make(map[id.Bundle]time.Time, len(names))}
	sessions := make(map[id.Session][]id.Bundle)
	for _, name := range names {
		sessions[name.Submission().Session] = append(sessions[name.Submission().Session], name)
	}
	var single []id.Bundle
	for _, session := range slices.Sorted(maps.Keys(sessions)) {
		rest, err := a.list(ctx, session, slices.Compact(slices.Sorted(slices.Values(sessions[session]))))
		if err != nil {
			return nil, err
		}
		single = append(single, rest...)
	}
	return a.modified, a.heads(ctx, single)
}

// list lists pages of a session while each settles at least headsPerList of its names, which are sorted. It returns the other names.
func (a *ages) list(ctx context.Context, session id.Session, names []id.Bundle) (rest []id.Bundle, err error) {
	for len(names) >= headsPerList {
		after := bundle.Key(a.prefix, id.Submission{Session: session, N: names[0].Submission().N - 1}.Bundle())
		page, err := a.Bucket.List(ctx, bundle.SessionPrefix(a.prefix, session), after, objstore.MaxKeys)
		if err != nil {
			return nil, fmt.Errorf("list the objects of session %d: %w", session, err)
		}
		if len(page) == 0 {
			return nil, nil
		}
		for _, object := range page {
			if name, err := bundle.ParseKey(a.prefix, object.Key); err == nil {
				a.modified[name] = object.Modified
			}
		}
		last := page[len(page)-1].Key
		settled := 0
		for settled < len(names) && bundle.Key(a.prefix, names[settled]) <= last {
			settled++
		}
		if names = names[settled:]; settled < headsPerList {
			break
		}
	}
	return names, nil
}

// heads asks for each object.
func (a *ages) heads(ctx context.Context, names []id.Bundle) error {
	asks, ctx := errgroup.WithContext(ctx)
	asks.SetLimit(maxHeads)
	for _, name := range names {
		asks.Go(func() error {
			object, err := a.Bucket.Head(ctx, bundle.Key(a.prefix, name))
			if errors.Is(err, objstore.ErrNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("ask for the age of bundle %s: %w", name, err)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.modified[name] = object.Modified
			return nil
		})
	}
	return asks.Wait() //nolint:wrapcheck // wrapped above
}

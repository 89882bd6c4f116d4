package errand

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

var (
	errNoSession = errors.New("0 is not a session")
	errOddKeys   = fmt.Errorf("no bundle is among %d keys in a row", api.MaxErrandKeys)
)

// ListSession returns a page of the objects of a session or job, from the n behind after. A page without objects is the last one. It reads
// one page of the store's listing, and further ones, up to api.MaxErrandKeys keys, while no key is a bundle of the session.
func (b Bundles) ListSession(ctx context.Context, session id.Session, after uint32) (*api.SessionObjects, error) {
	prefix, err := b.sessionPrefix(session)
	if err != nil {
		return nil, err
	}
	startAfter := ""
	if after > 0 {
		startAfter = bundle.Key(b.Prefix(), id.Submission{Session: session, N: after}.Bundle())
	}
	objects := &api.SessionObjects{}
	for odd := 0; odd < api.MaxErrandKeys; {
		if err := b.wait(ctx, 1); err != nil {
			return nil, err
		}
		page, err := b.Bucket.List(ctx, prefix, startAfter, objstore.MaxKeys)
		if err != nil {
			return nil, fmt.Errorf("list the objects of session %d: %w", session, err)
		}
		for _, object := range page {
			n, ok := b.nOf(session, object.Key)
			if !ok || n <= after {
				odd++
				continue
			}
			objects.Objects = append(objects.Objects, &api.SessionObject{N: n, Bytes: object.Size, ModifiedMs: object.Modified.UnixMilli()})
			objects.Odd = uint32(min(odd, api.MaxErrandKeys))
		}
		if len(objects.Objects) > 0 {
			return objects, nil
		}
		if len(page) == 0 {
			objects.Odd = uint32(min(odd, api.MaxErrandKeys))
			return objects, nil
		}
		startAfter = page[len(page)-1].Key
	}
	return nil, errOddKeys
}

// sessionPrefix returns the prefix of the keys of a session's bundles.
func (b Bundles) sessionPrefix(session id.Session) (string, error) {
	if session == 0 {
		return "", errNoSession
	}
	prefix := b.Prefix()
	if prefix == "" {
		return "", errNoPrefix
	}
	return bundle.SessionPrefix(prefix, session), nil
}

// nOf returns the n of a bundle of a session by its key. ok is false for any other key.
func (b Bundles) nOf(session id.Session, key string) (n uint32, ok bool) {
	name, err := bundle.ParseKey(b.Prefix(), key)
	s := name.Submission()
	return s.N, err == nil && s.Session == session && s.N > 0
}

// wait waits until the rate allows n more requests or deletions.
func (b Bundles) wait(ctx context.Context, n int) error {
	if b.Rate == nil || n == 0 {
		return nil
	}
	if err := b.Rate.WaitN(ctx, n); err != nil {
		return fmt.Errorf("wait for the rate of deletions (--delete-rate): %w", err)
	}
	return nil
}

// Package keys looks up what the key of a caller opens.
//
// A Set has the SHA-256 of each key, with its Grant. Sources replace their entries in the Set while the Set is in use. The sources are the
// settings, a file of hashes (File), and the replicas' own key in etcd. If no source has a key any more, its grant is revoked, which ends the
// streams that were opened with the key.
package keys

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// Kind is a kind of key.
type Kind int

// Kinds of keys.
const (
	Agent    Kind = iota + 1 // opens one virtual cluster to agents
	ReadOnly                 // opens figures of one virtual cluster to scalers
	Operator                 // opens the operators' side of all virtual clusters
	Replica                  // opens replicas to each other
)

func (k Kind) String() string {
	switch k {
	case Agent:
		return "agent key"
	case ReadOnly:
		return "read-only key"
	case Operator:
		return "operator key"
	case Replica:
		return "replica key"
	}
	return "unknown kind of key"
}

// Entry is one key of a source.
type Entry struct {
	Hash           accesskey.Hash
	Kind           Kind
	VirtualCluster string // name, of kinds Agent and ReadOnly
}

// Grant is what one key opens. It never changes.
type Grant struct {
	Entry
	sources int // number of the key's sources, guarded by Set.mu
	revoked context.Context
	revoke  context.CancelFunc
}

// Revoked returns a context that ends when the key is withdrawn.
func (g *Grant) Revoked() context.Context { return g.revoked }

// ErrEmpty is returned for the hash of no key.
var ErrEmpty = errors.New("the SHA-256 of no key")

// ErrTaken is returned for a key that would open two virtual clusters, or be of two kinds.
var ErrTaken = errors.New("one key for two virtual clusters or of two kinds")

// Set has the grants of all keys. It is safe for concurrent use.
type Set struct {
	partial atomic.Bool // a source was not read yet
	mu      sync.RWMutex
	grants  map[accesskey.Hash]*Grant
	sources map[string]map[accesskey.Hash]Entry
}

// NewSet returns an empty Set.
func NewSet() *Set {
	return &Set{grants: map[accesskey.Hash]*Grant{}, sources: map[string]map[accesskey.Hash]Entry{}}
}

// SetPartial sets whether a source of keys was not read yet. Then an unknown key may become known.
func (s *Set) SetPartial(partial bool) { s.partial.Store(partial) }

// Partial reports whether a source of keys was not read yet.
func (s *Set) Partial() bool { return s.partial.Load() }

// Replace makes entries the keys of a source, in place of the source's earlier ones. Grants that no source has any more are revoked. A key can
// be in several sources. Replace returns ErrTaken and changes nothing if a key would have two different
// entries. It returns ErrEmpty and changes nothing for the hash of no key. It costs the keys of this source, before and after.
func (s *Set) Replace(source string, entries []Entry) error {
	next := make(map[accesskey.Hash]Entry, len(entries))
	for _, e := range entries {
		if e.Hash == accesskey.HashOf("") {
			return ErrEmpty
		}
		if other, ok := next[e.Hash]; ok && other != e {
			return taken(e.Hash)
		}
		next[e.Hash] = e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.sources[source]
	for hash, e := range next {
		g := s.grants[hash]
		if _, own := before[hash]; g != nil && g.Entry != e && (!own || g.sources > 1) {
			return taken(hash)
		}
	}
	for hash, e := range before {
		if g := s.grants[hash]; next[hash] != e {
			if g.sources--; g.sources == 0 {
				g.revoke()
				delete(s.grants, hash)
			}
		}
	}
	for hash, e := range next {
		if before[hash] != e {
			s.add(hash, e)
		}
	}
	s.sources[source] = next
	if len(next) == 0 {
		delete(s.sources, source)
	}
	return nil
}

// add counts one more source of a key.
func (s *Set) add(hash accesskey.Hash, e Entry) {
	g := s.grants[hash]
	if g == nil {
		g = &Grant{Entry: e}
		g.revoked, g.revoke = context.WithCancel(context.Background())
		s.grants[hash] = g
	}
	g.sources++
}

func taken(hash accesskey.Hash) error {
	return fmt.Errorf("key with SHA-256 %s...: %w: give each a key of its own", hash, ErrTaken)
}

// Grant returns the grant of a key, or nil if the key is unknown. The look-up is not in constant time. Its time depends on hashes alone, from which
// a key cannot be computed.
func (s *Set) Grant(key string) *Grant {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.grants[accesskey.HashOf(key)]
}

type contextKey struct{}

// NewContext returns a context with the grant of a call.
func NewContext(ctx context.Context, g *Grant) context.Context {
	return context.WithValue(ctx, contextKey{}, g)
}

// FromContext returns the grant of a call, or nil.
func FromContext(ctx context.Context) *Grant {
	g, _ := ctx.Value(contextKey{}).(*Grant)
	return g
}

package session

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// Keys has the hash of each agent key, with the name of the virtual cluster that the key opens.
type Keys map[accesskey.Hash]string

// ErrKeyTaken is returned for a key of two virtual clusters.
var ErrKeyTaken = errors.New("one agent key for two virtual clusters")

// Add adds a key of a virtual cluster. It returns ErrKeyTaken if the key opens another one.
func (k Keys) Add(key, virtualCluster string) error {
	h := accesskey.HashOf(key)
	if other, ok := k[h]; ok && other != virtualCluster {
		return ErrKeyTaken
	}
	k[h] = virtualCluster
	return nil
}

// Open reports whether a key opens the virtual cluster. The time of the look-up tells about hashes alone, and a hash does not lead to its key.
func (k Keys) Open(virtualCluster, key string) bool {
	opened, ok := k[accesskey.HashOf(key)]
	return ok && opened == virtualCluster
}

type openedKey struct{}

// opened returns the virtual cluster that the key of a call opens. name is the one that the call names, or "" for whichever the key opens. ok
// reports whether the two agree.
func opened(ctx context.Context, name string) (virtualCluster string, ok bool) {
	virtualCluster, ok = ctx.Value(openedKey{}).(string)
	return virtualCluster, ok && (name == "" || name == virtualCluster)
}

// authenticate returns the call's context with the virtual cluster that its key opens. Error: Unauthenticated.
func (k Keys) authenticate(ctx context.Context, header metadata.MD) (context.Context, error) {
	text := "missing agent key"
	for _, value := range header.Get("authorization") {
		key, ok := strings.CutPrefix(value, "Bearer ")
		if !ok {
			continue
		}
		h := accesskey.HashOf(key)
		if virtualCluster, ok := k[h]; ok {
			return context.WithValue(ctx, openedKey{}, virtualCluster), nil
		}
		text = "unknown agent key (SHA-256 " + h.String() + "...)"
	}
	return ctx, status.Error(codes.Unauthenticated, text)
}

package session

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// KeyHash is the SHA-256 of an agent key.
type KeyHash [sha256.Size]byte

// HashKey gives the hash under which an agent key is kept.
func HashKey(key string) KeyHash { return sha256.Sum256([]byte(key)) }

// Keys are the agent keys of each virtual cluster, as hashes.
type Keys map[string][]KeyHash

// virtualClusters gives those that the key opens. Every known hash is compared, each in constant time.
func (k Keys) virtualClusters(key string) map[string]bool {
	given := HashKey(key)
	opens := map[string]bool{}
	for name, hashes := range k {
		for i := range hashes {
			if subtle.ConstantTimeCompare(given[:], hashes[i][:]) == 1 {
				opens[name] = true
			}
		}
	}
	return opens
}

type opensKey struct{}

// opens tells whether the call's key is one of the virtual cluster's.
func opens(ctx context.Context, virtualCluster string) bool {
	allowed, _ := ctx.Value(opensKey{}).(map[string]bool)
	return allowed[virtualCluster]
}

// authenticate returns the call's context with what its key opens. Error: Unauthenticated.
func (k Keys) authenticate(ctx context.Context, header metadata.MD) (context.Context, error) {
	for _, value := range header.Get("authorization") {
		key, ok := strings.CutPrefix(value, "Bearer ")
		if !ok {
			continue
		}
		if allowed := k.virtualClusters(key); len(allowed) > 0 {
			return context.WithValue(ctx, opensKey{}, allowed), nil
		}
	}
	return ctx, status.Error(codes.Unauthenticated, "unknown or missing agent key")
}

// Open tells whether a key is one of the virtual cluster's.
func (k Keys) Open(virtualCluster, key string) bool { return k.virtualClusters(key)[virtualCluster] }

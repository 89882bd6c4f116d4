package session

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"google.golang.org/grpc"
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

// authenticate finds out what the call's key opens. Error: Unauthenticated.
func (k Keys) authenticate(ctx context.Context) (context.Context, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, value := range md.Get("authorization") {
		key, ok := strings.CutPrefix(value, "Bearer ")
		if !ok {
			continue
		}
		if allowed := k.virtualClusters(key); len(allowed) > 0 {
			return context.WithValue(ctx, opensKey{}, allowed), nil
		}
	}
	return nil, status.Error(codes.Unauthenticated, "unknown or missing agent key")
}

// UnaryInterceptor lets only calls with a known agent key through.
func (k Keys) UnaryInterceptor() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		ctx, err := k.authenticate(ctx)
		if err != nil {
			return nil, err
		}
		return next(ctx, request)
	}
}

// StreamInterceptor lets only streams with a known agent key through.
func (k Keys) StreamInterceptor() grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		ctx, err := k.authenticate(stream.Context())
		if err != nil {
			return err
		}
		return next(server, &authenticated{ServerStream: stream, ctx: ctx})
	}
}

type authenticated struct {
	grpc.ServerStream
	ctx context.Context
}

func (a *authenticated) Context() context.Context { return a.ctx }

// Open tells whether a key is one of the virtual cluster's.
func (k Keys) Open(virtualCluster, key string) bool { return k.virtualClusters(key)[virtualCluster] }

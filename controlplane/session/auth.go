package session

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// authenticate returns the call's context with the grant of its key. Errors: Unauthenticated, or Unavailable while not all keys are known.
func authenticate(ctx context.Context, set *keys.Set, header metadata.MD) (context.Context, error) {
	text := "missing agent key"
	for _, value := range header.Get("authorization") {
		key, ok := strings.CutPrefix(value, "Bearer ")
		if !ok {
			continue
		}
		if g := set.Grant(key); g != nil {
			return keys.NewContext(ctx, g), nil
		}
		if set.Partial() {
			return ctx, status.Error(codes.Unavailable, "the keys of virtual clusters in etcd are not read yet")
		}
		text = "unknown agent key (SHA-256 " + accesskey.HashOf(key).String() + "...)"
	}
	return ctx, status.Error(codes.Unauthenticated, text)
}

// opened returns the virtual cluster that the key of a call opens to agents. name is the one that the call names, or "" for whichever the key
// opens. ok reports whether the two agree.
func opened(ctx context.Context, name string) (virtualCluster string, ok bool) {
	g := keys.FromContext(ctx)
	if g == nil || g.Kind != keys.Agent {
		return "", false
	}
	return g.VirtualCluster, name == "" || name == g.VirtualCluster
}

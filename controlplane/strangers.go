package controlplane

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/freshet-io/freshet/internal/connlimit"
)

// Bounds of gRPC connections without an agent key.
const (
	// maxStrangers bounds the connections on which no call has had a known key. At the bound a new one replaces the oldest of the address
	// with most of them.
	maxStrangers = 512
	// strangerTimeout is the time that a connection has for its first call with a known key, TLS handshake included.
	strangerTimeout = 10 * time.Second
)

// strangers bounds the gRPC connections on which no call has had a known key. Connections with one are not bounded: agents have a few each.
type strangers struct{ *connlimit.Limit }

func newStrangers(most int, log *zap.Logger, registerer prometheus.Registerer) strangers {
	return strangers{connlimit.New(connlimit.Config{
		Server: "grpc", Max: most, FirstRequest: strangerTimeout, Log: log, Prefix: "freshet_grpc_", Registerer: registerer,
	})}
}

// options returns interceptors that lift the bound. gRPC calls interceptors only after the tap of session.ServerOptions has accepted the
// call's key.
func (s strangers) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			known(ctx)
			return handle(ctx, request)
		}),
		grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			known(stream.Context())
			return handle(server, stream)
		}),
	}
}

// known lifts the bound from the connection of a call.
func known(ctx context.Context) {
	if p, ok := grpcpeer.FromContext(ctx); ok {
		if place := connlimit.PlaceOf(p.Addr); place != nil {
			place.Leave()
		}
	}
}

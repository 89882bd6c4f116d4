package controlplane

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/connlimit"
)

// Bounds of gRPC connections without an agent key.
const (
	// maxStrangers bounds the connections on which no call has had a known key. At the bound a new one replaces the oldest of the address
	// with most of them.
	maxStrangers = 512
	// strangerTimeout is the time that a connection has for its first call with a known key, TLS handshake included.
	strangerTimeout = 10 * time.Second
	// connectionsPerSession is the number of connections with a known key for each session of a virtual cluster. An agent has one, and others
	// for some seconds while it looks for the owner.
	connectionsPerSession = 4
)

// strangers bounds the gRPC connections on which no call has had a known key. session.Connections bounds the others. A connection beyond that
// bound stays here until it is closed.
type strangers struct{ *connlimit.Limit }

func newStrangers(most int, log *zap.Logger, registerer prometheus.Registerer) strangers {
	return strangers{connlimit.New(connlimit.Config{
		Server: "grpc", Max: most, FirstRequest: strangerTimeout, Log: log, Prefix: "freshet_grpc_", Registerer: registerer,
	})}
}

// options returns interceptors that lift the bound of connections that connections admits. gRPC calls interceptors only after the tap of
// session.ServerOptions has accepted the call's key.
func (s strangers) options(connections *session.Connections) []grpc.ServerOption {
	enter := func(ctx context.Context) error {
		if err := connections.Enter(ctx); err != nil {
			return err
		}
		known(ctx)
		return nil
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			if err := enter(ctx); err != nil {
				return nil, err
			}
			return handle(ctx, request)
		}),
		grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			if err := enter(stream.Context()); err != nil {
				return err
			}
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

// maxConnections returns the bound of the connections with a known key of a virtual cluster. One that this replica does not know yet has
// the bound of those of etcd.
func (c *ControlPlane) maxConnections(virtualCluster string) int {
	spec := &directory.Spec{Stored: true}
	if built := c.clusters.find(virtualCluster); built != nil {
		spec = built.spec
	}
	return connectionsPerSession * c.cfg.limitsOf(spec).Sessions
}

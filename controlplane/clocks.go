package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/internal/grpcerr"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// clocks returns etcd's clock and those of the other registered replicas. An embedded etcd has no clock of its own and does not answer.
func (c *cluster) clocks() []replica.Clock {
	all := []replica.Clock{{Name: "etcd's clock", Now: func(ctx context.Context) (time.Time, error) {
		return etcdlog.Now(ctx, c.cfg.Etcd, c.cfg.EtcdTLS)
	}}}
	for _, address := range c.members.Replicas() {
		if address == c.cfg.Advertise {
			continue
		}
		all = append(all, replica.Clock{
			Name: "the clock of the replica at " + address,
			Now: func(ctx context.Context) (time.Time, error) {
				return replicaTime(ctx, address, c.members.replicaKey(), c.cfg.ReplicaTLS)
			},
		})
	}
	return all
}

// replicaTime returns the time by the clock of the replica at address.
func replicaTime(ctx context.Context, address, key string, secure *tls.Config) (time.Time, error) {
	answer, err := askReplica(ctx, address, key, secure)
	if err != nil {
		return time.Time{}, grpcerr.Plain(err)
	}
	return time.UnixMilli(answer.UnixMs), nil
}

// askReplica asks the replica at address for its time and version. secure is the TLS configuration, or nil. Each call has a connection
// of its own, since calls are rare.
func askReplica(ctx context.Context, address, key string, secure *tls.Config) (*api.ClockResponse, error) {
	transport := insecure.NewCredentials()
	if secure != nil {
		transport = credentials.NewTLS(secure)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(transport))
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	return api.NewReplicasClient(conn).Clock(ctx, &api.ClockRequest{})
}

// replicaServer answers the other replicas' questions.
type replicaServer struct {
	api.UnimplementedReplicasServer
	replica, version string
	http             func() string // address of the HTTP side
	began            time.Time     // start of this process
}

// Clock implements the service.
func (s replicaServer) Clock(context.Context, *api.ClockRequest) (*api.ClockResponse, error) {
	return &api.ClockResponse{
		UnixMs: time.Now().UnixMilli(), Replica: s.replica, Version: s.version, UptimeMs: ptr(uint64(time.Since(s.began).Milliseconds())),
		HttpAddress: s.http(),
	}, nil
}

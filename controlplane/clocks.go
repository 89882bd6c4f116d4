package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/internal/grpcerr"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore"
)

// storeClockAge is the maximum age of an answer of the store's clock.
const storeClockAge = 30 * time.Second

// storeClock is a bucket that asks the store for the time at most once in storeClockAge while the store answers. Between two answers its time
// goes on by the monotonic clock. After a step of this machine's clock, or a suspension, it asks again. One call asks at a time, so callers of a
// silent store wait for each other, each until its context ends.
type storeClock struct {
	objstore.Bucket
	wall func() time.Time // this machine's clock
	turn chan struct{}    // holds a token while a call has its turn

	// Used in turn. The times at which the answer came are by the monotonic clock and by this machine's.
	answer, at, wallAt time.Time // zero before the first answer
}

func newStoreClock(bucket objstore.Bucket) *storeClock {
	return &storeClock{Bucket: bucket, wall: func() time.Time { return time.Now().Round(0) }, turn: make(chan struct{}, 1)}
}

// Now implements objstore.Bucket. The store's clock has passed the time that it returns.
func (c *storeClock) Now(ctx context.Context) (time.Time, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("wait for the store's time: %w", ctx.Err())
	}
	age := time.Since(c.at)
	if step := c.wall().Sub(c.wallAt) - age; !c.answer.IsZero() && age < storeClockAge && step.Abs() < time.Second {
		return c.answer.Add(age), nil
	}
	answer, err := c.Bucket.Now(ctx)
	if err != nil {
		return time.Time{}, err //nolint:wrapcheck // the bucket's own
	}
	c.answer, c.at, c.wallAt = answer, time.Now(), c.wall()
	return answer, nil
}

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

// handOverHeader names the virtual cluster, by its cluster id, that the caller of Clock would hand over. Older replicas ignore it.
const handOverHeader = "freshet-hand-over"

// askToTake returns nil if the replica at address can become the owner of a virtual cluster.
func askToTake(ctx context.Context, address, clusterID, key string, secure *tls.Config) error {
	if _, err := askReplica(metadata.AppendToOutgoingContext(ctx, handOverHeader, clusterID), address, key, secure); err != nil {
		return grpcerr.Plain(err)
	}
	return nil
}

// replicaServer answers the other replicas' questions.
type replicaServer struct {
	api.UnimplementedReplicasServer
	replica, version string
	http             func() string                                     // address of the HTTP side
	began            time.Time                                         // start of this process
	takes            func(ctx context.Context, clusterID string) error // nil if this replica can become the owner
}

// Clock implements the service. It fails if the call names a virtual cluster that this replica cannot take over.
func (s replicaServer) Clock(ctx context.Context, _ *api.ClockRequest) (*api.ClockResponse, error) {
	if asked := metadata.ValueFromIncomingContext(ctx, handOverHeader); len(asked) > 0 {
		if g := keys.FromContext(ctx); g == nil || g.Kind != keys.Replica { // agents can call Clock
			return nil, status.Error(codes.PermissionDenied, "only a replica may ask for a hand-over")
		}
		if err := s.takes(ctx, asked[0]); err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
	}
	return &api.ClockResponse{
		UnixMs: time.Now().UnixMilli(), Replica: s.replica, Version: s.version, UptimeMs: ptr(uint64(time.Since(s.began).Milliseconds())),
		HttpAddress: s.http(),
	}, nil
}

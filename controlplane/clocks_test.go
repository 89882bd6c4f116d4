package controlplane_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

// offBucket is a bucket whose store's clock is ahead.
type offBucket struct {
	objstore.Bucket
	ahead atomic.Int64
}

func (b *offBucket) Now(context.Context) (time.Time, error) {
	return time.Now().Add(time.Duration(b.ahead.Load())), nil
}

// The store's clock goes off. A replica that starts asks the other one for the time and takes over from it; /readyz names the store's
// clock. An embedded etcd does not count.
func TestControlPlane_TakesOverThoughTheStoresClockIsOff(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t)
	bucket := &offBucket{Bucket: mem.New()}
	first := start(t, etcd, bucket, "r1")
	await(t, func() bool { return first.Ready() == nil && first.Owned("one") })
	require.Empty(t, first.Warnings())
	third := start(t, etcd, bucket, "r3")
	await(t, func() bool { return third.Ready() == nil })

	bucket.ahead.Store(int64(time.Hour))
	second := start(t, etcd, bucket, "r2")
	await(t, func() bool { return second.Ready() == nil && len(second.Warnings()) == 2 })
	body := second.get(t, "/readyz")
	require.Regexp(t, `^ok\nwarning: virtual cluster one: the object store's clock is \S+ ahead of this machine's clock and the clock of the replica at `, body)
	for _, other := range []*running{first, third} {
		require.Contains(t, body, "the clock of the replica at "+other.Addr().String())
	}
	first.stop(t)
	await(t, func() bool { return second.Owned("one") || third.Owned("one") })
	third.stop(t)
	bucket.ahead.Store(0)
	await(t, func() bool { return second.Owned("one") && second.Owned("two") })
	second.stop(t)
}

func TestControlPlane_TellsTheTimeToHoldersOfAKey(t *testing.T) {
	t.Parallel()
	r := start(t, startEtcd(t), mem.New(), "r1")
	defer r.stop(t)
	conn, err := grpc.NewClient("passthrough:///"+r.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	_, err = api.NewReplicasClient(conn).Clock(t.Context(), &api.ClockRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
}

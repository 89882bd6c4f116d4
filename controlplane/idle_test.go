package controlplane_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/mem"
)

// askedBucket counts the questions for the store's time.
type askedBucket struct {
	*mem.Bucket
	asked atomic.Int64
}

func (b *askedBucket) Now(ctx context.Context) (time.Time, error) {
	b.asked.Add(1)
	return b.Bucket.Now(ctx)
}

// ranges returns the reads of all etcds of this process.
func ranges(t *testing.T) (n float64) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "etcd_mvcc_range_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.Fail(t, "etcd counts no reads")
	return 0
}

func revision(t *testing.T, etcd *etcdserver.Server) int64 {
	t.Helper()
	got, err := etcd.Client().Get(t.Context(), "/")
	require.NoError(t, err)
	return got.Header.Revision
}

// TestControlPlane_IdleClusters shows what unused virtual clusters cost one replica, and asserts that they write nothing to etcd.
func TestControlPlane_IdleClusters(t *testing.T) {
	nightly.Only(t, "waits for half a minute")
	const many, window = 50, 10 * time.Second
	etcd, bucket := startEtcd(t), &askedBucket{Bucket: mem.New()}
	r := start(t, etcd, bucket, "r1")
	require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	goroutines := runtime.NumGoroutine()
	d := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}
	for i := range many {
		require.NoError(t, d.Create(t.Context(), &directory.Spec{
			ID: id.NewCluster(), Name: fmt.Sprintf("vc-%d", i), State: directory.Active, DefaultPartitions: 1,
		}))
	}
	owned := func() (n int) {
		for i := range many {
			if r.Owned(fmt.Sprintf("vc-%d", i)) {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return owned() == many }, time.Minute, 10*time.Millisecond)
	// The first Tick of an owner, whose entry is due to no work, comes 10 s after the takeover.
	time.Sleep(15 * time.Second) // sleeps: until each owner has proposed a Tick
	written, read, asked := revision(t, etcd), ranges(t), bucket.asked.Load()
	time.Sleep(window) // sleeps: the cost of idleness is that of time
	written, read, asked = revision(t, etcd)-written, ranges(t)-read, bucket.asked.Load()-asked
	each := func(n float64) float64 { return n / many / window.Seconds() }
	t.Logf("each of %d unused virtual clusters: %d goroutines; a second: %.3f writes and %.2f reads of etcd, %.3f questions for the store's time",
		many, (runtime.NumGoroutine()-goroutines)/many, each(float64(written)), each(read), each(float64(asked)))
	require.Equal(t, many, owned())
	require.Less(t, written, int64(many/2), "entries of idle virtual clusters")
	r.stop(t)
}

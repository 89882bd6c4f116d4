package controlplane

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/mem"
)

// pointers is a metadata log that points to snapshots.
type pointers struct {
	metalog.Log
	refs []metalog.SnapshotRef
}

func (p pointers) Snapshots(context.Context) ([]metalog.SnapshotRef, error) { return p.refs, nil }

func checkOf(bucket objstore.Bucket, clusterID string, snapshots ...string) *bucketCheck {
	var refs []metalog.SnapshotRef
	for _, name := range snapshots {
		refs = append(refs, metalog.SnapshotRef{Name: name})
	}
	return &bucketCheck{
		bucket: bucket, gate: marker.NewGate(bucket), location: "s3://records", etcdPrefix: "/freshet", virtualCluster: "main",
		log: zap.NewNop(), metalog: pointers{refs: refs},
		clusterID: func() string { return clusterID }, owner: func() *owner.Owner { return nil },
	}
}

// works is a store that can be used.
func works() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

func put(t *testing.T, bucket objstore.Bucket, key string) {
	t.Helper()
	require.NoError(t, bucket.Put(t.Context(), key, objstore.NewBody([]byte("x"))))
}

func TestBucketCheck_MarksAgainWhereTheMarkerWasRemoved(t *testing.T) {
	bucket := mem.New()
	put(t, bucket, "id/snapshots/0001-aa/manifest")
	c := checkOf(bucket, "id", "id/snapshots/0002-bb", "id/snapshots/0001-aa")
	require.False(t, c.marked())
	require.NoError(t, c.run(t.Context(), works()))
	require.True(t, c.marked())
	there, err := marker.Read(t.Context(), bucket, "main")
	require.NoError(t, err)
	require.Equal(t, marker.Marker{ClusterID: "id"}, there)
}

func TestBucketCheck_RefusesABucketThatIsNotTheClusters(t *testing.T) {
	marked := func(m marker.Marker) *mem.Bucket {
		bucket := mem.New()
		_, err := marker.Create(t.Context(), bucket, "main", m)
		require.NoError(t, err)
		return bucket
	}
	const remedy = ": set --bucket, --etcd and --etcd-prefix to those of one cluster"
	for name, c := range map[string]struct {
		check *bucketCheck
		says  string
	}{
		"another cluster's": {
			checkOf(marked(marker.Marker{ClusterID: "other"}), "id"),
			`--bucket s3://records holds virtual cluster "main" with cluster id other, but etcd under --etcd-prefix /freshet has cluster id id` + remedy,
		},
		"moved away": {
			checkOf(marked(marker.Marker{ClusterID: "id", MovedTo: "s3://new"}), "id"),
			`--bucket s3://records: virtual cluster "main" was moved to s3://new: set --bucket to that`,
		},
		"without its snapshots": {
			checkOf(mem.New(), "id", "id/snapshots/0002-bb", "id/snapshots/0001-aa"),
			`--bucket s3://records has no object id/snapshots/0002-bb, which etcd under --etcd-prefix /freshet refers to for virtual cluster "main"` + remedy,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, c.check.run(t.Context(), works()), c.says)
			require.False(t, c.check.marked())
		})
	}
}

func TestBucketCheck_RefusesToBootstrapOverAnotherCluster(t *testing.T) {
	require.NoError(t, checkOf(mem.New(), "").beforeBootstrap(t.Context()))
	const remedy = " has no cluster of that name: set --bucket, --etcd and --etcd-prefix to those of one cluster"

	bucket := mem.New()
	put(t, bucket, "clusters/mainly") // another virtual cluster's
	require.NoError(t, checkOf(bucket, "").beforeBootstrap(t.Context()))
	_, err := marker.Create(t.Context(), bucket, "main", marker.Marker{ClusterID: "other"})
	require.NoError(t, err)
	err = checkOf(bucket, "").beforeBootstrap(t.Context())
	require.EqualError(t, err, `--bucket s3://records holds virtual cluster "main" with cluster id other, but etcd under --etcd-prefix /freshet`+remedy)
	require.True(t, final(err))
	require.False(t, final(errors.New("store away")))
}

func TestBucketCheck_ConfirmsTheIDThatTheStateHas(t *testing.T) {
	bucket := mem.New()
	require.EqualError(t, checkOf(bucket, "id").confirm(t.Context()), `--bucket s3://records has no object clusters/main, but etcd under `+
		`--etcd-prefix /freshet has cluster id id for virtual cluster "main": set --bucket, --etcd and --etcd-prefix to those of one cluster`)
	_, err := marker.Create(t.Context(), bucket, "main", marker.Marker{ClusterID: "id"})
	require.NoError(t, err)
	require.NoError(t, checkOf(bucket, "id").confirm(t.Context()))
	require.True(t, final(checkOf(bucket, "other").confirm(t.Context())))
}

package marker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/bytetable"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func TestCreate_IsReadBackAndNeverReplaced(t *testing.T) {
	bucket := mem.New()
	_, err := marker.Read(t.Context(), bucket, "main")
	require.ErrorIs(t, err, objstore.ErrNotFound)

	first := marker.Marker{ClusterID: "first"}
	for range 2 { // the second stands for an attempt after a lost answer
		there, err := marker.Create(t.Context(), bucket, "main", first)
		require.NoError(t, err)
		require.Equal(t, first, there)
	}
	there, err := marker.Create(t.Context(), bucket, "main", marker.Marker{ClusterID: "second"})
	require.NoError(t, err)
	require.Equal(t, first, there)
	there, err = marker.Read(t.Context(), bucket, "main")
	require.NoError(t, err)
	require.Equal(t, first, there)
	_, err = marker.Read(t.Context(), bucket, "other")
	require.ErrorIs(t, err, objstore.ErrNotFound, "each virtual cluster has its own")
}

// The table of the package comment describes an object with all members.
func TestCreate_Golden(t *testing.T) {
	bucket := mem.New()
	_, err := marker.Create(t.Context(), bucket, "main", marker.Marker{ClusterID: "id", MovedTo: "s3://new"})
	require.NoError(t, err)
	p, err := objstoretest.Get(t.Context(), bucket, marker.Key("main"), 0, -1)
	require.NoError(t, err)
	l := bytetable.New(t)
	l.JSON("marker.go", "Object", p)
	l.Golden("testdata/marker.golden")
}

func TestCreate_GoldenOfAgents(t *testing.T) {
	bucket := mem.New()
	want := marker.Marker{ClusterID: "id", BucketID: strings.Repeat("ab", 16)}
	_, err := marker.Create(t.Context(), bucket, "main", want)
	require.NoError(t, err)
	p, err := objstoretest.Get(t.Context(), bucket, marker.Key("main"), 0, -1)
	require.NoError(t, err)
	l := bytetable.New(t)
	l.JSON("marker.go", "Object of an agent", p)
	l.Golden("testdata/bucket.golden")
	there, err := marker.Read(t.Context(), bucket, "main")
	require.NoError(t, err)
	require.Equal(t, want, there)
}

func TestRead_RefusesOtherObjects(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		err     error
		says    string
	}{
		"not json":     {"main", marker.ErrMalformed, "invalid character"},
		"later format": {`{"format":2,"cluster_id":"a"}`, marker.ErrNewer, "format 2, this program reads format 1"},
		"no format":    {`{"cluster_id":"a"}`, marker.ErrMalformed, "format 0"},
		"no id":        {`{"format":1}`, marker.ErrMalformed, "no cluster id"},
		"above 4 KiB":  {`{"format":1,"cluster_id":"` + strings.Repeat("a", 4<<10) + `"}`, marker.ErrMalformed, "more than 4096 bytes"},
		"empty":        {"", marker.ErrMalformed, "it is empty"},
		"cut off":      {`{"format":1,"clus`, marker.ErrMalformed, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := mem.New()
			require.NoError(t, bucket.Put(t.Context(), marker.Key("main"), objstore.NewBody([]byte(c.content))))
			_, err := marker.Read(t.Context(), bucket, "main")
			require.ErrorIs(t, err, c.err)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestCreate_WritesNoMoreThanReadTakes(t *testing.T) {
	// {"format":1,"cluster_id":"..."} is 29 bytes around the id.
	const around = len(`{"format":1,"cluster_id":""}`)
	bucket := mem.New()
	largest := marker.Marker{ClusterID: strings.Repeat("a", 4<<10-around)}
	_, err := marker.Create(t.Context(), bucket, "main", largest)
	require.NoError(t, err)
	there, err := marker.Read(t.Context(), bucket, "main")
	require.NoError(t, err)
	require.Equal(t, largest, there)
	_, err = marker.Create(t.Context(), mem.New(), "main", marker.Marker{ClusterID: largest.ClusterID + "a"})
	require.ErrorIs(t, err, marker.ErrMalformed)
}

func TestGate_DeleteRefused(t *testing.T) {
	gate := marker.NewGate(objstoretest.Refusing("refused"))
	gate.Open()
	objstoretest.Refusal(t, gate, "refused")
}

func TestGate_HoldsWritesUntilItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := mem.New()
		gate := marker.NewGate(bucket)
		ctx, cancel := context.WithCancel(t.Context())
		writes := []func(context.Context) error{
			func(ctx context.Context) error { return gate.Put(ctx, "a", objstore.NewBody([]byte("a"))) },
			func(ctx context.Context) error { return gate.Delete(ctx, []string{"b"}) },
			func(ctx context.Context) error { _, err := gate.Create(ctx, "c"); return err },
		}
		ended := make(chan error, len(writes))
		for _, write := range writes {
			go func() { ended <- write(ctx) }()
		}
		synctest.Wait()
		require.Empty(t, ended)
		_, err := gate.Head(ctx, "a")
		require.ErrorIs(t, err, objstore.ErrNotFound, "reads pass")
		cancel()
		for range writes {
			require.ErrorIs(t, <-ended, context.Canceled)
		}
		gate.Open()
		gate.Open()
		for _, write := range writes {
			require.NoError(t, write(t.Context()))
		}
	})
}

func TestMove_RetiresTheOldBucket(t *testing.T) {
	from, to := mem.New(), mem.New()
	id := marker.Marker{ClusterID: "id"}
	_, err := marker.Create(t.Context(), from, "main", id)
	require.NoError(t, err)
	put := func(bucket objstore.Bucket, keys ...string) {
		for _, key := range keys {
			require.NoError(t, bucket.Put(t.Context(), key, objstore.NewBody([]byte(key))))
		}
	}
	put(from, "id/bundles/1/1", "id/bundles/1/2", "id/snapshots/x", "other/bundles/1/1")
	put(to, "id/bundles/1/1", "zzz")
	move := marker.Move{From: from, To: to, ToLocation: "s3://new", VirtualCluster: "main"}

	_, err = move.Run(t.Context())
	require.EqualError(t, err, "2 of 3 objects under id/ are missing in s3://new, such as id/bundles/1/2: copy them first, while nothing of the cluster runs")
	there, err := marker.Read(t.Context(), from, "main")
	require.NoError(t, err)
	require.Equal(t, id, there, "nothing was changed")

	put(to, "id/bundles/1/2", "id/snapshots/x")
	for range 2 { // again after a crash
		n, err := move.Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, n)
		there, err = marker.Read(t.Context(), to, "main")
		require.NoError(t, err)
		require.Equal(t, id, there)
		there, err = marker.Read(t.Context(), from, "main")
		require.NoError(t, err)
		require.Equal(t, marker.Marker{ClusterID: "id", MovedTo: "s3://new"}, there)
	}

	// A crash between the two steps of replacing the old marker.
	require.NoError(t, from.Delete(t.Context(), []string{marker.Key("main")}))
	_, err = move.Run(t.Context())
	require.NoError(t, err)
	there, err = marker.Read(t.Context(), from, "main")
	require.NoError(t, err)
	require.Equal(t, "s3://new", there.MovedTo)

	// And back.
	back := marker.Move{From: to, To: from, ToLocation: "s3://old", VirtualCluster: "main"}
	_, err = back.Run(t.Context())
	require.NoError(t, err)
	there, err = marker.Read(t.Context(), from, "main")
	require.NoError(t, err)
	require.Equal(t, id, there)
}

func TestMove_RefusesABucketOfAnotherCluster(t *testing.T) {
	from, to := mem.New(), mem.New()
	move := marker.Move{From: from, To: to, FromLocation: "s3://old", ToLocation: "s3://new", VirtualCluster: "main"}
	_, err := move.Run(t.Context())
	require.EqualError(t, err, "--from s3://old has no object clusters/main: set it to the bucket that virtual cluster \"main\" runs on")
	for bucket, id := range map[*mem.Bucket]string{from: "a", to: "b"} {
		_, err := marker.Create(t.Context(), bucket, "main", marker.Marker{ClusterID: id})
		require.NoError(t, err)
	}
	_, err = move.Run(t.Context())
	require.EqualError(t, err, "--to s3://new holds virtual cluster \"main\" with cluster id b, but --from s3://old has cluster id a: set --to to a bucket without it")
}

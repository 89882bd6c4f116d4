package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/mem"
)

// comparing runs an ownership in a bubble until the test ends.
func comparing(t *testing.T, bucket objstore.Bucket) (o *ownership, ended <-chan error) {
	t.Helper()
	o = newOwnership(bucket, &Config{VirtualCluster: "main", BucketURL: "s3://records/a?secret-key=hidden", Log: zap.NewNop()})
	works, done := make(chan struct{}), make(chan error, 1)
	close(works)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- o.run(ctx, works) }()
	t.Cleanup(cancel)
	synctest.Wait()
	return o, done
}

func mark(t *testing.T, bucket objstore.Bucket, m marker.Marker) {
	t.Helper()
	_, err := marker.Create(t.Context(), bucket, "main", m)
	require.NoError(t, err)
}

func TestOwnership_OpensTheGateForTheClustersBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := mem.New()
		mark(t, bucket, marker.Marker{ClusterID: "id"})
		o, _ := comparing(t, bucket)
		require.Equal(t, "id", o.hello().GetClusterId())
		require.ErrorIs(t, o.ready(), errNotCompared, "the control plane has not said its id")
		o.onWelcome(&api.Welcome{ClusterId: "id"})
		synctest.Wait()
		require.NoError(t, o.ready())
	})
}

func TestOwnership_RefusesAnotherClustersBucket(t *testing.T) {
	const bucket = "--bucket s3://records/a?secret-key=redacted"
	const remedy = ": set --bucket to the control plane's"
	for name, c := range map[string]struct {
		found marker.Marker
		says  string
	}{
		"another cluster's": {marker.Marker{ClusterID: "other"}, bucket + ` holds virtual cluster "main" with cluster id other, but the control plane has cluster id id` + remedy},
		"moved":             {marker.Marker{ClusterID: "id", MovedTo: "s3://new"}, bucket + `: virtual cluster "main" was moved to s3://new: set --bucket to that`},
		"none":              {marker.Marker{}, bucket + ` has no object clusters/main, but the control plane has cluster id id for virtual cluster "main"` + remedy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				if c.found != (marker.Marker{}) {
					mark(t, bucket, c.found)
				}
				o, ended := comparing(t, bucket)
				o.onWelcome(&api.Welcome{ClusterId: "id"})
				require.EqualError(t, <-ended, c.says)
				require.EqualError(t, o.refused(t.Context(), "id"), c.says)
				require.Error(t, o.ready())
			})
		})
	}
}

// The store was away when the control plane started, so the marker comes later.
func TestOwnership_WaitsForAMarkerThatIsToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := mem.New()
		o, ended := comparing(t, bucket)
		require.NotNil(t, o.hello())
		require.Empty(t, o.hello().ClusterId)
		o.onWelcome(&api.Welcome{ClusterId: "id"})
		time.Sleep(markerPatience - time.Second) // the bubble's time
		require.Empty(t, ended)
		mark(t, bucket, marker.Marker{ClusterID: "id"})
		<-o.gate.Opened()
		require.NoError(t, o.refused(t.Context(), "id"))
	})
}

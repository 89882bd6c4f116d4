package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/mem"
)

var (
	sample = []uint64{uint64(id.Submission{Session: 1, N: 1}.Bundle()), uint64(id.Submission{Session: 1, N: 2}.Bundle())}
	check  = &client.WrongBucketError{
		ClusterID: "id", VirtualCluster: "main", Check: &api.BucketCheck{Id: "check", BundlePrefix: "id/bundles/", Bundles: sample},
	}
)

// fill puts objects of the first n bundles of sample.
func fill(t *testing.T, bucket objstore.Bucket, n int) {
	t.Helper()
	for _, b := range sample[:n] {
		require.NoError(t, bucket.Put(t.Context(), bundle.Key("id/bundles/", id.Bundle(b)), objstore.NewBody([]byte("records"))))
	}
}

// An agent marks a bucket that has the bundles of the check, and reports the marker. The gate opens after the owner's Welcome.
func TestBucketCheck_MarksTheBucket(t *testing.T) {
	for name, c := range map[string]struct {
		bundles   int
		refusal   *client.WrongBucketError
		knowsName bool
	}{
		"bundles":    {len(sample), check, true},
		"new":        {0, &client.WrongBucketError{ClusterID: "id", VirtualCluster: "main", Check: &api.BucketCheck{Id: "check"}}, true},
		"no setting": {len(sample), check, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				fill(t, bucket, c.bundles)
				virtualCluster := ""
				if c.knowsName {
					virtualCluster = "main"
				}
				o, ended := comparingAs(t, bucket, virtualCluster)
				o.hello()
				began := time.Now()
				o.refused(t.Context(), c.refusal)
				require.Zero(t, time.Since(began))
				there, err := marker.Read(t.Context(), bucket, "main")
				require.NoError(t, err)
				require.Equal(t, "id", there.ClusterID)
				require.Len(t, there.BucketID, 32)
				reported := o.hello()
				require.Equal(t, []string{"id", there.BucketID, "check"}, []string{reported.ClusterId, reported.BucketId, reported.Check})
				require.Error(t, o.ready())
				o.onWelcome(&api.Welcome{ClusterId: "id"})
				synctest.Wait()
				require.NoError(t, o.ready())
				require.Empty(t, ended)
			})
		})
	}
}

// A bucket that lacks a bundle of the check gets no marker, and ends its agent.
func TestBucketCheck_EndsAtAWrongBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := mem.New()
		fill(t, bucket, len(sample)-1)
		o, ended := comparing(t, bucket)
		o.hello()
		o.refused(t.Context(), check)
		require.EqualError(t, <-ended, inBucket+` has no object `+bundle.Key("id/bundles/", id.Bundle(sample[1]))+
			`, which the control plane refers to for virtual cluster "main": `+remedy)
		_, err := marker.Read(t.Context(), bucket, "main")
		require.ErrorIs(t, err, objstore.ErrNotFound)
	})
}

// A marked bucket with another bucket id than the state's passes the check by its bundles, and keeps its marker.
func TestBucketCheck_KeepsTheMarker(t *testing.T) {
	for name, c := range map[string]struct {
		found marker.Marker
		says  string
	}{
		"of an agent":          {marker.Marker{ClusterID: "id", BucketID: "other"}, ""},
		"of a control plane":   {marker.Marker{ClusterID: "id"}, inBucket + ` holds virtual cluster "main", but the records are in another bucket: ` + remedy},
		"of another cluster":   {marker.Marker{ClusterID: "other", BucketID: "other"}, inBucket + ` holds virtual cluster "main" with cluster id other, but the control plane has cluster id id: ` + remedy},
		"of a moved cluster's": {marker.Marker{ClusterID: "id", BucketID: "other", MovedTo: "s3://new"}, inBucket + `: virtual cluster "main" was moved to s3://new: set --bucket to that`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				fill(t, bucket, len(sample))
				mark(t, bucket, c.found)
				o, ended := comparing(t, bucket)
				if c.found.MovedTo == "" {
					o.hello()
					o.refused(t.Context(), check)
				}
				if c.says != "" {
					require.EqualError(t, <-ended, c.says)
					return
				}
				require.Equal(t, "check", o.hello().Check)
				require.Equal(t, "other", o.hello().BucketId)
				require.Empty(t, ended)
			})
		})
	}
}

// An owner whose connected agents use another bucket refuses without a check. The agent ends after maxRefusals.
func TestBucketCheck_EndsAtARefusedBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := mem.New()
		mark(t, bucket, marker.Marker{ClusterID: "id", BucketID: "other"})
		o, ended := comparing(t, bucket)
		for range maxRefusals {
			o.hello()
			o.refused(t.Context(), &client.WrongBucketError{ClusterID: "id"})
			require.Empty(t, ended)
		}
		o.refused(t.Context(), &client.WrongBucketError{ClusterID: "id"})
		require.EqualError(t, <-ended, inBucket+` holds virtual cluster "main", but the records are in another bucket: `+remedy)
	})
}

// A check that the store does not answer is repeated.
func TestBucketCheck_IsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := newScripted()
		o, ended := comparing(t, bucket)
		o.hello()
		timedOut := unusable["timed out"]
		bucket.answer.Store(&timedOut)
		o.refused(t.Context(), &client.WrongBucketError{ClusterID: "id", Check: &api.BucketCheck{Id: "check"}})
		require.Empty(t, o.hello().Check)
		bucket.answer.Store(nil)
		time.Sleep(markerPause)
		synctest.Wait()
		require.Equal(t, "check", o.hello().Check)
		require.Empty(t, ended)
	})
}

// An agent writes its marker again if the marker was removed, and no other one.
func TestBucketCheck_MarksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := mem.New()
		m := marker.Marker{ClusterID: "id", BucketID: "bucket"}
		mark(t, bucket, m)
		o, ended := comparing(t, bucket)
		require.ErrorIs(t, o.markAgain(t.Context()), errNotCompared)
		o.onWelcome(&api.Welcome{ClusterId: "id"})
		synctest.Wait()
		require.NoError(t, o.markAgain(t.Context()), "the marker is there")
		require.NoError(t, bucket.Delete(t.Context(), []string{marker.Key("main")}))
		require.NoError(t, o.markAgain(t.Context()))
		there, err := marker.Read(t.Context(), bucket, "main")
		require.NoError(t, err)
		require.Equal(t, m, there)
		remark(t, bucket, marker.Marker{ClusterID: "id", BucketID: "other"})
		require.ErrorIs(t, o.markAgain(t.Context()), errOtherMarker)
		require.Empty(t, ended)
	})
}

// The bound of a check, and a name that no virtual cluster can have: no look-up, no object.
func TestBucketCheck_HostileControlPlane(t *testing.T) {
	for name, c := range map[string]*client.WrongBucketError{
		"bundles": {ClusterID: "id", VirtualCluster: "main", Check: &api.BucketCheck{Id: "check", Bundles: make([]uint64, maxCheckBundles+1)}},
		"name":    {ClusterID: "id", VirtualCluster: "../other", Check: &api.BucketCheck{Id: "check"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				o, ended := comparingAs(t, bucket, "")
				o.hello()
				o.refused(t.Context(), c)
				require.Empty(t, o.hello().GetCheck())
				require.Empty(t, ended)
				objects, err := bucket.List(t.Context(), "", "", 10)
				require.NoError(t, err)
				require.Empty(t, objects)
			})
		})
	}
}

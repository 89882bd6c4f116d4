package agent

import (
	"context"
	"fmt"
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
	clusterID = id.NewCluster()
	sample    = func() (bundles []uint64) {
		for n := range uint32(maxCheckBundles) {
			bundles = append(bundles, uint64(id.Submission{Session: 1, N: n + 1}.Bundle()))
		}
		return bundles
	}()
	check = &client.WrongBucketError{
		ClusterID: clusterID, VirtualCluster: "main", Check: &api.BucketCheck{Id: "check", BundlePrefix: clusterID + "/bundles/", Bundles: sample},
	}
)

// fill puts objects of the first n bundles of sample.
func fill(t *testing.T, bucket objstore.Bucket, n int) {
	t.Helper()
	for _, b := range sample[:n] {
		require.NoError(t, bucket.Put(t.Context(), bundle.Key(clusterID+"/bundles/", id.Bundle(b)), objstore.NewBody([]byte("records"))))
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
		"new":        {0, &client.WrongBucketError{ClusterID: clusterID, VirtualCluster: "main", Check: &api.BucketCheck{Id: "check"}}, true},
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
				require.Equal(t, clusterID, there.ClusterID)
				require.Len(t, there.BucketID, 32)
				reported := o.hello()
				require.Equal(t, []string{clusterID, there.BucketID, "check"}, []string{reported.ClusterId, reported.BucketId, reported.Check})
				require.Error(t, o.ready())
				o.onWelcome(&api.Welcome{ClusterId: clusterID})
				synctest.Wait()
				require.NoError(t, o.ready())
				require.Empty(t, ended)
			})
		})
	}
}

// A bucket that lacks half of the bundles of the check gets no marker, and ends its agent. Fewer lost bundles are no reason.
func TestBucketCheck_NeedsMostBundles(t *testing.T) {
	for _, c := range []struct {
		there, of int
		passes    bool
	}{{16, 16, true}, {9, 16, true}, {8, 16, false}, {0, 16, false}, {2, 3, true}, {1, 3, false}, {1, 2, false}, {1, 1, true}, {0, 1, false}} {
		t.Run(fmt.Sprintf("%d of %d", c.there, c.of), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				fill(t, bucket, c.there)
				o, ended := comparing(t, bucket)
				o.hello()
				o.refused(t.Context(), &client.WrongBucketError{
					ClusterID: clusterID, Check: &api.BucketCheck{Id: "check", BundlePrefix: clusterID + "/bundles/", Bundles: sample[:c.of]},
				})
				_, err := marker.Read(t.Context(), bucket, "main")
				if c.passes {
					require.NoError(t, err)
					require.Equal(t, "check", o.hello().Check)
					require.Empty(t, ended)
					return
				}
				require.ErrorIs(t, err, objstore.ErrNotFound)
				require.EqualError(t, <-ended, inBucket+` has no object `+bundle.Key(clusterID+"/bundles/", id.Bundle(sample[c.there]))+
					`, which the control plane refers to for virtual cluster "main": `+remedy)
			})
		})
	}
}

// headless refuses HEADs of the first refused objects.
type headless struct {
	*mem.Bucket
	refused int
}

func (h *headless) Head(ctx context.Context, key string) (objstore.Info, error) {
	for _, b := range sample[:h.refused] {
		if key == bundle.Key(clusterID+"/bundles/", id.Bundle(b)) {
			return objstore.Info{}, objstore.ErrRefused
		}
	}
	return h.Bucket.Head(ctx, key)
}

// Answers that decide nothing leave the decision to the others, or to a later look-up.
func TestBucketCheck_UndecidedLookUps(t *testing.T) {
	for name, c := range map[string]struct {
		there, refused int
		decides        string
	}{"found": {16, 7, "passes"}, "missing": {4, 4, "ends"}, "neither": {16, 8, "waits"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := &headless{mem.New(), c.refused}
				fill(t, bucket.Bucket, c.there)
				o, ended := comparing(t, bucket)
				o.hello()
				o.refused(t.Context(), check)
				switch c.decides {
				case "passes":
					require.Equal(t, "check", o.hello().Check)
				case "ends":
					require.ErrorContains(t, <-ended, "has no object")
				default:
					require.Empty(t, ended)
					require.Empty(t, o.hello().GetCheck())
				}
			})
		})
	}
}

// A marked bucket with another bucket id than the state's passes the check by its bundles, and keeps its marker.
func TestBucketCheck_KeepsTheMarker(t *testing.T) {
	for name, c := range map[string]struct {
		found marker.Marker
		says  string
	}{
		"of an agent":          {marker.Marker{ClusterID: clusterID, BucketID: "other"}, ""},
		"of a control plane":   {marker.Marker{ClusterID: clusterID}, ""},
		"of another cluster":   {marker.Marker{ClusterID: "other", BucketID: "other"}, inBucket + ` holds virtual cluster "main" with cluster id other, but the control plane has cluster id ` + clusterID + `: ` + remedy},
		"of a moved cluster's": {marker.Marker{ClusterID: clusterID, BucketID: "other", MovedTo: "s3://new"}, inBucket + `: virtual cluster "main" was moved to s3://new: set --bucket to that`},
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
				require.Equal(t, c.found.BucketID, o.hello().BucketId)
				o.onWelcome(&api.Welcome{ClusterId: clusterID})
				synctest.Wait()
				require.NoError(t, o.ready())
				require.Empty(t, ended)
				there, err := marker.Read(t.Context(), bucket, "main")
				require.NoError(t, err)
				require.Equal(t, c.found, there)
			})
		})
	}
}

// An owner whose connected agents use another bucket refuses without a check. The agent ends after maxRefusals.
func TestBucketCheck_EndsAtARefusedBucket(t *testing.T) {
	const says = inBucket + ` holds virtual cluster "main", but the records are in another bucket: ` + remedy
	for bucketID, says := range map[string]string{
		"other": says, "": says + ", or remove clusters/main if this is the right bucket, and it is written again",
	} {
		t.Run(bucketID, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				mark(t, bucket, marker.Marker{ClusterID: clusterID, BucketID: bucketID})
				o, ended := comparing(t, bucket)
				for range maxRefusals {
					o.hello()
					o.refused(t.Context(), &client.WrongBucketError{ClusterID: clusterID})
					require.Empty(t, ended)
				}
				o.refused(t.Context(), &client.WrongBucketError{ClusterID: clusterID})
				require.EqualError(t, <-ended, says)
			})
		})
	}
}

// Refusals of a Hello without a marker do not count, however long the store is away. Each other marker, or a passed check, has maxRefusals.
func TestBucketCheck_CountsRefusalsOfOneMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := newScripted()
		mark(t, bucket, marker.Marker{ClusterID: clusterID, BucketID: "bucket"})
		away := unusable["timed out"]
		bucket.answer.Store(&away)
		o, ended := comparing(t, bucket)
		refuse := func(times int, check *api.BucketCheck) {
			for range times {
				o.hello()
				o.refused(t.Context(), &client.WrongBucketError{ClusterID: clusterID, VirtualCluster: "main", Check: check})
				synctest.Wait()
				require.Empty(t, ended)
			}
		}
		refuse(10*maxRefusals, nil)
		require.Nil(t, o.hello())
		bucket.answer.Store(nil)
		time.Sleep(markerPause)
		synctest.Wait()
		require.Empty(t, ended, "the first read")
		refuse(maxRefusals, nil)
		refuse(1, &api.BucketCheck{Id: "check"})
		refuse(maxRefusals, nil)
		o.hello()
		o.refused(t.Context(), &client.WrongBucketError{ClusterID: clusterID})
		require.Error(t, <-ended)
	})
}

// The name of the virtual cluster is the configured one, or the first one that a control plane sends.
func TestBucketCheck_KeepsTheName(t *testing.T) {
	for name, configured := range map[string]string{"configured": "main", "first": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				o, ended := comparingAs(t, bucket, configured)
				if configured == "" {
					o.refused(t.Context(), &client.WrongBucketError{ClusterID: clusterID, VirtualCluster: "main"})
				}
				o.hello()
				o.refused(t.Context(), &client.WrongBucketError{ClusterID: clusterID, VirtualCluster: "other", Check: &api.BucketCheck{Id: "check"}})
				require.Empty(t, ended)
				objects, err := bucket.List(t.Context(), "", "", 10)
				require.NoError(t, err)
				require.Len(t, objects, 1)
				require.Equal(t, marker.Key("main"), objects[0].Key)
			})
		})
	}
}

// A check that the store does not answer is repeated.
func TestBucketCheck_IsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := newScripted()
		o, ended := comparing(t, bucket)
		o.hello()
		timedOut := unusable["timed out"]
		bucket.answer.Store(&timedOut)
		o.refused(t.Context(), &client.WrongBucketError{ClusterID: clusterID, Check: &api.BucketCheck{Id: "check"}})
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
		m := marker.Marker{ClusterID: clusterID, BucketID: "bucket"}
		mark(t, bucket, m)
		o, ended := comparing(t, bucket)
		require.ErrorIs(t, o.markAgain(t.Context()), errNotCompared)
		o.onWelcome(&api.Welcome{ClusterId: clusterID})
		synctest.Wait()
		require.NoError(t, o.markAgain(t.Context()), "the marker is there")
		require.NoError(t, bucket.Delete(t.Context(), []string{marker.Key("main")}))
		require.NoError(t, o.markAgain(t.Context()))
		there, err := marker.Read(t.Context(), bucket, "main")
		require.NoError(t, err)
		require.Equal(t, m, there)
		remark(t, bucket, marker.Marker{ClusterID: clusterID, BucketID: "other"})
		require.ErrorIs(t, o.markAgain(t.Context()), errOtherMarker)
		require.Empty(t, ended)
	})
}

// The bound of a check, and a name or an id that no virtual cluster can have: no look-up, no object.
func TestBucketCheck_HostileControlPlane(t *testing.T) {
	for name, c := range map[string]*client.WrongBucketError{
		"bundles": {ClusterID: clusterID, VirtualCluster: "main", Check: &api.BucketCheck{Id: "check", Bundles: make([]uint64, maxCheckBundles+1)}},
		"name":    {ClusterID: clusterID, VirtualCluster: "../other", Check: &api.BucketCheck{Id: "check"}},
		"id":      {ClusterID: "id", VirtualCluster: "main", Check: &api.BucketCheck{Id: "check"}},
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

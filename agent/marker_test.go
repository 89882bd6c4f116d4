package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/mem"
)

// answer is the outcome of a GET: an error, or a body.
type answer struct {
	err  error
	body string
}

// scripted answers GETs as it was set, and from the bucket below by default.
type scripted struct {
	*mem.Bucket
	answer atomic.Pointer[answer]
	gets   atomic.Int64
}

func newScripted() *scripted { return &scripted{Bucket: mem.New()} }

func (s *scripted) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	s.gets.Add(1)
	a := s.answer.Load()
	switch {
	case a == nil:
		return s.Bucket.Get(ctx, key, offset, length)
	case a.err != nil:
		return nil, a.err
	}
	return io.NopCloser(bytes.NewReader([]byte(a.body))), nil
}

// unusable are the answers to a GET of the marker that contain no id.
var unusable = map[string]answer{
	"absent":            {err: objstore.ErrNotFound},
	"access refused":    {err: objstore.ErrRefused},
	"throttled":         {err: objstore.ErrThrottled},
	"timed out":         {err: context.DeadlineExceeded},
	"connection lost":   {err: &net.OpError{Op: "read", Err: io.ErrUnexpectedEOF}},
	"empty":             {},
	"cut off":           {body: `{"format":1,"clus`},
	"of a proxy":        {body: "<html>"},
	"of a newer format": {body: `{"format":2,"id":"id"}`},
}

// comparing runs an ownership in a bubble until the test ends.
func comparing(t *testing.T, bucket objstore.Bucket) (o *ownership, ended <-chan error) {
	t.Helper()
	return comparingAs(t, bucket, "main")
}

// comparingAs is comparing with the name of a virtual cluster, or "" for an agent that has none.
func comparingAs(t *testing.T, bucket objstore.Bucket, virtualCluster string) (o *ownership, ended <-chan error) {
	t.Helper()
	o = newOwnership(bucket, &Config{VirtualCluster: virtualCluster, BucketURL: "s3://records/a?secret-key=hidden", Log: zap.NewNop()})
	works, done := make(chan struct{}), make(chan error, 1)
	close(works)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- o.run(ctx, works) }()
	t.Cleanup(cancel)
	synctest.Wait()
	return o, done
}

// joined is comparing with a bucket that was found to be the cluster's.
func joined(t *testing.T, bucket objstore.Bucket) (o *ownership, ended <-chan error) {
	t.Helper()
	mark(t, bucket, marker.Marker{ClusterID: "id"})
	o, ended = comparing(t, bucket)
	o.onWelcome(&api.Welcome{ClusterId: "id"})
	synctest.Wait()
	require.NoError(t, o.ready())
	return o, ended
}

func mark(t *testing.T, bucket objstore.Bucket, m marker.Marker) {
	t.Helper()
	_, err := marker.Create(t.Context(), bucket, "main", m)
	require.NoError(t, err)
}

func remark(t *testing.T, bucket objstore.Bucket, m marker.Marker) {
	t.Helper()
	require.NoError(t, bucket.Delete(t.Context(), []string{marker.Key("main")}))
	mark(t, bucket, m)
}

func TestOwnership_OpensTheGateForTheClustersBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := mem.New()
		mark(t, bucket, marker.Marker{ClusterID: "id"})
		o, _ := comparing(t, bucket)
		require.Equal(t, "id", o.hello().GetClusterId())
		require.ErrorIs(t, o.ready(), errNotCompared, "no Welcome has come")
		o.onWelcome(&api.Welcome{ClusterId: "id"})
		synctest.Wait()
		require.NoError(t, o.ready())
	})
}

const (
	inBucket = "--bucket s3://records/a?secret-key=redacted"
	remedy   = "set --bucket to that of the virtual cluster's records"
)

// wrongBuckets are markers that end an agent, with its error.
var wrongBuckets = map[string]struct {
	found marker.Marker
	says  string
}{
	"another cluster's": {marker.Marker{ClusterID: "other"}, inBucket + ` holds virtual cluster "main" with cluster id other, but the control plane has cluster id id: ` + remedy},
	"moved":             {marker.Marker{ClusterID: "id", MovedTo: "s3://new"}, inBucket + `: virtual cluster "main" was moved to s3://new: set --bucket to that`},
}

// The control plane's id comes with a Welcome, or with a refusal if Hello named another id.
// TestOwnership_WaitsForTheName: an agent without the name of its virtual cluster reads no marker before a Welcome has told the name.
func TestOwnership_WaitsForTheName(t *testing.T) {
	for name, found := range map[string]string{"own bucket": "id", "another cluster's bucket": "other"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := newScripted()
				mark(t, bucket, marker.Marker{ClusterID: found})
				gets := bucket.gets.Load()
				o, ended := comparingAs(t, bucket, "")
				time.Sleep(time.Hour)
				require.Equal(t, gets, bucket.gets.Load())
				require.Nil(t, o.hello())
				o.onWelcome(&api.Welcome{ClusterId: "id", VirtualCluster: "main"})
				synctest.Wait()
				if found == "id" {
					require.NoError(t, o.ready())
					return
				}
				require.ErrorContains(t, <-ended, `holds virtual cluster "main" with cluster id other`)
			})
		})
	}
}

func TestOwnership_EndsAtAnotherClustersBucket(t *testing.T) {
	for name, c := range wrongBuckets {
		for by, tell := range map[string]func(ctx context.Context, o *ownership){
			"Welcome": func(_ context.Context, o *ownership) { o.onWelcome(&api.Welcome{ClusterId: "id"}) },
			"refusal": func(ctx context.Context, o *ownership) { o.refused(ctx, &client.WrongBucketError{ClusterID: "id"}) },
		} {
			t.Run(name+", "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					bucket := mem.New()
					mark(t, bucket, c.found)
					o, ended := comparing(t, bucket)
					if c.found.MovedTo == "" { // no id is needed to end at a moved cluster's bucket
						require.Empty(t, ended)
						tell(t.Context(), o)
					}
					require.EqualError(t, <-ended, c.says)
					require.Error(t, o.ready())
				})
			})
		}
	}
}

func TestOwnership_EndsWhenItsBucketBecomesAnotherClusters(t *testing.T) {
	for name, c := range wrongBuckets {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				o, ended := joined(t, bucket)
				remark(t, bucket, c.found)
				o.onWelcome(&api.Welcome{ClusterId: "id"})
				require.EqualError(t, <-ended, c.says)
			})
		})
	}
}

// An owner with another cluster id refuses an agent whose gate is open. The marker decides.
func TestOwnership_EndsAtAnotherClustersControlPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, ended := joined(t, mem.New())
		o.refused(t.Context(), &client.WrongBucketError{ClusterID: "other"})
		require.EqualError(t, <-ended, inBucket+` holds virtual cluster "main" with cluster id id, but the control plane has cluster id other: `+remedy)
	})
}

func TestOwnership_MarkerThatStaysUnusableEndsItByItsCause(t *testing.T) {
	const says = inBucket + ": read clusters/main: "
	const forRights = ": grant the agent the rights to read the object and to list the bucket, or " + remedy
	const forObject = ": " + remedy + ", or remove the object if this is the right bucket, and it is written again"
	for name, c := range map[string]struct {
		says  string
		after time.Duration
	}{
		"absent":            {inBucket + ` has no object clusters/main, but the control plane has cluster id id for virtual cluster "main": ` + remedy, markerPatience},
		"access refused":    {says + "object store refuses access" + forRights, markerPatience},
		"empty":             {says + "malformed cluster-id object: it is empty" + forObject, markerPatience},
		"cut off":           {says + "malformed cluster-id object: unexpected end of JSON input" + forObject, markerPatience},
		"of a newer format": {says + "cluster-id object of a newer format: format 2, this program reads format 1: upgrade this program, or " + remedy, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := newScripted()
				bucket.answer.Store(new(unusable[name]))
				o, ended := comparing(t, bucket)
				if c.after > 0 {
					require.Empty(t, o.hello().GetClusterId())
					time.Sleep(time.Hour) // without a control plane the agent waits
				}
				o.onWelcome(&api.Welcome{ClusterId: "id"})
				began := time.Now()
				require.EqualError(t, <-ended, c.says)
				require.InDelta(t, c.after.Seconds(), time.Since(began).Seconds(), 1)
				require.Error(t, o.ready())
			})
		})
	}
}

// The control plane's store was away when it started, so the marker comes later.
func TestOwnership_WaitsForTheMarker(t *testing.T) {
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
		require.Equal(t, "id", o.hello().GetClusterId())
	})
}

// refused returns as soon as there is another marker to report, and pauses before the next Hello otherwise.
func TestOwnership_RefusedWaitsForTheMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := mem.New()
		o, ended := comparing(t, bucket)
		wrong := &client.WrongBucketError{ClusterID: "id"}
		require.Empty(t, o.hello().GetClusterId())
		began := time.Now()
		o.refused(t.Context(), wrong)
		require.Equal(t, refusedPause, time.Since(began))
		time.AfterFunc(time.Second, func() { mark(t, bucket, marker.Marker{ClusterID: "id"}) })
		o.refused(t.Context(), wrong)
		require.Less(t, time.Since(began), refusedPause+2*time.Second)
		require.Equal(t, "id", o.hello().GetClusterId())
		require.Error(t, o.ready(), "the owner has not let the agent in")
		began = time.Now()
		o.refused(t.Context(), wrong)
		require.Equal(t, refusedPause, time.Since(began), "the owner knows this marker")
		o.onWelcome(&api.Welcome{ClusterId: "id"})
		synctest.Wait()
		require.NoError(t, o.ready())
		require.Empty(t, ended)
	})
}

// Misses count only without another outcome between them.
func TestOwnership_PatienceCountsConsecutiveMisses(t *testing.T) {
	for _, between := range []string{"throttled", "timed out", "connection lost"} {
		t.Run(between, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := newScripted()
				refused, other := unusable["access refused"], unusable[between]
				bucket.answer.Store(&refused)
				o, ended := comparing(t, bucket)
				o.onWelcome(&api.Welcome{ClusterId: "id"})
				for range 10 {
					time.Sleep(markerPatience - 2*time.Second)
					bucket.answer.Store(&other)
					time.Sleep(time.Second)
					bucket.answer.Store(&refused)
				}
				require.Empty(t, ended)
				require.ErrorIs(t, <-ended, objstore.ErrRefused)
			})
		})
	}
}

// The store withholds the marker of an agent that runs, while the agent's owner changes and after it. The owner still hears the id.
func TestOwnership_OutlivesAnUnusableMarker(t *testing.T) {
	for name, a := range unusable {
		for _, lasts := range []time.Duration{0, 35 * time.Second, 24 * time.Hour} {
			t.Run(fmt.Sprintf("%s for %s", name, lasts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					bucket := newScripted()
					o, ended := joined(t, bucket)
					for range 3 {
						bucket.answer.Store(&a)
						o.onWelcome(&api.Welcome{ClusterId: "id"})
						synctest.Wait()
						before := bucket.gets.Load()
						time.Sleep(lasts)
						require.LessOrEqual(t, bucket.gets.Load()-before, int64(lasts/markerRepeat)+1)
						require.Equal(t, "id", o.hello().GetClusterId())
						o.refused(t.Context(), &client.WrongBucketError{ClusterID: "id"})
						bucket.answer.Store(nil)
						time.Sleep(time.Hour)
					}
					require.Empty(t, ended)

					bucket.answer.Store(&a)
					o.onWelcome(&api.Welcome{ClusterId: "id"})
					synctest.Wait()
					remark(t, bucket.Bucket, marker.Marker{ClusterID: "other"})
					bucket.answer.Store(nil)
					require.ErrorContains(t, <-ended, "cluster id other", "the next read finds another cluster's marker")
				})
			})
		}
	}
}

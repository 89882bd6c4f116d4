package controlplane

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
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
	return &bucketCheck{bucketFacts: bucketFacts{
		setting: "--bucket", records: true, bucket: bucket, gate: marker.NewGate(bucket), location: "s3://records", etcdPrefix: "/freshet", virtualCluster: "main",
		log: zap.NewNop(), metalog: pointers{refs: refs},
		clusterID: func() string { return clusterID }, owner: func() *owner.Owner { return nil },
	}}
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
	done, err := c.attempt(t.Context())
	require.NoError(t, err)
	require.True(t, done)
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

// ownerOf returns an owner in a bubble whose state refers to n bundles, and the keys of their objects.
func ownerOf(t *testing.T, n int) (o *owner.Owner, keys []string) {
	t.Helper()
	log, _, err := memlog.New().Open("a", metalog.Config{})
	require.NoError(t, err)
	tenure, err := log.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
	require.NoError(t, err)
	o, err = owner.New(owner.Config{Tenure: tenure, State: metadata.New()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, tenure.Resign(context.WithoutCancel(ctx)))
	})
	topic := id.Topic{1}
	commands := []metadata.Command{
		&metadata.Bootstrap{ClusterID: "id"}, &metadata.OpenSession{Instance: "i"}, &metadata.CreateTopic{ID: topic, Name: "t", Partitions: 1},
	}
	for i := range uint32(n) {
		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: i + 1}, Bytes: 116})
		b.Section(commit.Section{Partition: id.TopicPartition{Topic: topic}, Position: 16})
		b.Batch(commit.Batch{Records: 10, Bytes: 100, ProducerID: -1})
		commands = append(commands, &metadata.CommitBundle{Encoded: b.AppendTo(nil)})
	}
	for _, command := range commands {
		result, _, err := o.Propose(t.Context(), command)
		require.NoError(t, err)
		require.NoError(t, result.Err)
	}
	_, err = o.ReadFrozen(func(s *metadata.State) {
		for b := range s.Bundles() {
			keys = append(keys, bundle.Key(BundlePrefix("id"), b))
		}
	})
	require.NoError(t, err)
	require.Len(t, keys, n)
	return o, keys
}

// running is a check that runs in a bubble until the test ends.
type running struct {
	*bucketCheck
	ended    chan error
	logged   *observer.ObservedLogs
	failures atomic.Int64 // calls of failed
}

// checking runs a check on the owner, or with nil on another replica.
func checking(t *testing.T, bucket objstore.Bucket, o *owner.Owner, snapshots ...string) *running {
	t.Helper()
	return runCheck(t, checkOf(bucket, "id", snapshots...), o)
}

// runCheck runs a check until the test ends.
func runCheck(t *testing.T, c *bucketCheck, o *owner.Owner) *running {
	t.Helper()
	r := &running{bucketCheck: c, ended: make(chan error, 1)}
	var core zapcore.Core
	core, r.logged = observer.New(zap.WarnLevel)
	r.log, r.owner = zap.New(core), func() *owner.Owner { return o }
	r.failed = func(time.Time) { r.failures.Add(1) }
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		err := r.run(ctx, works())
		r.wait()
		r.ended <- err
	}()
	t.Cleanup(cancel)
	synctest.Wait()
	return r
}

func remove(t *testing.T, bucket objstore.Bucket, keys ...string) {
	t.Helper()
	require.NoError(t, bucket.Delete(t.Context(), keys))
}

func mark(t *testing.T, bucket objstore.Bucket, m marker.Marker) {
	t.Helper()
	there, err := marker.Create(t.Context(), bucket, "main", m)
	require.NoError(t, err)
	require.Equal(t, m, there)
}

// The owner writes a removed marker again while it runs. A replica that started without the marker gets ready then.
func TestBucketCheck_OwnerWritesARemovedMarkerAgain(t *testing.T) {
	const snapshot = "id/snapshots/0001-aa"
	for name, c := range map[string]struct {
		bundles, kept int
		snapshots     []string
	}{
		"of a cluster without records":          {},
		"of a cluster with bundles":             {bundles: 2, kept: 2},
		"of a cluster that lost a bundle":       {bundles: 2, kept: 1},
		"of a cluster with a snapshot":          {snapshots: []string{snapshot}},
		"of a cluster with snapshot and bundle": {bundles: 1, kept: 1, snapshots: []string{snapshot}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				mark(t, bucket, marker.Marker{ClusterID: "id"})
				o, keys := ownerOf(t, c.bundles)
				for _, key := range keys[:c.kept] {
					put(t, bucket, key)
				}
				for _, name := range c.snapshots {
					put(t, bucket, name+"/manifest")
				}
				owning := checking(t, bucket, o, c.snapshots...)
				require.True(t, owning.marked())
				for range 2 { // each removal is made good
					time.Sleep(time.Hour + time.Second) // between two attempts of the owner
					remove(t, bucket, marker.Key("main"))
					restarted := checking(t, bucket, nil, c.snapshots...)
					require.Equal(t, len(c.snapshots) > 0, restarted.marked(), "any replica recognizes a snapshot")
					time.Sleep(markerRepeat + markerPause)
					synctest.Wait()
					there, err := marker.Read(t.Context(), bucket, "main")
					require.NoError(t, err)
					require.Equal(t, marker.Marker{ClusterID: "id"}, there)
					require.True(t, restarted.marked())
				}
				require.Empty(t, owning.ended)
			})
		})
	}
}

// A replica that runs goes on with another cluster's marker in its bucket, and leaves the marker there. Its log has one line.
func TestBucketCheck_RunningReplicaOutlivesAWrongMarker(t *testing.T) {
	for name, c := range map[string]struct {
		m    marker.Marker
		lost bool // the bundles
		says string
	}{
		"another cluster's":             {m: marker.Marker{ClusterID: "other"}, says: "with cluster id other"},
		"moved":                         {m: marker.Marker{ClusterID: "id", MovedTo: "s3://new"}, says: "was moved to s3://new"},
		"none, and none of the objects": {lost: true, says: "has no object id/bundles/"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := mem.New()
				mark(t, bucket, marker.Marker{ClusterID: "id"})
				o, keys := ownerOf(t, 1)
				put(t, bucket, keys[0])
				owning, other := checking(t, bucket, o), checking(t, bucket, nil)
				remove(t, bucket, marker.Key("main"))
				if c.lost {
					remove(t, bucket, keys...)
				} else {
					mark(t, bucket, c.m)
				}
				time.Sleep(time.Hour)
				there, err := marker.Read(t.Context(), bucket, "main")
				require.Equal(t, c.lost, errors.Is(err, objstore.ErrNotFound))
				require.Equal(t, c.m, there)
				for _, r := range []*running{owning, other} {
					require.Empty(t, r.ended)
					require.True(t, r.marked())
				}
				require.Empty(t, other.logged.All())
				lines := owning.logged.All()
				require.Len(t, lines, 1)
				require.Contains(t, lines[0].ContextMap()["error"], c.says)
			})
		})
	}
}

// counted counts GETs, and answers them with a body or an error if one is set.
type counted struct {
	*mem.Bucket
	gets   atomic.Int64
	answer atomic.Pointer[func() (io.ReadCloser, error)]
}

func (c *counted) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	c.gets.Add(1)
	if answer := c.answer.Load(); answer != nil {
		return (*answer)()
	}
	return c.Bucket.Get(ctx, key, offset, length)
}

// A replica that starts repeats an unusable answer, and /readyz has its cause. A replica that runs goes on.
func TestBucketCheck_OutlivesAnUnusableMarker(t *testing.T) {
	body := func(s string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
	}
	fails := func(err error) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		answer func() (io.ReadCloser, error)
		says   string
		away   bool
	}{
		"empty":          {body(""), `--bucket s3://records: read clusters/main: malformed cluster-id object: it is empty: remove the object`, false},
		"cut off":        {body(`{"form`), `malformed cluster-id object: unexpected end of JSON input: remove the object`, false},
		"access refused": {fails(objstore.ErrRefused), "read clusters/main: object store refuses access", true},
		"throttled":      {fails(objstore.ErrThrottled), "read clusters/main: object store throttles", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bucket := &counted{Bucket: mem.New()}
				mark(t, bucket, marker.Marker{ClusterID: "id"})
				o, _ := ownerOf(t, 0)
				owning := checking(t, bucket, o)
				bucket.answer.Store(&c.answer)
				restarted := checking(t, bucket, nil)
				time.Sleep(time.Minute)
				require.ErrorContains(t, restarted.reason(metalog.Owner{}), c.says)
				require.Len(t, owning.logged.All(), 1)
				require.Len(t, restarted.logged.All(), 1)
				require.Equal(t, c.away, owning.failures.Load() > 0, "reported to the watch of the store")
				bucket.answer.Store(nil)
				time.Sleep(markerRepeat)
				require.True(t, restarted.marked())
				require.Empty(t, owning.ended)
				require.Empty(t, restarted.ended)
			})
		})
	}
}

// A marker of a newer format ends a replica that starts.
func TestBucketCheck_EndsAtANewerFormat(t *testing.T) {
	bucket := mem.New()
	require.NoError(t, bucket.Put(t.Context(), marker.Key("main"), objstore.NewBody([]byte(`{"format":2,"cluster_id":"id"}`))))
	require.EqualError(t, checkOf(bucket, "id").run(t.Context(), works()), `--bucket s3://records: read clusters/main: cluster-id object of a newer format: `+
		`format 2, this program reads format 1: upgrade this program, or set --bucket to the bucket of virtual cluster "main"`)
}

func TestBucketCheck_RepeatsOnTheOwnerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &counted{Bucket: mem.New()}
		mark(t, bucket, marker.Marker{ClusterID: "id"})
		checking(t, bucket, nil)
		require.EqualValues(t, 1, bucket.gets.Load())
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, bucket.gets.Load())
		o, _ := ownerOf(t, 0)
		checking(t, bucket, o)
		time.Sleep(time.Hour + time.Second)
		require.EqualValues(t, 2+time.Hour/markerRepeat, bucket.gets.Load())
	})
}

// TestBucketCheck_IdleStateBucket: the owner of an idle virtual cluster does not read a bucket of the state alone again.
func TestBucketCheck_IdleStateBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &counted{Bucket: mem.New()}
		mark(t, bucket, marker.Marker{ClusterID: "id"})
		o, _ := ownerOf(t, 0)
		state := checkOf(bucket, "id")
		state.records = false
		runCheck(t, state, o)
		time.Sleep(time.Minute)
		idle := bucket.gets.Load()
		time.Sleep(time.Hour)
		require.Equal(t, idle, bucket.gets.Load())

		remove(t, bucket, marker.Key("main"))
		_, _, err := o.Propose(t.Context(), &metadata.OpenSession{Instance: "j"})
		require.NoError(t, err)
		time.Sleep(markerRepeat + time.Second)
		_, err = marker.Read(t.Context(), bucket, "main")
		require.NoError(t, err, "written again after an entry")
	})
}

// TestMarker_WrittenWithinTheAgentsPatience: an agent that starts without the marker ends after 12 s (absentPatience in package agent) if its
// owner refuses the bucket. The owner writes a removed marker again before that, also after one throttled GET.
func TestMarker_WrittenWithinTheAgentsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &counted{Bucket: mem.New()}
		mark(t, bucket, marker.Marker{ClusterID: "id"})
		o, _ := ownerOf(t, 0)
		checking(t, bucket, o)
		time.Sleep(time.Hour + time.Second)
		remove(t, bucket, marker.Key("main"))
		removed := time.Now()
		failed := func() (io.ReadCloser, error) {
			bucket.answer.Store(nil) // once
			return nil, objstore.ErrThrottled
		}
		bucket.answer.Store(&failed)
		for {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if bucket.answer.Load() != nil {
				continue
			}
			if _, err := marker.Read(t.Context(), bucket, "main"); err == nil {
				break
			}
		}
		t.Logf("written again after %v", time.Since(removed))
		require.Less(t, time.Since(removed), 12*time.Second)
	})
}

// TestBucketCheck_WithoutRecords: a state bucket holds snapshots. Bundles are elsewhere, so the state's bundles are not looked up.
func TestBucketCheck_WithoutRecords(t *testing.T) {
	bucket := mem.New()
	put(t, bucket, "id/snapshots/0002-bb/manifest")
	state := checkOf(bucket, "id", "id/snapshots/0002-bb")
	state.setting, state.records = "--state-bucket", false
	done, err := state.attempt(t.Context())
	require.NoError(t, err)
	require.True(t, done)

	other := checkOf(mem.New(), "id", "id/snapshots/0002-bb")
	other.setting, other.records = "--state-bucket", false
	_, err = other.attempt(t.Context())
	require.EqualError(t, err, `--state-bucket s3://records has no object id/snapshots/0002-bb, which etcd under --etcd-prefix /freshet refers to for virtual cluster "main": `+
		`set --state-bucket, --etcd and --etcd-prefix to those of one cluster`)
}

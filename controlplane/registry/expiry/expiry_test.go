package expiry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/mem"
)

var start = time.Date(2026, 11, 28, 6, 30, 0, 0, time.UTC)

// fixture is two Sweepers on one etcd with one clock.
type fixture struct {
	reg      *registry.Registry
	dir      directory.Directory
	bucket   *mem.Bucket
	sweepers [2]*Sweeper
	busy     [2]string // cluster that is not idle at each
	clock    time.Time
}

// timed is a bucket with the time of a test.
type timed struct {
	*mem.Bucket
	now func() time.Time
}

func (b timed) Now(context.Context) (time.Time, error) { return b.now(), nil }

func snapshots(clusterID string) string { return clusterID + "/snapshots/" }

func open(t *testing.T) *fixture {
	t.Helper()
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	f := &fixture{clock: start, bucket: mem.New(), dir: directory.Directory{Client: etcd.Client(), Prefix: "/p"}}
	now := func() time.Time { return f.clock }
	f.reg = registry.New(registry.Config{Client: etcd.Client(), Prefix: "/p", Now: now})
	for i := range f.sweepers {
		f.sweepers[i] = New(Config{
			Registry: f.reg, Directory: f.dir, Bucket: timed{f.bucket, now}, Snapshots: snapshots, Now: now, Idle: func(clusterID string) bool { return f.busy[i] != clusterID }, Log: zap.NewNop(), Registerer: prometheus.NewRegistry(),
		})
	}
	return f
}

func (f *fixture) signUpDemo(t *testing.T, name string) (clusterID string) {
	t.Helper()
	_, clusterID = f.signUpAs(t, name, true)
	return clusterID
}

// signUp signs an account up, with the Spec of its cluster.
func (f *fixture) signUp(t *testing.T, name string) (a *registry.Account, clusterID string) {
	t.Helper()
	return f.signUpAs(t, name, false)
}

func (f *fixture) signUpAs(t *testing.T, name string, demo bool) (a *registry.Account, clusterID string) {
	t.Helper()
	clusterID = id.NewCluster()
	a, err := f.reg.SignUp(t.Context(), registry.NewSignUp{
		NewAccount: registry.NewAccount{Email: name + "@example.com", Name: name, PasswordHash: "$argon2id$"}, Address: "192.0.2.1",
		Team: name, ClusterID: clusterID, Cluster: "main", KeyName: "sign-up", KeyShown: "fsk_AAAAAAAA", Key: accesskey.HashOf(name), Demo: demo,
	})
	require.NoError(t, err)
	f.writeSpec(t, clusterID)
	return a, clusterID
}

func (f *fixture) writeSpec(t *testing.T, clusterID string) {
	t.Helper()
	spec := &directory.Spec{ID: clusterID, Name: clusterID, State: directory.Active, Memory: directory.DefaultMemory, DefaultPartitions: 1}
	require.NoError(t, f.dir.Create(t.Context(), spec))
	_, err := f.dir.PeerSecret(t.Context(), clusterID)
	require.NoError(t, err)
	_, err = f.dir.Client.Put(t.Context(), "/p/"+clusterID+"/log/0000000000000001", "entry")
	require.NoError(t, err)
	require.NoError(t, f.bucket.Put(t.Context(), snapshots(clusterID)+"0000000000000001-00000001/manifest", objstore.NewBody([]byte("snapshot"))))
	_, err = marker.Create(t.Context(), f.bucket, clusterID, marker.Marker{ClusterID: clusterID})
	require.NoError(t, err)
}

// objects returns the number of objects of a cluster.
func (f *fixture) objects(t *testing.T, clusterID string) (n int) {
	t.Helper()
	infos, err := f.bucket.List(t.Context(), "", "", objstore.MaxKeys)
	require.NoError(t, err)
	for _, info := range infos {
		if strings.Contains(info.Key, clusterID) {
			n++
		}
	}
	return n
}

// set changes the state of a cluster's record and Spec.
func (f *fixture) set(t *testing.T, clusterID string, state directory.State) {
	t.Helper()
	require.NoError(t, f.reg.UpdateCluster(t.Context(), by, clusterID, func(c *registry.Cluster) error { c.State = state; return nil }))
	spec, revision, err := f.dir.Get(t.Context(), clusterID)
	require.NoError(t, err)
	spec.State = state
	require.NoError(t, f.dir.Update(t.Context(), spec, revision))
}

func (f *fixture) sweep(t *testing.T) {
	t.Helper()
	require.NoError(t, f.sweepers[0].Sweep(t.Context()))
}

// states returns the states of a cluster's record and Spec, "" for none.
func (f *fixture) states(t *testing.T, clusterID string) (record, spec directory.State) {
	t.Helper()
	c, err := f.reg.Cluster(t.Context(), clusterID)
	if err == nil {
		record = c.State
	} else {
		require.ErrorIs(t, err, registry.ErrNotFound)
	}
	s, _, err := f.dir.Get(t.Context(), clusterID)
	require.NoError(t, err)
	if s != nil {
		spec = s.State
	}
	return record, spec
}

func (f *fixture) requireStates(t *testing.T, clusterID string, record, spec directory.State) {
	t.Helper()
	gotRecord, gotSpec := f.states(t, clusterID)
	require.Equal(t, []directory.State{record, spec}, []directory.State{gotRecord, gotSpec})
}

// keys returns the keys that have a text in them, or in their values.
func (f *fixture) keys(t *testing.T, part string) (keys []string) {
	t.Helper()
	resp, err := f.dir.Client.Get(t.Context(), "/p/", clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		if strings.Contains(string(kv.Key), part) || strings.Contains(string(kv.Value), part) {
			keys = append(keys, string(kv.Key))
		}
	}
	return keys
}

// TestSweep_Cluster: a cluster without a call of an agent is deleted after ClusterLife, can be brought back for registry.UndeleteTime, and then leaves nothing in etcd.
func TestSweep_Cluster(t *testing.T) {
	f := open(t)
	_, clusterID := f.signUp(t, "ada")
	f.clock = f.clock.Add(ClusterLife - time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Active, directory.Active)
	f.clock = f.clock.Add(time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)

	f.set(t, clusterID, directory.Active)
	f.clock = f.clock.Add(ClusterLife - time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Active, directory.Active)

	f.clock = f.clock.Add(time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
	f.clock = f.clock.Add(registry.UndeleteTime - time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
	require.Positive(t, f.objects(t, clusterID))
	f.clock = f.clock.Add(time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, "", "")
	require.Zero(t, f.objects(t, clusterID))
	for _, key := range f.keys(t, clusterID) {
		require.Contains(t, key, "/audit/")
	}
	require.InDelta(t, 1, testutil.ToFloat64(f.sweepers[0].metrics.steps.WithLabelValues(string(clusterRemoved))), 0)
}

// TestSweep_ClusterStays: each reason for which a cluster stays.
func TestSweep_ClusterStays(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	_, called := f.signUp(t, "called")
	require.NoError(t, f.reg.ClusterContacted(ctx, called))
	approved, ofApproved := f.signUp(t, "approved")
	require.NoError(t, f.reg.ApproveTeam(ctx, by, approved.Teams[0]))
	operators, err := f.reg.CreateAccount(ctx, registry.NewAccount{Email: "operators@example.com", Name: "operators"})
	require.NoError(t, err)
	team, err := f.reg.CreateTeam(ctx, by, "operators", operators.ID)
	require.NoError(t, err)
	ofOperators := id.NewCluster()
	require.NoError(t, f.reg.CreateCluster(ctx, by, team.ID, ofOperators, "main"))
	f.writeSpec(t, ofOperators)
	byHand := id.NewCluster()
	f.writeSpec(t, byHand)
	f.clock = f.clock.Add(ContactLife - time.Millisecond)
	f.sweep(t)
	f.requireStates(t, called, directory.Active, directory.Active)
	require.NoError(t, f.reg.ClusterContacted(ctx, called))
	f.set(t, called, directory.Suspended)
	f.clock = f.clock.Add(ContactLife - time.Millisecond)
	f.sweep(t)
	f.requireStates(t, called, directory.Suspended, directory.Suspended)
	f.clock = f.clock.Add(10 * AccountLife)
	f.sweep(t)
	for _, clusterID := range []string{ofApproved, ofOperators} {
		f.requireStates(t, clusterID, directory.Active, directory.Active)
	}
	f.requireStates(t, byHand, "", directory.Active)
}

// TestSweep_LastContact: a cluster of a verified account is deleted ContactLife after the last contact of an agent. If it is brought back, that time begins
// again.
func TestSweep_LastContact(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	a, clusterID := f.signUp(t, "ada")
	require.NoError(t, f.reg.UpdateAccount(ctx, a.ID, func(a *registry.Account) error { a.Verified = start; return nil }))
	require.NoError(t, f.reg.ClusterContacted(ctx, clusterID))
	f.clock = f.clock.Add(ContactLife - time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Active, directory.Active)
	f.clock = f.clock.Add(time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
	f.set(t, clusterID, directory.Active)
	f.clock = f.clock.Add(ContactLife - time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Active, directory.Active)
	f.clock = f.clock.Add(time.Millisecond)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
}

// TestSweep_Served: a cluster in use whose record has the first contact alone stays, whichever replica sweeps. Once it is idle, its owner deletes it.
func TestSweep_Served(t *testing.T) {
	f := open(t)
	_, clusterID := f.signUp(t, "ada")
	_, suspended := f.signUp(t, "bob")
	for _, c := range []string{clusterID, suspended} {
		require.NoError(t, f.reg.ClusterContacted(t.Context(), c))
	}
	f.set(t, suspended, directory.Suspended)
	f.clock = f.clock.Add(2 * ContactLife)
	f.busy = [2]string{clusterID, clusterID}
	for _, s := range f.sweepers {
		require.NoError(t, s.Sweep(t.Context()))
	}
	f.requireStates(t, clusterID, directory.Active, directory.Active)
	f.requireStates(t, suspended, directory.Deleted, directory.Deleted)
	f.busy[1] = ""
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Active, directory.Active)
	require.NoError(t, f.sweepers[1].Sweep(t.Context()))
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
}

// TestRun_FirstSweep: a replica that has just started leaves agents time to call.
func TestRun_FirstSweep(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			asked := make(chan time.Duration, 1)
			bucket := timed{mem.New(), func() time.Time {
				select {
				case asked <- time.Since(began):
				default:
				}
				return time.Time{} // the sweep ends
			}}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- New(Config{Bucket: bucket, Log: zap.NewNop()}).Run(ctx) }()
			first := <-asked
			require.GreaterOrEqual(t, first, firstSweep)
			require.Less(t, first, sweepPause)
			cancel()
			require.NoError(t, <-ended)
		})
	}
}

// TestSweep_Deleted: a cluster that its user deletes of any team is purged, whether or not an agent has called. A suspended one that no agent
// ever called expires.
func TestSweep_Deleted(t *testing.T) {
	f := open(t)
	_, called := f.signUp(t, "called")
	require.NoError(t, f.reg.ClusterContacted(t.Context(), called))
	verified, ofVerified := f.signUp(t, "verified")
	require.NoError(t, f.reg.UpdateAccount(t.Context(), verified.ID, func(a *registry.Account) error { a.Verified = start; return nil }))
	_, suspended := f.signUp(t, "suspended")
	f.set(t, suspended, directory.Suspended)
	f.set(t, called, directory.Deleted)
	f.set(t, ofVerified, directory.Deleted)
	f.clock = f.clock.Add(registry.UndeleteTime)
	f.sweep(t)
	f.requireStates(t, called, "", "")
	f.requireStates(t, ofVerified, "", "")
	f.clock = f.clock.Add(ClusterLife)
	f.sweep(t)
	f.requireStates(t, suspended, directory.Deleted, directory.Deleted)
}

// TestSweep_Demo: a demo is deleted at its time, even if an agent has called or it is suspended, cannot be brought back, and is purged.
func TestSweep_Demo(t *testing.T) {
	f := open(t)
	ada, bob := f.signUpDemo(t, "ada"), f.signUpDemo(t, "bob")
	require.NoError(t, f.reg.ClusterContacted(t.Context(), ada))
	f.set(t, bob, directory.Suspended)
	f.clock = f.clock.Add(registry.DemoLife - time.Millisecond)
	f.sweep(t)
	f.requireStates(t, ada, directory.Active, directory.Active)
	f.clock = f.clock.Add(time.Millisecond)
	f.sweep(t)
	for _, clusterID := range []string{ada, bob} {
		f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
		err := f.reg.UpdateCluster(t.Context(), by, clusterID, func(c *registry.Cluster) error { c.State = directory.Active; return nil })
		require.ErrorIs(t, err, registry.ErrExpired)
	}
	f.clock = f.clock.Add(registry.UndeleteTime)
	f.sweep(t)
	f.requireStates(t, ada, "", "")
}

// TestPurge: a purge waits for all replicas to leave, removes everything, and leaves other deleted clusters alone.
func TestPurge(t *testing.T) {
	f := open(t)
	ctx, s := t.Context(), f.sweepers[0]
	_, clusterID := f.signUp(t, "ada")
	_, other := f.signUp(t, "bob")
	require.ErrorIs(t, f.reg.PurgeCluster(ctx, by, clusterID), registry.ErrNotDeleted)
	f.set(t, other, directory.Deleted)
	f.set(t, clusterID, directory.Deleted)
	for range 2 {
		require.NoError(t, f.reg.PurgeCluster(ctx, by, clusterID))
	}
	require.ErrorIs(t, f.reg.UpdateCluster(ctx, by, clusterID, func(c *registry.Cluster) error { c.State = directory.Active; return nil }), registry.ErrPurged)
	require.ErrorIs(t, s.Purge(ctx), errServed, "just deleted")
	require.InDelta(t, 1, testutil.ToFloat64(s.metrics.backlog.WithLabelValues("purge")), 0)
	f.clock = f.clock.Add(settleTime)
	owner := "/p/+owners/" + clusterID
	_, err := f.dir.Client.Put(ctx, owner, "{}")
	require.NoError(t, err)
	require.ErrorIs(t, s.Purge(ctx), errServed)
	require.ErrorIs(t, f.reg.RemoveCluster(ctx, by, clusterID, f.removal(t, clusterID)), registry.ErrConflict, "the transaction looks too")
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
	require.Positive(t, f.objects(t, clusterID))
	_, err = f.dir.Client.Delete(ctx, owner)
	require.NoError(t, err)
	require.NoError(t, s.Purge(ctx))
	require.InDelta(t, 0, testutil.ToFloat64(s.metrics.backlog.WithLabelValues("purge")), 0)
	require.Zero(t, f.objects(t, clusterID))
	for _, key := range f.keys(t, clusterID) {
		require.Contains(t, key, "/audit/")
	}
	f.requireStates(t, other, directory.Deleted, directory.Deleted)
	require.NoError(t, s.Purge(ctx))
}

func (f *fixture) removal(t *testing.T, clusterID string) directory.Removal {
	t.Helper()
	_, revision, err := f.dir.Get(t.Context(), clusterID)
	require.NoError(t, err)
	return f.dir.Removal(clusterID, clusterID, revision)
}

// TestPurge_Interrupted: a purge whose snapshots cannot be deleted keeps the record, does not keep others, and is completed later.
func TestPurge_Interrupted(t *testing.T) {
	f := open(t)
	_, clusterID := f.signUp(t, "ada")
	_, other := f.signUp(t, "bob")
	for _, c := range []string{clusterID, other} {
		f.set(t, c, directory.Deleted)
		require.NoError(t, f.reg.PurgeCluster(t.Context(), by, c))
	}
	f.clock = f.clock.Add(settleTime)
	f.sweepers[1].cfg.Bucket = stuck{f.bucket, snapshots(clusterID)}
	require.ErrorContains(t, f.sweepers[1].Purge(t.Context()), "stuck")
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
	f.requireStates(t, other, "", "")
	f.sweep(t)
	f.requireStates(t, clusterID, "", "")
	require.Zero(t, f.objects(t, clusterID))
}

// stuck is a bucket that does not list a prefix.
type stuck struct {
	*mem.Bucket
	prefix string
}

func (s stuck) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, error) {
	if prefix == s.prefix {
		return nil, errors.New("stuck")
	}
	return s.Bucket.List(ctx, prefix, after, limit)
}

// TestRun_Wake: Run purges soon after Wake, and tries again after a failure.
func TestRun_Wake(t *testing.T) {
	f := open(t)
	_, clusterID := f.signUp(t, "ada")
	f.set(t, clusterID, directory.Deleted)
	require.NoError(t, f.reg.PurgeCluster(t.Context(), by, clusterID))
	f.clock = f.clock.Add(settleTime)
	runs := make(chan error, 3)
	r := round{first: time.Millisecond, run: func(context.Context) error {
		err := errServed
		if len(runs) == 2 {
			err = nil
		}
		runs <- err
		return err
	}}
	r.turn(t.Context(), zap.NewNop())
	require.Equal(t, time.Millisecond, r.retry)
	<-r.due
	r.turn(t.Context(), zap.NewNop())
	require.Equal(t, 2*time.Millisecond, r.retry)
	<-r.due
	r.turn(t.Context(), zap.NewNop())
	require.Nil(t, r.due)

	s := f.sweepers[0]
	s.Wake()
	s.Wake()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	require.Eventually(t, func() bool {
		_, err := f.reg.Cluster(t.Context(), clusterID)
		return errors.Is(err, registry.ErrNotFound)
	}, 20*time.Second, 20*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}

// TestRun_ClockAhead: a replica whose clock is ahead of the object store's removes nothing.
func TestRun_ClockAhead(t *testing.T) {
	f := open(t)
	s := f.sweepers[0]
	clusterID := f.signUpDemo(t, "ada")
	s.cfg.Now = func() time.Time { return f.clock.Add(registry.DemoLife) }
	require.ErrorIs(t, s.inTime(s.Sweep)(t.Context()), errSkew)
	f.requireStates(t, clusterID, directory.Active, directory.Active)
	s.cfg.Now = func() time.Time { return f.clock.Add(maxSkew) }
	require.NoError(t, s.inTime(s.Sweep)(t.Context()))
}

// TestSweep_BroughtBack: a cluster that its user brings back after the sweep has read it stays, and keeps its objects.
func TestSweep_BroughtBack(t *testing.T) {
	f := open(t)
	_, clusterID := f.signUp(t, "ada")
	f.set(t, clusterID, directory.Deleted)
	f.clock = f.clock.Add(registry.UndeleteTime)
	read, err := f.reg.Cluster(t.Context(), clusterID)
	require.NoError(t, err)
	f.set(t, clusterID, directory.Active)
	objects := f.objects(t, clusterID)
	done, err := f.sweepers[0].deleted(t.Context(), read)
	require.NoError(t, err)
	require.Empty(t, done)
	f.requireStates(t, clusterID, directory.Active, directory.Active)
	require.Equal(t, objects, f.objects(t, clusterID))
}

// TestSweep_NoWayBack: once a sweep has begun to remove objects, a cluster cannot be brought back.
func TestSweep_NoWayBack(t *testing.T) {
	f := open(t)
	_, clusterID := f.signUp(t, "ada")
	f.set(t, clusterID, directory.Deleted)
	f.clock = f.clock.Add(registry.UndeleteTime)
	f.sweepers[0].cfg.Bucket = stuck{f.bucket, snapshots(clusterID)}
	require.ErrorContains(t, f.sweepers[0].Sweep(t.Context()), "stuck")
	back := func(c *registry.Cluster) error { c.State = directory.Active; return nil }
	require.ErrorIs(t, f.reg.UpdateCluster(t.Context(), by, clusterID, back), registry.ErrPurged)
}

// TestSweep_Interrupted: a deletion that ended before the Spec is completed, and so is the deletion of a team.
func TestSweep_Interrupted(t *testing.T) {
	f := open(t)
	_, clusterID := f.signUp(t, "ada")
	require.NoError(t, f.reg.UpdateCluster(t.Context(), by, clusterID, func(c *registry.Cluster) error { c.State = directory.Deleted; return nil }))
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
	key := "/p/+registry/teams/AAAAAAAAAAAAAAAAAAAAAA"
	_, err := f.dir.Client.Put(t.Context(), key, `{"version":1,"name":"Data","created":"2026-11-28T06:30:00Z","deleting":true,"audited":7}`)
	require.NoError(t, err)
	f.sweep(t)
	require.Empty(t, f.keys(t, key))
}

// TestSweep_Account: an abandoned account goes with its team once its cluster is gone, and its e-mail address is free. Two Sweepers at once do no harm.
func TestSweep_Account(t *testing.T) {
	f := open(t)
	a, _ := f.signUp(t, "ada")
	sweepBoth := func() {
		var both sync.WaitGroup
		for _, s := range f.sweepers {
			both.Go(func() {
				if err := s.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	for range 31 {
		_, err := f.reg.Account(t.Context(), a.ID)
		require.NoError(t, err, "%v after the sign-up", f.clock.Sub(start))
		f.clock = f.clock.Add(24 * time.Hour)
		sweepBoth()
	}
	require.Empty(t, f.keys(t, "/p/"))
	again, _ := f.signUp(t, "ada")
	require.NotEqual(t, a.ID, again.ID)
}

// TestSweep_Isolates: items that cannot be read or changed stay in the backlog, and the others are removed.
func TestSweep_Isolates(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	_, faulty := f.signUp(t, "ada")
	_, fine := f.signUp(t, "bob")
	_, err := f.dir.Client.Put(ctx, f.dir.SpecKey(faulty), "{")
	require.NoError(t, err)
	for _, key := range []string{"/p/+registry/clusters/AAAAAAAAAAAAAAAAAAAAAA", "/p/+registry/accounts/AAAAAAAAAAAAAAAAAAAAAA", "/p/+registry/accounts/x"} {
		_, err := f.dir.Client.Put(ctx, key, "{")
		require.NoError(t, err)
	}
	f.clock = f.clock.Add(ClusterLife)
	s := f.sweepers[0]
	err = s.Sweep(ctx)
	require.ErrorIs(t, err, registry.ErrMalformed)
	f.requireStates(t, fine, directory.Deleted, directory.Deleted)
	require.InDelta(t, 2, testutil.ToFloat64(s.metrics.backlog.WithLabelValues("cluster")), 0)
	require.InDelta(t, 2, testutil.ToFloat64(s.metrics.backlog.WithLabelValues("account")), 0)
	f.clock = f.clock.Add(registry.UndeleteTime)
	require.Error(t, s.Sweep(ctx))
	f.requireStates(t, fine, "", "")
	_, err = f.dir.Client.Delete(ctx, "/p/+registry/accounts/AAAAAAAAAAAAAAAAAAAAAA")
	require.NoError(t, err)
	require.Error(t, s.Sweep(ctx))
	require.InDelta(t, 1, testutil.ToFloat64(s.metrics.backlog.WithLabelValues("account")), 0)
}

// TestSweep_Blocked: a block keeps agents away, so a blocked cluster does not expire. Once it is unblocked, its agents have as much time as before.
func TestSweep_Blocked(t *testing.T) {
	for _, contacted := range []bool{false, true} {
		t.Run(fmt.Sprintf("contacted %v", contacted), func(t *testing.T) {
			f := open(t)
			_, clusterID := f.signUp(t, "ada")
			life := ClusterLife
			if contacted {
				life = ContactLife
				require.NoError(t, f.reg.ClusterContacted(t.Context(), clusterID))
			}
			require.NoError(t, f.reg.BlockCluster(t.Context(), by, f.dir, clusterID))
			f.clock = f.clock.Add(3 * life)
			f.sweep(t)
			f.requireStates(t, clusterID, directory.Suspended, directory.Suspended)
			require.NoError(t, f.reg.UnblockCluster(t.Context(), by, f.dir, clusterID))
			f.clock = f.clock.Add(life - time.Hour)
			f.sweep(t)
			f.requireStates(t, clusterID, directory.Active, directory.Active)
			f.clock = f.clock.Add(time.Hour)
			f.sweep(t)
			f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
		})
	}
}

// TestSweep_BlockedDemo: a demo ends at its time also while it is blocked, and cannot be resumed afterwards.
func TestSweep_BlockedDemo(t *testing.T) {
	f := open(t)
	clusterID := f.signUpDemo(t, "ada")
	require.NoError(t, f.reg.BlockCluster(t.Context(), by, f.dir, clusterID))
	f.clock = f.clock.Add(registry.DemoLife)
	require.ErrorIs(t, f.reg.UnblockCluster(t.Context(), by, f.dir, clusterID), registry.ErrExpired)
	f.requireStates(t, clusterID, directory.Suspended, directory.Suspended)
	f.sweep(t)
	f.requireStates(t, clusterID, directory.Deleted, directory.Deleted)
}

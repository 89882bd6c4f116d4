package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/mem"
)

// listed returns the virtual clusters that a replica lists, by name.
func (r *running) listed(t *testing.T) map[string]operator.Listed {
	t.Helper()
	var answer struct {
		Clusters []operator.Listed `json:"clusters"`
	}
	body := r.get(t, "/v1/clusters")
	require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
	all := map[string]operator.Listed{}
	for _, l := range answer.Clusters {
		all[l.VirtualCluster] = l
	}
	return all
}

// owns returns how many of the virtual clusters vc-0 to vc-<many-1> a replica owns.
func (r *running) owns(many int) (n int) {
	for i := range many {
		if r.Owned(fmt.Sprintf("vc-%d", i)) {
			n++
		}
	}
	return n
}

// betterPlaced returns the n-th cluster id that a replica is placed better for than another one.
func betterPlaced(n int, replica, other string) string {
	for i := 0; ; i++ {
		clusterID := fmt.Sprintf("%021dA", i)
		if controlplane.BestPlaced(clusterID, replica, other) == replica {
			if n--; n < 0 {
				return clusterID
			}
		}
	}
}

// locate asks a replica for the owner of the virtual cluster that a key opens.
func locate(t *testing.T, r *running, key string) (*api.LocateResponse, error) {
	t.Helper()
	conn, err := grpc.NewClient(r.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
	return api.NewControlPlaneClient(conn).Locate(ctx, &api.LocateRequest{})
}

// TestControlPlane_ClusterInEtcd: a virtual cluster that comes, is suspended, goes on and goes, while two replicas run.
func TestControlPlane_ClusterInEtcd(t *testing.T) {
	etcd, bucket := startEtcd(t), mem.New()
	first, second := start(t, etcd, bucket, "r1"), start(t, etcd, bucket, "r2")
	replicas := []*running{first, second}
	for _, r := range replicas {
		require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	}
	d := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}
	spec := &directory.Spec{ID: id.NewCluster(), Name: "orders", State: directory.Active, DefaultPartitions: 3}
	key, err := accesskey.New(accesskey.AgentPrefix, spec.ID)
	require.NoError(t, err)
	spec.Keys = []directory.Key{{Hash: accesskey.HashOf(key), Kind: keys.Agent}}
	created := time.Now()
	require.NoError(t, d.Create(t.Context(), spec))

	h := heard{welcomes: make(chan *api.Welcome, 8)}
	agent, err := client.New(client.Config{
		Replicas: []string{first.Addr().String(), second.Addr().String()}, AgentKey: key, Endpoints: []*api.Endpoint{{Host: "a", Port: 1}}, Handler: h,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	welcome := <-h.welcomes
	t.Logf("an agent was welcome %v after the virtual cluster was created", time.Since(created))
	require.Equal(t, "orders", welcome.VirtualCluster)
	require.Equal(t, spec.ID, welcome.ClusterId)
	for _, r := range replicas {
		require.Eventually(t, func() bool { return r.listed(t)["orders"].Fault == "" }, time.Minute, 10*time.Millisecond)
		l := r.listed(t)
		require.Equal(t, operator.Listed{VirtualCluster: "orders", ClusterID: spec.ID, Source: "etcd", State: "active", Owner: l["orders"].Owner}, l["orders"])
		require.Equal(t, "settings", l["one"].Source)
	}
	require.Contains(t, first.get(t, "/metrics")+second.get(t, "/metrics"), `virtual_cluster="orders"`, "of the owner")

	set := func(state directory.State) {
		t.Helper()
		read, revision, err := d.Get(t.Context(), spec.ID)
		require.NoError(t, err)
		read.State = state
		require.NoError(t, d.Update(t.Context(), read, revision))
		for _, r := range replicas {
			require.Eventually(t, func() bool { return r.listed(t)["orders"].State == string(state) }, time.Minute, 10*time.Millisecond)
		}
	}
	set(directory.Suspended)
	for _, r := range replicas {
		require.Eventually(t, func() bool { return !strings.Contains(r.get(t, "/metrics"), `virtual_cluster="orders"`) }, time.Minute, 10*time.Millisecond)
		_, err := locate(t, r, key)
		require.Equal(t, codes.Unavailable, status.Code(err), "agents wait")
		require.ErrorContains(t, err, `virtual cluster "orders" is suspended: resume it`)
		require.NoError(t, r.Ready())
		require.True(t, first.Owned("one") || second.Owned("one"))
	}
	require.Eventually(t, func() bool {
		fault := agent.Fault()
		return fault != nil && strings.Contains(fault.Error(), `virtual cluster "orders" is suspended`)
	}, time.Minute, 10*time.Millisecond)
	set(directory.Active)
	require.Equal(t, spec.ID, (<-h.welcomes).ClusterId, "the agent goes on")
	for _, r := range replicas {
		require.Eventually(t, func() bool {
			found, err := locate(t, r, key)
			return err == nil && found.OwnerReplica != ""
		}, time.Minute, 10*time.Millisecond)
	}

	_, err = etcd.Client().Delete(t.Context(), d.SpecKey(spec.ID))
	require.NoError(t, err)
	for _, r := range replicas {
		require.Eventually(t, func() bool { return len(r.listed(t)) == 2 }, time.Minute, 10*time.Millisecond)
		require.Eventually(t, func() bool {
			_, err := locate(t, r, key)
			return status.Code(err) == codes.Unauthenticated
		}, time.Minute, 10*time.Millisecond)
	}
	cancel()
	require.NoError(t, <-ended)
	second.stop(t)
	first.stop(t)
}

// TestControlPlane_InvalidSpec: an invalid description in etcd stops its virtual cluster alone, also at a start.
func TestControlPlane_InvalidSpec(t *testing.T) {
	etcd, bucket := startEtcd(t), mem.New()
	d := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}
	broken := id.NewCluster()
	_, err := etcd.Client().Put(t.Context(), d.SpecKey(broken), `{"version":2}`)
	require.NoError(t, err)
	good := &directory.Spec{ID: id.NewCluster(), Name: "orders", State: directory.Active, DefaultPartitions: 1}
	require.NoError(t, d.Create(t.Context(), good))
	r := startAs(t, etcd, bucket, "r1", func(c *controlplane.Config) { c.VirtualClusters = nil })
	require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	require.True(t, r.Owned("orders"))
	l := r.listed(t)[""]
	require.Equal(t, broken, l.ClusterID)
	require.Contains(t, l.Fault, `etcd key "`+d.SpecKey(broken)+`": a newer program wrote the description of the virtual cluster: version 2`)
	require.Contains(t, r.get(t, "/readyz"), "ok\nwarning: etcd key")
	require.Contains(t, r.get(t, "/metrics"), `freshet_controlplane_virtual_clusters{state="failed"} 1`)
	r.stop(t)
}

// TestControlPlane_StateBucket: a control plane with a bucket of its own marks it, keeps snapshots there, and refuses another bucket by the setting.
func TestControlPlane_StateBucket(t *testing.T) {
	etcd, state := startEtcd(t), mem.New()
	with := func(c *controlplane.Config) {
		c.AgentsBucket, c.BucketLocation = true, "s3://state"
		c.SnapshotInterval, c.SnapshotBytes, c.VirtualClusters = 100*time.Millisecond, 1, c.VirtualClusters[:1]
	}
	r := startAs(t, etcd, state, "r1", with)
	require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	found, err := marker.Read(t.Context(), state, "one")
	require.NoError(t, err)
	require.Empty(t, found.BucketID)
	require.Eventually(t, func() bool {
		snapshots, err := state.List(t.Context(), controlplane.SnapshotPrefix(found.ClusterID), "", 10)
		require.NoError(t, err)
		return len(snapshots) > 0
	}, time.Minute, 10*time.Millisecond)

	other := startAs(t, etcd, mem.New(), "r2", with)
	require.ErrorContains(t, <-other.ended, "--state-bucket s3://state has no object "+controlplane.SnapshotPrefix(found.ClusterID))
	other.cancel()
	r.stop(t)

	r = startAs(t, etcd, state, "r1", with)
	require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	r.stop(t)
}

// TestControlPlane_ManyClusters: virtual clusters that come at once are all served, and leave no goroutine, metric or peer secret when they go.
func TestControlPlane_ManyClusters(t *testing.T) {
	const many = 60
	etcd, bucket := startEtcd(t), mem.New()
	r := start(t, etcd, bucket, "r1")
	require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	series := func() int { return strings.Count(r.get(t, "/metrics"), `virtual_cluster="`) }
	series()
	goroutines, lines := runtime.NumGoroutine(), series()

	d := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}
	began := time.Now()
	var ids []string
	for i := range many {
		spec := &directory.Spec{ID: id.NewCluster(), Name: fmt.Sprintf("vc-%d", i), State: directory.Active, DefaultPartitions: 1}
		require.NoError(t, d.Create(t.Context(), spec))
		ids = append(ids, spec.ID)
	}
	require.Eventually(t, func() bool {
		ready := 0
		for _, l := range r.listed(t) {
			if l.Fault == "" {
				ready++
			}
		}
		return ready == many+2
	}, time.Minute, 10*time.Millisecond)
	t.Logf("%d virtual clusters were ready %v after the first one was created", many, time.Since(began))
	t.Logf("each takes %d goroutines and %d series of metrics", (runtime.NumGoroutine()-goroutines)/many, (series()-lines)/many)

	for _, clusterID := range ids {
		_, err := etcd.Client().Delete(t.Context(), d.SpecKey(clusterID))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(r.listed(t)) == 2 }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return series() <= lines && runtime.NumGoroutine() <= goroutines+many/2 }, time.Minute, 10*time.Millisecond)
	r.stop(t)
}

// TestControlPlane_SharesClusters: two replicas share the virtual clusters of etcd. A second replica takes its share over from the first one, and
// the rest once the first one stops.
func TestControlPlane_SharesClusters(t *testing.T) {
	const many = 12 // more than stay warm
	etcd, bucket := startEtcd(t), mem.New()
	first := start(t, etcd, bucket, "r1")
	d := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}
	for i := range many {
		spec := &directory.Spec{ID: fmt.Sprintf("%021dA", i), Name: fmt.Sprintf("vc-%d", i), State: directory.Active, DefaultPartitions: 1}
		require.NoError(t, d.Create(t.Context(), spec))
	}
	require.Eventually(t, func() bool { return first.owns(many) == many }, time.Minute, 10*time.Millisecond)
	second := start(t, etcd, bucket, "r2")
	misplaced := func() bool {
		return strings.Contains(first.get(t, "/metrics"), "\nfreshet_controlplane_misplaced_virtual_clusters 0\n")
	}
	require.Eventually(t, func() bool { return second.owns(many) > 0 && misplaced() && first.owns(many)+second.owns(many) == many }, time.Minute, 10*time.Millisecond)
	require.Positive(t, first.owns(many))
	require.True(t, first.Owned("one") && first.Owned("two"), "those of the settings stay")
	t.Logf("the replicas own %d and %d of %d virtual clusters", first.owns(many), second.owns(many), many)
	began := time.Now()
	first.stop(t)
	require.Eventually(t, func() bool { return second.owns(many) == many }, time.Minute, time.Millisecond)
	t.Logf("the other one owned all %v after the first one began to stop", time.Since(began))
	second.stop(t)
}

// TestControlPlane_KeepsClustersThatTheOtherReplicaRefuses: a better placed replica with another bucket gets no virtual clusters.
func TestControlPlane_KeepsClustersThatTheOtherReplicaRefuses(t *testing.T) {
	const many = 4
	etcd := startEtcd(t)
	core, logged := observer.New(zap.InfoLevel)
	first := startAs(t, etcd, mem.New(), "r1", func(c *controlplane.Config) { c.VirtualClusters, c.Log = nil, zap.New(core) })
	d := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}
	for i := range many {
		spec := &directory.Spec{ID: betterPlaced(i, "r2", "r1"), Name: fmt.Sprintf("vc-%d", i), State: directory.Active, DefaultPartitions: 1}
		require.NoError(t, d.Create(t.Context(), spec))
	}
	require.Eventually(t, func() bool { return first.owns(many) == many }, time.Minute, 10*time.Millisecond)
	second := startAs(t, etcd, mem.New(), "r2", func(c *controlplane.Config) { c.VirtualClusters = nil })
	refusals := func() []observer.LoggedEntry {
		return logged.FilterMessageSnippet("cannot take a virtual cluster over").All()
	}
	handOvers := func() bool {
		return !strings.Contains(first.get(t, "/metrics"), "\nfreshet_controlplane_placement_hand_overs_total 0\n")
	}
	require.Eventually(t, func() bool { return len(refusals()) == many || handOvers() }, time.Minute, 10*time.Millisecond)
	require.False(t, handOvers())
	for _, refusal := range refusals() {
		require.Equal(t, "r2", refusal.ContextMap()["other_replica"])
		require.Contains(t, refusal.ContextMap()["error"], "bucket")
	}
	require.Contains(t, first.get(t, "/metrics"), fmt.Sprintf("\nfreshet_controlplane_misplaced_virtual_clusters %d\n", many))
	require.Equal(t, many, first.owns(many))
	second.stop(t)
	first.stop(t)
}

// TestReplicas_HandOverIsAskedByReplicas: an agent's key does not show which virtual clusters a replica can own.
func TestReplicas_HandOverIsAskedByReplicas(t *testing.T) {
	r := start(t, startEtcd(t), mem.New(), "r1")
	defer r.stop(t)
	conn, err := grpc.NewClient(r.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer k1")
	_, err = api.NewReplicasClient(conn).Clock(ctx, &api.ClockRequest{})
	require.NoError(t, err)
	_, err = api.NewReplicasClient(conn).Clock(metadata.AppendToOutgoingContext(ctx, "freshet-hand-over", "x"), &api.ClockRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}

// TestControlPlane_KeysBeforeTheList: a replica that starts without etcd does not know the keys of etcd's virtual clusters yet.
func TestControlPlane_KeysBeforeTheList(t *testing.T) {
	away, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer away.Close()
	r := startAs(t, startEtcd(t), mem.New(), "r1", func(c *controlplane.Config) { c.Etcd = away })
	defer r.cancel()
	_, err = locate(t, r, "k1")
	require.NotEqual(t, codes.Unauthenticated, status.Code(err))
	_, err = locate(t, r, "a key of a virtual cluster in etcd")
	require.Equal(t, codes.Unavailable, status.Code(err), "agents end after 30 s of this answer: %v", err)
}

// TestControlPlane_StoresNoIDForSpecs: a Spec whose name has no id in etcd, as after a rename, or after its removal from a replica that lags.
func TestControlPlane_StoresNoIDForSpecs(t *testing.T) {
	etcd := startEtcd(t)
	d := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}
	spec := &directory.Spec{ID: id.NewCluster(), Name: "orders", State: directory.Active, DefaultPartitions: 1}
	require.NoError(t, d.Create(t.Context(), spec))
	r := startAs(t, etcd, mem.New(), "r1", nil)
	defer r.stop(t)
	require.Eventually(t, func() bool { return r.Owned("orders") }, time.Minute, 10*time.Millisecond)
	const value = `{"version":1,"name":"renamed","state":"active","default_partitions":1}`
	_, err := etcd.Client().Put(t.Context(), d.SpecKey(spec.ID), value)
	require.NoError(t, err)
	var stored string
	require.Eventually(t, func() bool {
		found, err := etcd.Client().Get(t.Context(), etcdlog.DefaultPrefix+"/+clusters/renamed")
		require.NoError(t, err)
		for _, kv := range found.Kvs {
			stored = string(kv.Value)
		}
		return stored != "" || r.Owned("renamed")
	}, time.Minute, 10*time.Millisecond)
	t.Log(r.listed(t)["renamed"].Fault)
	require.Contains(t, []string{"", spec.ID}, stored, "the replica has stored another id for the name for good")
	require.True(t, r.Owned("renamed"))
}

// lateSpecs is a watcher that shows no change of a Spec.
type lateSpecs struct{ clientv3.Watcher }

func (w lateSpecs) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if !strings.HasPrefix(key, etcdlog.DefaultPrefix+"/+specs/") {
		return w.Watcher.Watch(ctx, key, opts...)
	}
	none := make(chan clientv3.WatchResponse)
	context.AfterFunc(ctx, func() { close(none) })
	return none
}

// TestControlPlane_ClaimsNoPurgedCluster: a virtual cluster is purged, and the watch of a replica is late. The replica leaves no new keys behind.
func TestControlPlane_ClaimsNoPurgedCluster(t *testing.T) {
	etcd := startEtcd(t)
	direct := etcd.Client()
	late := clientv3.NewCtxClient(t.Context())
	late.Cluster, late.KV, late.Lease, late.Watcher, late.Maintenance, late.Auth = direct.Cluster, direct.KV, direct.Lease, lateSpecs{direct.Watcher}, direct.Maintenance, direct.Auth
	d := directory.Directory{Client: direct, Prefix: etcdlog.DefaultPrefix}
	spec := &directory.Spec{ID: id.NewCluster(), Name: "orders", State: directory.Active, DefaultPartitions: 1}
	require.NoError(t, d.Create(t.Context(), spec))
	lease, err := direct.Grant(t.Context(), 600)
	require.NoError(t, err)
	const owner = `{"replica":"r9","address":"r9:7050","nonce":"1"}` // whose log is still empty
	_, err = direct.Put(t.Context(), etcdlog.DefaultPrefix+"/+owners/"+spec.ID, owner, clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	r := startAs(t, etcd, mem.New(), "r1", func(c *controlplane.Config) { c.Etcd, c.Timing.Read = late, time.Second })
	require.Eventually(t, func() bool {
		l := r.listed(t)["orders"]
		return l.Owner != nil && l.Owner.Replica == "r9" && r.Owned("one") && r.Owned("two")
	}, time.Minute, 10*time.Millisecond)

	removal := d.Removal(spec.ID, spec.Name, 0)
	purged, err := direct.Txn(t.Context()).Then(append(removal.Ops, clientv3.OpDelete(etcdlog.DefaultPrefix+"/+owners/"+spec.ID))...).Commit()
	require.NoError(t, err)
	removed := ": the virtual cluster was removed from etcd: there is no key " + d.SpecKey(spec.ID)
	for _, fault := range []string{"claim ownership: metadata log unavailable", "starts again after a pause"} { // of the run, and of the next start
		require.Eventually(t, func() bool { return strings.Contains(r.listed(t)["orders"].Fault, fault+removed) }, time.Minute, 10*time.Millisecond)
	}
	require.True(t, r.Owned("one") && r.Owned("two"))
	left, err := direct.Get(t.Context(), etcdlog.DefaultPrefix+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMinCreateRev(purged.Header.Revision))
	require.NoError(t, err)
	for _, kv := range left.Kvs {
		require.NotContains(t, string(kv.Key), spec.ID)
	}
	r.stop(t)
}

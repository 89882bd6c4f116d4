package controlplane

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

const rivals = 9 // rivalRounds(5 * time.Second)

// Of two replicas with one id, the one that registered later ends. A predecessor's registration ends by itself before that.
func TestMembers_Compare(t *testing.T) {
	key := func(name string, created int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte("/p/+replicas/" + name), Value: []byte(name + ".address"), CreateRevision: created}
	}
	own, earlier, later := key("cp-0/own", 5), key("cp-0/other", 3), key("cp-0/third", 7)
	strangers := []*mvccpb.KeyValue{key("cp-0", 1), key("cp-00/x", 1), key("cp-0/x/y", 1), key("cp-1/x", 1)}
	r := &members{prefix: "/p/+replicas/", replica: "cp-0", instance: "own", rivals: rivals}
	rounds := func(n int, kvs ...*mvccpb.KeyValue) (err error) {
		for range n {
			err = r.compare(append(kvs, strangers...))
		}
		return err
	}
	require.NoError(t, rounds(2*rivals, own))
	require.NoError(t, rounds(2*rivals, own, later), "the other one has to end")
	require.NoError(t, rounds(rivals-1, earlier, own))
	require.NoError(t, rounds(1, own), "its lease ended")
	require.NoError(t, rounds(rivals-1, earlier, own))
	require.EqualError(t, rounds(1, earlier, own, later),
		"--replica-id cp-0 is also the id of a running replica at cp-0/other.address: give each replica an id of its own")
}

// A replica that advertises another one's address says so once, and only after a predecessor's registration would have ended.
func TestMembers_WarnsOfAnotherReplicaAtItsAddress(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	r := &members{prefix: "/p/+replicas/", replica: "cp-0", instance: "own", rivals: rivals, address: "cp:7050", log: zap.New(core)}
	at := func(name, address string) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte("/p/+replicas/" + name), Value: []byte(address)}
	}
	rounds := func(n int, kvs ...*mvccpb.KeyValue) int {
		for range n {
			r.compareAddresses(append(kvs, at("cp-0/own", "cp:7050"), at("cp-0/other", "cp:7050"), at("cp-2/x", "cp-2:7050")))
		}
		return logged.Len()
	}
	require.Zero(t, rounds(2*rivals))
	require.Zero(t, rounds(rivals-1, at("cp-1/x", "cp:7050")))
	require.Zero(t, rounds(1), "its lease ended")
	require.Equal(t, 1, rounds(3*rivals, at("cp-1/x", "cp:7050")))
	require.Equal(t, map[string]any{"advertise": "cp:7050", "other_replica": "cp-1"}, logged.All()[0].ContextMap())
	require.Equal(t, "another replica advertises the same address: set --advertise of each replica to its own", logged.All()[0].Message)
	require.Equal(t, 1, rounds(1))
	require.Equal(t, 2, rounds(rivals, at("cp-1/x", "cp:7050")))
}

// A dead predecessor's key lasts for its lease and two extensions: 15 s with a lease of 5 s, which the ninth round, after 16 s, does not see.
func TestRivalRounds(t *testing.T) {
	require.Equal(t, rivals, rivalRounds(5*time.Second))
	require.Equal(t, 46, rivalRounds(30*time.Second))
}

func TestMembers_TwoOfOneID(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd")
	}
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zap.NewNop())
	require.NoError(t, err)
	defer etcd.Close()
	var leases []func() // end them
	defer func() {
		for _, end := range leases {
			end()
		}
	}()
	replica := func(id, instance string) *members {
		lease, err := etcdlog.NewLease(etcd.Client(), "/p", metalog.Config{})
		require.NoError(t, err)
		running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		stopped := make(chan error, 1)
		go func() { stopped <- lease.Run(running) }()
		leases = append(leases, func() { stop(); require.NoError(t, <-stopped) })
		return &members{
			lease: lease, rivals: rivals,
			key:    &replicaKey{client: etcd.Client(), name: "/p/+replicas-key", set: keys.NewSet()},
			client: etcd.Client(), prefix: "/p/+replicas/", replica: id, instance: instance, address: instance + ":7050", log: zap.NewNop(),
			versions: &versions{client: etcd.Client(), prefix: "/p/+versions/", replica: id, own: 1, log: zap.NewNop()},
		}
	}
	first, second, other := replica("cp-0", "a"), replica("cp-0", "b"), replica("cp-1", "c")
	var same *sameIDError
	for range rivals - 1 {
		for _, r := range []*members{first, second, other} {
			require.NoError(t, r.round(t.Context()))
		}
	}
	require.ElementsMatch(t, []string{"a:7050", "b:7050", "c:7050"}, other.Replicas())
	require.Len(t, first.replicaKey(), 52)
	require.Equal(t, first.replicaKey(), other.replicaKey())
	require.Equal(t, keys.Replica, other.key.set.Grant(first.replicaKey()).Kind)
	require.ErrorAs(t, second.round(t.Context()), &same)
	require.Equal(t, "a:7050", same.address)
	require.NoError(t, second.leave())
	require.NoError(t, first.round(t.Context()))
	require.ElementsMatch(t, []string{"a:7050", "c:7050"}, first.Replicas())

	earlier := first.replicaKey() // all replicas follow a key that was removed
	_, err = etcd.Client().Delete(t.Context(), "/p/+replicas-key")
	require.NoError(t, err)
	for _, r := range []*members{first, other} {
		require.NoError(t, r.round(t.Context()))
	}
	require.NotEqual(t, earlier, first.replicaKey())
	require.Equal(t, first.replicaKey(), other.replicaKey())
	require.Nil(t, other.key.set.Grant(earlier))

	granted, err := first.lease.Granted(t.Context()) // a lease that was revoked by hand takes the key with it
	require.NoError(t, err)
	_, err = etcd.Client().Revoke(t.Context(), clientv3.LeaseID(granted.ID()))
	require.NoError(t, err)
	require.NoError(t, other.round(t.Context()))
	require.Equal(t, []string{"c:7050"}, other.Replicas())
	require.Eventually(t, func() bool {
		again, err := first.lease.Granted(t.Context())
		return err == nil && again != granted
	}, 10*time.Second, 20*time.Millisecond)
	require.NoError(t, first.round(t.Context()))
	require.NoError(t, other.round(t.Context()))
	require.ElementsMatch(t, []string{"a:7050", "c:7050"}, other.Replicas())

	_, err = etcd.Client().Delete(t.Context(), "/p/+replicas/cp-0/a") // by hand: the replica registers again
	require.NoError(t, err)
	require.NoError(t, first.round(t.Context()))
	require.NoError(t, first.round(t.Context()))
	require.NoError(t, other.round(t.Context()))
	require.ElementsMatch(t, []string{"a:7050", "c:7050"}, other.Replicas())

	require.NoError(t, first.leave())
	require.NoError(t, other.round(t.Context()))
	require.Equal(t, []string{"c:7050"}, other.Replicas())

	public := replica("cp-2", "d")
	public.public = "d.example.com:443"
	require.NoError(t, public.round(t.Context()))
	require.NoError(t, other.round(t.Context()))
	require.ElementsMatch(t, []string{"c:7050", "d.example.com:443"}, other.Replicas())
	require.Len(t, other.others(), 1)
	before := other.others()[0]
	require.Positive(t, before.registration)
	require.Equal(t, member{"cp-2", "d:7050", "d.example.com:443", before.registration}, before)
	require.Equal(t, "d.example.com:443", other.forAgents("cp-2", "d:7050"))
	require.Equal(t, "c:7050", other.forAgents("cp-1", "c:7050"))
	require.Equal(t, "x:7050", other.forAgents("cp-9", "x:7050"), "agents reach internal addresses")
	require.Equal(t, "d.example.com:443", public.forAgents("cp-2", "d:7050"))
	require.Equal(t, "c:7050", public.forAgents("cp-1", "c:7050"), "it has no public address")
	require.Empty(t, public.forAgents("cp-9", "x:7050"), "its public address is not known yet")
	require.NoError(t, other.round(t.Context()))
	require.Equal(t, before, other.others()[0], "still registered")
	require.NoError(t, public.leave())
	again := replica("cp-2", "d")
	require.NoError(t, again.round(t.Context()))
	require.NoError(t, other.round(t.Context()))
	require.Greater(t, other.others()[0].registration, before.registration, "restarted")
	require.NoError(t, again.leave())
	require.NoError(t, other.leave())
}

package etcdlog_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// fill writes until etcd is out of space.
func fill(t *testing.T, client *clientv3.Client) {
	t.Helper()
	for {
		_, err := client.Put(t.Context(), "history", strings.Repeat("x", valueBytes))
		if err != nil {
			require.ErrorContains(t, err, "space")
			return
		}
	}
}

// clientOf returns a client that knows all members. It sends requests to one of them, except those to a named member.
func clientOf(t *testing.T, all *clientv3.Client, member string) *clientv3.Client {
	t.Helper()
	one, err := etcdlog.NewClient(etcdlog.ClientConfig{Endpoints: []string{member}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = one.Close() })
	all.KV, all.Lease, all.Cluster, all.Maintenance = one.KV, one.Lease, one.Cluster, one.Maintenance
	return all
}

// TestMaintainer_HealsOneMemberAtATime: a member of a full etcd is being defragmented, so it applies nothing. Another replica cannot claim a
// defragmentation, and begins none. After defragTimeout it does, since the member may be down.
func TestMaintainer_HealsOneMemberAtATime(t *testing.T) {
	client, members := startCluster(t, 3, func(c *embed.Config) { c.QuotaBackendBytes = 8 << 20 })
	endpoints := client.Endpoints()
	leader := slices.IndexFunc(members, func(m *embed.Etcd) bool { return m.Server.MemberID() == m.Server.Leader() })
	followers := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == leader }) // in the order of their defragmentations
	client = clientOf(t, client, endpoints[leader])
	lease, err := client.Grant(t.Context(), 600)
	require.NoError(t, err)
	fill(t, client)

	_, err = client.Grant(t.Context(), 60)
	require.ErrorContains(t, err, "space", "a claim needs a lease")
	put := clientv3.OpPut("claim", "", clientv3.WithLease(lease.ID))
	_, err = client.Txn(t.Context()).If(clientv3.Compare(clientv3.Version("claim"), "=", 1)).Then(put).Commit()
	require.ErrorContains(t, err, "space", "though the transaction would put nothing")

	busy := members[followers[1]].Server.Backend().BatchTx()
	busy.LockOutsideApply() // as a defragmentation does
	unlock := sync.OnceFunc(busy.Unlock)
	defer unlock()
	_, err = client.Delete(t.Context(), "history") // the busy member does not apply it
	require.NoError(t, err)

	seen := &seenMaintenance{Maintenance: client.Maintenance}
	client.Maintenance = seen
	m, err := etcdlog.NewMaintainer(etcdlog.MaintainerConfig{Client: client, Replica: "a"})
	require.NoError(t, err)
	require.ErrorContains(t, m.CheckOnce(t.Context()), "is not defragmented until all others serve")
	defrags, _ := seen.seen()
	require.Empty(t, defrags)

	m.SilentSince(time.Now().Add(-etcdlog.DefragTimeout))
	seen.begin = func(endpoint string) {
		if endpoint == endpoints[followers[1]] {
			unlock() // the other defragmentation ends
		}
	}
	require.NoError(t, m.CheckOnce(t.Context()))
	defrags, _ = seen.seen()
	require.ElementsMatch(t, endpoints, defrags)
	_, err = client.Put(context.Background(), "later", "")
	require.NoError(t, err)
}

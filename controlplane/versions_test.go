package controlplane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/mem"
)

// TestControlPlane_RollingUpgrade: while a replica of an earlier program is there, or was a moment ago, the state keeps the
// version that it can run, through restarts and owner changes; when the last one has been replaced it rises.
func TestControlPlane_RollingUpgrade(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t)
	bucket := mem.New()
	earlier := func(c *controlplane.Config) { c.StateVersion = metadata.MinVersion }
	first := startAs(t, etcd, bucket, "r1", earlier)
	await(t, func() bool { return first.Owned("one") && first.at(t, metadata.MinVersion) })
	second := startAs(t, etcd, bucket, "r2", earlier)
	await(t, func() bool { return second.Ready() == nil })

	first.stop(t) // the second one owns, and the first one comes back with the next program
	await(t, func() bool { return second.Owned("one") && second.Owned("two") })
	first = startAs(t, etcd, bucket, "r1", nil)
	await(t, func() bool { return first.Ready() == nil })
	second.stop(t) // so nobody of the earlier program is left, but for a moment only
	await(t, func() bool { return first.Owned("one") && first.Owned("two") })
	require.True(t, first.at(t, metadata.MinVersion))
	said, err := etcd.Client().Get(t.Context(), etcdlog.DefaultPrefix+"/+versions/r2")
	require.NoError(t, err)
	require.Len(t, said.Kvs, 1, "it still counts")
	lease, err := etcd.Client().TimeToLive(t.Context(), clientv3.LeaseID(said.Kvs[0].Lease))
	require.NoError(t, err)
	require.Greater(t, lease.TTL, int64(9*60))

	second = startAs(t, etcd, bucket, "r2", nil)
	await(t, func() bool { return first.at(t, metadata.MaxVersion) && second.at(t, metadata.MaxVersion) })
	second.stop(t)
	first.stop(t)
}

// TestControlPlane_MalformedVersion: what is said under a replica's name and is no version keeps no replica from its work. No
// state's version rises while it is there, and the log names the key. What a replica says itself it says again.
func TestControlPlane_MalformedVersion(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t)
	const prefix = etcdlog.DefaultPrefix + "/+versions/"
	_, err := etcd.Client().Put(t.Context(), prefix+"other", "three")
	require.NoError(t, err)
	core, logs := observer.New(zap.WarnLevel)
	r := startAs(t, etcd, mem.New(), "r1", func(c *controlplane.Config) { c.Log = zap.New(core) })
	await(t, func() bool { return r.Owned("one") && r.at(t, metadata.MinVersion) })
	warned := logs.FilterMessageSnippet("remove the key").All()
	require.Len(t, warned, 1)
	require.Equal(t, prefix+"other", warned[0].ContextMap()["key"])

	for _, own := range []clientv3.Op{clientv3.OpPut(prefix+"r1", "x"), clientv3.OpDelete(prefix + "r1")} {
		_, err = etcd.Client().Do(t.Context(), own)
		require.NoError(t, err)
		await(t, func() bool {
			said, err := etcd.Client().Get(t.Context(), prefix+"r1")
			require.NoError(t, err)
			return len(said.Kvs) == 1 && string(said.Kvs[0].Value) == fmt.Sprint(metadata.MaxVersion) && said.Kvs[0].Lease != 0
		})
	}
	require.True(t, r.at(t, metadata.MinVersion))
	_, err = etcd.Client().Delete(t.Context(), prefix+"other")
	require.NoError(t, err)
	await(t, func() bool { return r.at(t, metadata.MaxVersion) })
	r.stop(t)
}

func await(t *testing.T, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, time.Minute, 50*time.Millisecond)
}

// at tells whether the state of the first virtual cluster has a version.
func (r *running) at(t *testing.T, version uint32) bool {
	t.Helper()
	return strings.Contains(r.get(t, "/metrics"), fmt.Sprintf("freshet_replica_state_version{virtual_cluster=\"one\"} %d\n", version))
}

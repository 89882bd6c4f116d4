package controlplane

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/etcdserver"
)

// TestReplicaKey_Empty: an empty value in etcd is no key of replicas, so that calls without a key open nothing.
func TestReplicaKey_Empty(t *testing.T) {
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zap.NewNop())
	require.NoError(t, err)
	defer etcd.Close()
	k := &replicaKey{client: etcd.Client(), name: "/p/+replicas-key", set: keys.NewSet()}
	require.NoError(t, k.learn(t.Context(), ""))
	_, err = etcd.Client().Put(t.Context(), "/p/+replicas-key", "") // by hand, after a replica learned the key
	require.NoError(t, err)
	require.ErrorContains(t, k.learn(t.Context(), ""), "is empty: remove it")
	require.False(t, operatorOpens(k.set)("any", "", false))
}

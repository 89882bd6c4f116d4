package controlplane

import (
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/internal/etcdserver"
)

// TestPeerSecrets_Rounds: a round reads no secret while none changes, and each change is learned within two rounds.
func TestPeerSecrets_Rounds(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd")
	}
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zap.NewNop())
	require.NoError(t, err)
	defer etcd.Close()
	d := directory.Directory{Client: etcd.Client(), Prefix: "/p"}
	var s peerSecrets
	learned := map[string][]string{}
	for _, clusterID := range []string{"one", "two"} {
		unfollow, err := s.follow(t.Context(), d, clusterID, false, func(secret string) { learned[clusterID] = append(learned[clusterID], secret) })
		require.NoError(t, err)
		defer unfollow()
	}
	round := func() (read int) {
		t.Helper()
		followed := s.all()
		response, err := etcd.Client().Txn(t.Context()).Then(s.reads(followed)...).Commit()
		require.NoError(t, err)
		found := (*clientv3.GetResponse)(response.Responses[0].GetResponseRange())
		require.NoError(t, s.compare(t.Context(), followed, found, response.Header.Revision))
		return len(found.Kvs)
	}
	require.Equal(t, 2, round())
	for range 3 {
		require.Zero(t, round())
	}
	secret := learned["one"][0]
	_, err = etcd.Client().Put(t.Context(), d.PeerSecretKey("two"), secret)
	require.NoError(t, err)
	require.Equal(t, 1, round())
	require.Equal(t, 2, round())
	require.Equal(t, secret, learned["two"][1])
	require.Zero(t, round())

	_, err = etcd.Client().Delete(t.Context(), d.PeerSecretKey("one"))
	require.NoError(t, err)
	require.Zero(t, round(), "the number of secrets fell")
	require.Equal(t, 1, round())
	require.Len(t, learned["one"], 2)
	for range 3 { // the new secret came after the read
		round()
	}
	require.Zero(t, round())
	require.Len(t, learned["one"], 2)
	require.Len(t, learned["two"], 2)
}

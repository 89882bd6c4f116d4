package directory_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata/id"
)

func open(t *testing.T) directory.Directory {
	t.Helper()
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	return directory.Directory{Client: etcd.Client(), Prefix: "/freshet"}
}

// TestPeerSecret: all replicas get the same secret of a cluster. A removed or malformed one is replaced by another.
func TestPeerSecret(t *testing.T) {
	d := open(t)
	learn := func() string {
		t.Helper()
		secrets := make([]string, 8)
		var replicas errgroup.Group
		for i := range secrets {
			replicas.Go(func() (err error) {
				secrets[i], err = d.PeerSecret(t.Context(), "cluster")
				return err
			})
		}
		require.NoError(t, replicas.Wait())
		for _, got := range secrets {
			require.Equal(t, secrets[0], got)
		}
		require.Regexp(t, "^[A-Z2-7]{52}$", secrets[0])
		return secrets[0]
	}
	all := map[string]bool{learn(): true}
	require.Contains(t, all, learn())
	_, err := d.Client.Delete(t.Context(), "/freshet/+peers/cluster")
	require.NoError(t, err)
	for i, value := range []string{"", "guess", strings.Repeat("x", 52), strings.Repeat("A", 51) + "\n"} {
		all[learn()] = true
		require.Len(t, all, i+2)
		_, err = d.Client.Put(t.Context(), "/freshet/+peers/cluster", value)
		require.NoError(t, err)
	}
	other, err := d.PeerSecret(t.Context(), "other")
	require.NoError(t, err)
	require.NotContains(t, all, other)
}

func TestResolve(t *testing.T) {
	d := open(t)
	ids := make([]string, 8)
	var replicas errgroup.Group
	for i := range ids {
		replicas.Go(func() (err error) {
			ids[i], err = d.Resolve(t.Context(), "main")
			return err
		})
	}
	require.NoError(t, replicas.Wait())
	for _, got := range ids {
		require.True(t, id.ValidCluster(got), got)
		require.Equal(t, ids[0], got)
	}
	other, err := d.Resolve(t.Context(), "other")
	require.NoError(t, err)
	require.NotEqual(t, ids[0], other)
}

func TestResolve_RefusesWhatItCannotUse(t *testing.T) {
	d := open(t)
	_, err := d.Client.Put(t.Context(), "/freshet/old/tail", "0000000000000001.0000000000000007")
	require.NoError(t, err)
	_, err = d.Resolve(t.Context(), "old")
	require.ErrorIs(t, err, generation.ErrOther)
	require.ErrorContains(t, err, "/freshet/old/tail: stored by a program of another generation: run the program that wrote it")
	require.True(t, directory.Final(err))

	for _, value := range []string{"", "main", "-MP4Kxjfr8KpC_OLjGQtgg", "0MP4Kxjfr8KpC/OLjGQtgg"} {
		_, err = d.Client.Put(t.Context(), "/freshet/+clusters/main", value)
		require.NoError(t, err)
		_, err = d.Resolve(t.Context(), "main")
		require.ErrorContains(t, err, "etcd key /freshet/+clusters/main holds")
		require.True(t, directory.Final(err))
	}
}

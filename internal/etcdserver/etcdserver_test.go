package etcdserver_test

import (
	"context"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap/zaptest"

	"github.com/freshet-io/freshet/internal/etcdserver"
)

func start(t *testing.T, dir string) *etcdserver.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd")
	}
	s, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: dir}, zaptest.NewLogger(t))
	require.NoError(t, err)
	return s
}

func TestServer_KeepsDataOverRestart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	_, err := s.Client().Put(t.Context(), "log/1", "first")
	require.NoError(t, err)
	s.Close()

	s = start(t, dir)
	defer s.Close()
	got, err := s.Client().Get(t.Context(), "log/1")
	require.NoError(t, err)
	require.Equal(t, "first", string(got.Kvs[0].Value))
}

// An empty data directory is small: what etcd preallocates is bounded.
func TestServer_TakesLittleSpace(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	defer s.Close()
	var wals, bytes int64
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Base(filepath.Dir(path)) != "wal" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			wals, bytes = wals+1, bytes+info.Size()
		}
		return err
	}))
	require.NotZero(t, wals)
	require.LessOrEqual(t, bytes, int64(16<<20))
}

func TestServer_ServesTransactionsLeasesAndWatches(t *testing.T) {
	s := start(t, t.TempDir())
	defer s.Close()
	c := s.Client()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	changes := c.Watch(ctx, "owner")

	lease, err := c.Grant(ctx, 60)
	require.NoError(t, err)
	txn, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision("owner"), "=", 0)).
		Then(clientv3.OpPut("owner", "me", clientv3.WithLease(lease.ID))).Commit()
	require.NoError(t, err)
	require.True(t, txn.Succeeded)
	_, err = c.KeepAliveOnce(ctx, lease.ID)
	require.NoError(t, err)
	require.Equal(t, "me", string((<-changes).Events[0].Kv.Value))
	_, err = c.Revoke(ctx, lease.ID)
	require.NoError(t, err)
	require.Equal(t, clientv3.EventTypeDelete, (<-changes).Events[0].Type)
	_, err = c.Compact(ctx, txn.Header.Revision)
	require.NoError(t, err)
}

func TestServer_ServesOtherProcesses(t *testing.T) {
	s := start(t, t.TempDir())
	defer s.Close()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	outside, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}, DialTimeout: 20 * time.Second})
	require.NoError(t, err)
	_, err = outside.Put(t.Context(), "log/1", "first")
	require.NoError(t, err)
	require.NoError(t, outside.Close())
	got, err := s.Client().Get(t.Context(), "log/1")
	require.NoError(t, err)
	require.Equal(t, "first", string(got.Kvs[0].Value))
	require.NoError(t, l.Close())
	require.Error(t, <-served)
}

func TestServer_GivesFreeSpaceBack(t *testing.T) {
	s := start(t, t.TempDir())
	defer s.Close()
	ctx, c := t.Context(), s.Client()
	value := strings.Repeat("x", 256<<10)
	var revision int64
	for range 40 {
		put, err := c.Put(ctx, "log/1", value)
		require.NoError(t, err)
		revision = put.Header.Revision
	}
	_, err := c.Compact(ctx, revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	before, err := c.Status(ctx, "")
	require.NoError(t, err)
	_, err = c.Defragment(ctx, "")
	require.NoError(t, err)
	after, err := c.Status(ctx, "")
	require.NoError(t, err)
	require.Less(t, after.DbSize, before.DbSize/2)
	got, err := c.Get(ctx, "log/1")
	require.NoError(t, err)
	require.Equal(t, value, string(got.Kvs[0].Value))
}

func TestServer_RunEndsWithItsContext(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(ctx))
}

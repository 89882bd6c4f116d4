package testservers_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
)

func TestEtcd_OneMemberWithTLSKeepsDataOverRestart(t *testing.T) {
	etcd := testservers.StartEtcd(t, testservers.EtcdConfig{TLS: true})
	client := etcd.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := client.Put(ctx, "key", "value")
	require.NoError(t, err)
	etcd.Members[0].Restart()
	got, err := client.Get(ctx, "key")
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
}

func TestEtcd_ThreeMembersOutliveTheirLeader(t *testing.T) {
	etcd := testservers.StartEtcd(t, testservers.EtcdConfig{Members: 3})
	leader := etcd.Leader(t)
	leader.Kill()
	require.Zero(t, leader.PID())
	next := etcd.Leader(t)
	require.NotEqual(t, leader.Name, next.Name)
	leader.Restart()

	next.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := etcd.Client(t).Status(ctx, next.URL)
	require.Error(t, err, "a paused member does not answer")
	next.Cont()
	next.AwaitReady()
}

func TestS3_KeepsObjectsInItsDirectory(t *testing.T) {
	s3 := testservers.StartS3(t, "one", "two")
	entries, err := os.ReadDir(s3.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	s3.Restart()
	require.Contains(t, s3.URL("one", "a/b"), "s3://one/a/b?access-key="+s3.AccessKey+"&endpoint=http%3A%2F%2F127.0.0.1")
	require.DirExists(t, filepath.Join(s3.Dir, "two"))
}

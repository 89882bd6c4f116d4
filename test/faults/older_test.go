package faults

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestOlderMetadata restores a backup of etcd that lacks acknowledged records. The control plane refuses it at every start, and no
// offset is assigned again. With the data of etcd that is not older it goes on where it was.
func TestOlderMetadata(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{
		Agents: 1, ControlPlanes: 1, EtcdMembers: 1,
		AgentFlags: []string{"--put-budget", "100"}, ControlFlags: []string{"--snapshot-bytes", "1KiB"},
	})
	control, etcd := c.ControlPlanes[0], c.Etcd.Members[0]
	const topic = "older"
	createTopic(t, topic, 1, bootstraps(c)...)
	agent := dial(t, c.Agents[0].Bootstrap)
	write := func() int64 {
		ctx, cancel := context.WithTimeout(t.Context(), finishing)
		defer cancel()
		offset, err := agent.produce(ctx, topic, 0, "record")
		require.NoError(t, err)
		return offset
	}
	require.Zero(t, write())
	stop := func() {
		_, err := control.Terminate(finishing) // it gives ownership up, so that no start waits for a lease
		require.NoError(t, err)
		etcd.Kill()
	}

	stop()
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, os.CopyFS(backup, os.DirFS(etcd.DataDir)))
	etcd.Restart()
	control.Restart()
	last := write()
	snapshots := func() float64 {
		n, err := harness.Metric(control.HTTP, "freshet_replica_snapshots_total")
		require.NoError(t, err)
		return n
	}
	harness.Await(t, "a snapshot that is newer than the backup", func() bool {
		last = write()
		return snapshots() > 0
	})

	stop()
	newest := etcd.DataDir + "-newest"
	require.NoError(t, os.Rename(etcd.DataDir, newest))
	require.NoError(t, os.CopyFS(etcd.DataDir, os.DirFS(backup)))
	etcd.Restart()
	for start := 1; start <= 2; start++ { // as a supervisor does
		control.Launch()
		ctx, cancel := context.WithTimeout(t.Context(), finishing)
		require.ErrorContains(t, control.Await(ctx), "ended with exit code 1")
		cancel()
		require.Equal(t, start, strings.Count(control.Output(), "freshet: metadata is older than --bucket s3://bucket/freshet"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := agent.produce(ctx, topic, 0, "no offset for this one")
	require.Error(t, err)

	etcd.Kill()
	require.NoError(t, os.RemoveAll(etcd.DataDir))
	require.NoError(t, os.Rename(newest, etcd.DataDir))
	etcd.Restart()
	control.Restart()
	agent = dial(t, c.Agents[0].Bootstrap)
	require.Greater(t, write(), last, "offset after "+strconv.FormatInt(last, 10))
}

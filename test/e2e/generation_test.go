package e2e

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore"
	bucketopen "github.com/freshet-io/freshet/objstore/open"
	"github.com/freshet-io/freshet/test/harness"
)

// otherGeneration is that of another program.
const otherGeneration = generation.Number + 1

// TestExit_OtherGeneration: a process whose log or snapshot is of another generation ends with one line that names where it is,
// what was found, and the remedy.
func TestExit_OtherGeneration(t *testing.T) {
	t.Parallel()
	found := fmt.Sprintf(`: it is %d, this program reads %d: run the program that wrote it, or begin with an empty bucket prefix, etcd prefix and data directory$`,
		otherGeneration, generation.Number)
	for name, test := range map[string]struct {
		start func(t *testing.T) *testservers.Process // on data of otherGeneration
		says  string
	}{
		"dev, log":                {devOnOtherLog, `^--data-dir \S+: .*: log entry 1: .*`},
		"control plane, log":      {controlPlaneOnOtherLog, `^--etcd-prefix /freshet/v1, --bucket s3://bucket/freshet\S+: .*: log entry 1: .*`},
		"control plane, snapshot": {controlPlaneOnOtherSnapshot, `^--etcd-prefix /freshet/v1, --bucket s3://bucket/freshet\S+: .*: decode \S+/snapshots/\S+: .*`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Regexp(t, test.says+found, exitLine(t, test.start(t), exitLimit))
		})
	}
}

func devOnOtherLog(t *testing.T) *testservers.Process {
	t.Helper()
	d := harness.StartDev(t)
	d.Kill()
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: filepath.Join(d.DataDir, "etcd")}, zap.NewNop())
	require.NoError(t, err)
	stampLog(t, etcd.Client(), keysOf(t, etcd.Client(), "dev")+"log/")
	etcd.Close()
	d.Launch()
	return d.Process
}

func controlPlaneOnOtherLog(t *testing.T) *testservers.Process {
	t.Helper()
	c := harness.NewCluster(t, harness.ClusterConfig{ControlPlanes: 1})
	p := c.ControlPlanes[0]
	p.Restart()
	_, err := p.Terminate(time.Minute)
	require.NoError(t, err)
	stampLog(t, c.Etcd.Client(t), keysOf(t, c.Etcd.Client(t), "main")+"log/")
	p.Launch()
	return p.Process
}

func controlPlaneOnOtherSnapshot(t *testing.T) *testservers.Process {
	t.Helper()
	c := harness.NewCluster(t, harness.ClusterConfig{ControlPlanes: 1, ControlFlags: []string{"--snapshot-bytes", "1"}})
	p := c.ControlPlanes[0]
	p.Restart()
	etcd := c.Etcd.Client(t)
	key := keysOf(t, etcd, "main") + "snapshots"
	require.Eventually(t, func() bool {
		found, err := etcd.Get(t.Context(), key)
		return err == nil && len(found.Kvs) == 1
	}, time.Minute, 20*time.Millisecond)
	_, err := p.Terminate(time.Minute)
	require.NoError(t, err)
	stampSnapshots(t, etcd, key, c.BucketURL)
	p.Launch()
	return p.Process
}

// keysOf returns where the keys of a virtual cluster begin in etcd.
func keysOf(t *testing.T, etcd *clientv3.Client, virtualCluster string) string {
	t.Helper()
	clusterID, err := directory.Directory{Client: etcd, Prefix: etcdlog.DefaultPrefix}.Resolve(t.Context(), virtualCluster)
	require.NoError(t, err)
	return etcdlog.DefaultPrefix + "/" + clusterID + "/"
}

// stampLog sets the generation of every log entry under an etcd prefix, as if an earlier program had written them.
func stampLog(t *testing.T, etcd *clientv3.Client, prefix string) {
	t.Helper()
	found, err := etcd.Get(t.Context(), prefix, clientv3.WithPrefix())
	require.NoError(t, err)
	require.NotEmpty(t, found.Kvs)
	for i, kv := range found.Kvs {
		record, err := metalog.DecodeRecord(uint64(i+1), kv.Value)
		require.NoError(t, err)
		require.True(t, record.First)
		record.Payload[0] = otherGeneration
		_, err = etcd.Put(t.Context(), string(kv.Key), string(metalog.EncodeRecord(&record)))
		require.NoError(t, err)
	}
}

// stampSnapshots sets the generation of the snapshots that a key in etcd points to, and all checksums.
func stampSnapshots(t *testing.T, etcd *clientv3.Client, key, bucketURL string) {
	t.Helper()
	bucket, err := bucketopen.Bucket(t.Context(), bucketURL)
	require.NoError(t, err)
	defer bucket.Close()
	replace := func(key string, change func([]byte) []byte) (crc uint32) {
		object, err := bucket.Get(t.Context(), key, 0, -1)
		require.NoError(t, err)
		content, err := io.ReadAll(object)
		require.NoError(t, err)
		require.NoError(t, object.Close())
		content = change(content)
		require.NoError(t, bucket.Delete(t.Context(), []string{key}))
		require.NoError(t, bucket.Put(t.Context(), key, objstore.NewBody(content)))
		return crc32.Checksum(content, objstore.Castagnoli)
	}
	found, err := etcd.Get(t.Context(), key)
	require.NoError(t, err)
	var refs []metalog.SnapshotRef
	require.NoError(t, json.Unmarshal(found.Kvs[0].Value, &refs))
	for i := range refs {
		crc := replace(refs[i].Name+"/part-00000", func(part []byte) []byte {
			part[len("frshsnap")] = otherGeneration
			return part
		})
		refs[i].CRC = replace(refs[i].Name+"/manifest", func(content []byte) []byte {
			var manifest map[string]any
			require.NoError(t, json.Unmarshal(content, &manifest))
			manifest["parts"].([]any)[0].(map[string]any)["crc"] = crc
			content, err := json.Marshal(manifest)
			require.NoError(t, err)
			return content
		})
	}
	value, err := json.Marshal(refs)
	require.NoError(t, err)
	_, err = etcd.Put(t.Context(), key, string(value))
	require.NoError(t, err)
}

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/open"
)

func TestBucket_ShowAndMove(t *testing.T) {
	dir := t.TempDir()
	var urls []string
	for _, name := range []string{"old", "new"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		urls = append(urls, "file://"+filepath.Join(dir, name))
	}
	var out strings.Builder
	show := func(url string) (string, error) {
		out.Reset()
		err := cli.ShowBucket(t.Context(), cli.BucketConfig{URL: url, VirtualCluster: "main"}, cli.Streams{Out: &out})
		return out.String(), err
	}
	_, err := show(urls[0])
	require.EqualError(t, err, urls[0]+" has no object clusters/main: no cluster of that name")
	bucket, err := open.Bucket(t.Context(), urls[0])
	require.NoError(t, err)
	_, err = marker.Create(t.Context(), bucket, "main", marker.Marker{ClusterID: "id"})
	require.NoError(t, err)
	require.NoError(t, bucket.Close())

	out.Reset()
	require.NoError(t, cli.MoveBucket(t.Context(), cli.BucketConfig{URL: urls[0], To: urls[1], VirtualCluster: "main"}, cli.Streams{Out: &out}))
	require.Equal(t, "virtual cluster main is at "+urls[1]+" now, with 0 objects: set --bucket of its control plane and agents to that\n", out.String())
	told, err := show(urls[0])
	require.NoError(t, err)
	require.Equal(t, "virtual cluster main, cluster id id, moved to "+urls[1]+"\n", told)
	told, err = show(urls[1])
	require.NoError(t, err)
	require.Equal(t, "virtual cluster main, cluster id id\n", told)
}

package merge_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
	"github.com/freshet-io/freshet/objstore/s3"
)

// TestRun_OnS3 merges from and to a real S3 server, in parts.
func TestRun_OnS3(t *testing.T) {
	server := testservers.StartS3(t, "bucket")
	u, err := url.Parse(server.URL("bucket", "test"))
	require.NoError(t, err)
	config, err := s3.ParseURL(u)
	require.NoError(t, err)
	store, err := s3.New(t.Context(), config)
	require.NoError(t, err)
	defer store.Close()

	w := newWorld(t, 31)
	w.batchBytes = 100_000
	for range 12 {
		w.bundle([]id.TopicPartition{tp(1, 0), tp(1, 1), tp(2, 0)}, 20)
	}
	plan := w.plan(1000)
	for i := range plan.Partitions { // what is out of order needs GETs of its own
		plan.Partitions[i].Extents = inOrder(plan.Partitions[i].Extents)
	}
	page, err := w.bucket.List(t.Context(), "", "", 1000)
	require.NoError(t, err)
	for _, info := range page {
		data, err := objstoretest.Get(t.Context(), w.bucket, info.Key, 0, -1)
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), info.Key, objstore.NewBody(data)))
	}
	metered := meter.New(store, nil)
	e := env(metered)
	e.BundleBytes, e.ExtentBytes, e.InFlight = 16<<20, 1<<20, 3
	o, err := merge.Run(t.Context(), plan, ignore, e)
	require.NoError(t, err)
	w.requireOutcome(store, plan, &o)
	counts := metered.Counts()
	require.EqualValues(t, len(inputsOf(plan)), counts[objstore.OpGet].Requests)
	require.NotZero(t, counts[objstore.OpCompleteUpload].Requests)
	left, err := store.Uploads(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, left)

	_, err = merge.Run(t.Context(), plan, ignore, e) // the same again, as a runner that comes late would
	require.NoError(t, err, "the very same bytes are its own")
}

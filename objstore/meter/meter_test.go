package meter_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func TestBucket_Contract(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Bucket { return meter.New(mem.New(), nil) })
}

func TestBucket_DeleteRefused(t *testing.T) {
	objstoretest.Refusal(t, meter.New(objstoretest.Refusing("refused"), nil), "refused")
}

func TestBucket_Counts(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	b := meter.New(mem.New(), reg)
	require.NoError(t, b.Put(t.Context(), "k", objstore.NewBody([]byte("0123456789"))))
	require.Error(t, b.Put(t.Context(), "k", objstore.NewBody([]byte("0123456789"))))
	before := b.Counts()
	_, err := objstoretest.Get(t.Context(), b, "k", 2, 3)
	require.NoError(t, err)
	_, err = b.Head(t.Context(), "missing")
	require.Error(t, err)
	require.Equal(t, meter.Count{Requests: 2, Errors: 1, Bytes: 10}, b.Counts()[objstore.OpPut])
	require.Equal(t, meter.Count{Requests: 1, Bytes: 3}, b.Counts()[objstore.OpGet])
	require.Equal(t, meter.Count{Requests: 1, Errors: 1}, b.Counts()[objstore.OpHead])
	require.Equal(t, before[objstore.OpPut], b.Counts()[objstore.OpPut])

	for _, end := range []func(objstore.Upload) error{
		func(u objstore.Upload) error { return u.Complete(t.Context()) },
		func(u objstore.Upload) error { return u.Abort(t.Context()) },
	} {
		u, err := b.Create(t.Context(), "parts")
		require.NoError(t, err)
		require.NoError(t, u.Part(t.Context(), 1, 0, objstore.NewBody([]byte("01234"))))
		require.NoError(t, end(u))
	}
	_, err = b.Uploads(t.Context(), "", "", 1)
	require.NoError(t, err)
	require.NoError(t, b.AbortUpload(t.Context(), objstore.UploadInfo{Key: "parts"}))
	counts := b.Counts()
	require.Equal(t, meter.Count{Requests: 2, Bytes: 10}, counts[objstore.OpPutPart])
	require.EqualValues(t, 2, counts[objstore.OpCreateUpload].Requests)
	require.EqualValues(t, 1, counts[objstore.OpCompleteUpload].Requests)
	require.EqualValues(t, 2, counts[objstore.OpAbortUpload].Requests)
	require.EqualValues(t, 1, counts[objstore.OpListUploads].Requests)

	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP freshet_objstore_bytes_total Object bytes sent by puts and parts that succeeded and received by gets.
# TYPE freshet_objstore_bytes_total counter
freshet_objstore_bytes_total{operation="get"} 3
freshet_objstore_bytes_total{operation="put"} 10
freshet_objstore_bytes_total{operation="put_part"} 10
# HELP freshet_objstore_errors_total Requests that failed, by kind of error.
# TYPE freshet_objstore_errors_total counter
freshet_objstore_errors_total{error="already_exists",operation="put"} 1
freshet_objstore_errors_total{error="not_found",operation="head"} 1
# HELP freshet_objstore_requests_in_flight Requests to the object store under way.
# TYPE freshet_objstore_requests_in_flight gauge
freshet_objstore_requests_in_flight{operation="abort_upload"} 0
freshet_objstore_requests_in_flight{operation="complete_upload"} 0
freshet_objstore_requests_in_flight{operation="create_upload"} 0
freshet_objstore_requests_in_flight{operation="delete"} 0
freshet_objstore_requests_in_flight{operation="get"} 0
freshet_objstore_requests_in_flight{operation="head"} 0
freshet_objstore_requests_in_flight{operation="list"} 0
freshet_objstore_requests_in_flight{operation="list_uploads"} 0
freshet_objstore_requests_in_flight{operation="now"} 0
freshet_objstore_requests_in_flight{operation="put"} 0
freshet_objstore_requests_in_flight{operation="put_part"} 0
# HELP freshet_objstore_requests_total Requests to the object store, hedges and retries included.
# TYPE freshet_objstore_requests_total counter
freshet_objstore_requests_total{operation="abort_upload"} 2
freshet_objstore_requests_total{operation="complete_upload"} 1
freshet_objstore_requests_total{operation="create_upload"} 2
freshet_objstore_requests_total{operation="delete"} 0
freshet_objstore_requests_total{operation="get"} 1
freshet_objstore_requests_total{operation="head"} 1
freshet_objstore_requests_total{operation="list"} 0
freshet_objstore_requests_total{operation="list_uploads"} 1
freshet_objstore_requests_total{operation="now"} 0
freshet_objstore_requests_total{operation="put"} 2
freshet_objstore_requests_total{operation="put_part"} 2
`), "freshet_objstore_bytes_total", "freshet_objstore_errors_total", "freshet_objstore_requests_in_flight", "freshet_objstore_requests_total"))
}

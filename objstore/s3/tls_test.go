package s3

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// TestBucket_PutOverTLS sends a body where vectored writes are not possible.
func TestBucket_PutOverTLS(t *testing.T) {
	var got []byte
	var header http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header.Clone()
		got, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	config := Config{Bucket: "b", Endpoint: server.URL, PathStyle: true, AccessKey: "k", SecretKey: "s"}
	b, err := New(t.Context(), config)
	require.NoError(t, err)
	defer b.Close()
	b.http.transport.TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	data := objstoretest.Bytes(3, 3<<20)
	require.NoError(t, b.Put(t.Context(), "k", objstore.NewBody(data[:7], data[7:])))
	require.True(t, bytes.Equal(data, got))
	require.Equal(t, "UNSIGNED-PAYLOAD", header.Get("X-Amz-Content-Sha256"))
	require.Empty(t, header.Get("X-Amz-Trailer"), "no trailing checksum, which would need chunked encoding")
}

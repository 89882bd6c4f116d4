package s3

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// TestBucket_PutOverTLS sends a body where vectored writes are not possible, to a store whose authority is given by file.
func TestBucket_PutOverTLS(t *testing.T) {
	var got []byte
	var header http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		header = r.Header.Clone()
		got, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	config := Config{Bucket: "b", Endpoint: server.URL, PathStyle: true, AccessKey: "k", SecretKey: "s"}
	stranger, err := New(t.Context(), config)
	require.NoError(t, err)
	defer stranger.Close()
	require.ErrorContains(t, stranger.Put(t.Context(), "k", objstore.NewBody()), "certificate signed by unknown authority")

	config.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	_, err = New(t.Context(), config)
	require.ErrorIs(t, err, fs.ErrNotExist)
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	require.NoError(t, os.WriteFile(config.CAFile, pem.EncodeToMemory(block), 0o600))
	b, err := New(t.Context(), config)
	require.NoError(t, err)
	defer b.Close()
	data := objstoretest.Bytes(3, 3<<20)
	require.NoError(t, b.Put(t.Context(), "k", objstore.NewBody(data[:7], data[7:])))
	require.True(t, bytes.Equal(data, got))
	require.Equal(t, "UNSIGNED-PAYLOAD", header.Get("X-Amz-Content-Sha256"))
	require.Empty(t, header.Get("X-Amz-Trailer"), "no trailing checksum, which would need chunked encoding")
}

package cost

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// objects is a null endpoint that also checks each object's checksum against its bytes.
type objects struct {
	*NullS3
	mu     sync.Mutex
	wrong  int
	stored [][]byte
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		body, err := io.ReadAll(r.Body)
		sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli)))
		o.mu.Lock()
		if err != nil || r.Header.Get("X-Amz-Checksum-Crc32c") != sum {
			o.wrong++
		}
		o.stored = append(o.stored, body)
		o.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	o.NullS3.ServeHTTP(w, r)
}

// serveFloor gives a floor's address and its endpoint's objects.
func serveFloor(t *testing.T, tlsConfig *tls.Config) (string, *objects) {
	t.Helper()
	store := &objects{NullS3: NewNullS3()}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	endpoint, err := url.Parse(server.URL + "/bucket")
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	floor := NewFloor(endpoint, tlsConfig)
	go func() { served <- floor.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
		for range floorPutsAtOnce {
			if c := <-floor.conns; c.conn != nil {
				c.conn.Close()
			}
		}
	})
	return l.Addr().String(), store
}

// The floor stores every byte that it was sent, in objects of 8 MiB, each with its true checksum.
func TestFloor_Receive(t *testing.T) {
	for name, withTLS := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			var tlsConfig *tls.Config
			if withTLS {
				cert, err := newCertificate(t.TempDir())
				require.NoError(t, err)
				tlsConfig, err = cert.serverTLS()
				require.NoError(t, err)
			}
			address, store := serveFloor(t, tlsConfig)
			load := Load{Kind: FloorReceive, Address: address, TLS: withTLS, Bytes: 20_000_000, Connections: 2}
			result, err := load.Run(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 20_000_000, result.WireBytes)
			store.mu.Lock()
			defer store.mu.Unlock()
			require.Zero(t, store.wrong, "checksums")
			require.Equal(t, NullS3Counts{Puts: 4, Bytes: 20_000_000}, store.Counts(), "two full objects and two rests")
			stream := bytes.Repeat(randomBytes(frameBytes), 100)
			for _, o := range store.stored {
				first, second := stream[:len(o)], stream[floorObjectBytes%frameBytes:][:len(o)]
				require.True(t, bytes.Equal(o, first) || bytes.Equal(o, second), "the bytes that were sent")
			}
		})
	}
}

func TestFloor_Send(t *testing.T) {
	address, store := serveFloor(t, nil)
	load := Load{Kind: FloorSend, Address: address, Bytes: 30_000_000, Connections: 3}
	result, err := load.Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 30_000_000, result.WireBytes)
	require.Zero(t, store.Counts().Gets, "from memory")
}

// A load whose server stores nothing must fail, not report bytes.
func TestFloor_ReceiveTellsWhenAnObjectIsNotStored(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	endpoint, err := url.Parse(server.URL)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- NewFloor(endpoint, nil).Serve(ctx, l) }()
	_, err = Load{Kind: FloorReceive, Address: l.Addr().String(), Bytes: 1000, Connections: 1}.Run(t.Context())
	require.Error(t, err)
	cancel()
	require.ErrorContains(t, <-served, "404")
}

func TestNullS3(t *testing.T) {
	server := httptest.NewServer(NewNullS3())
	defer server.Close()
	do := func(method, path, body string) (status int, header http.Header, size int64, answer []byte) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-Amz-Checksum-Crc32c", "abcd")
		req.Header.Set("If-None-Match", "*")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		answer, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, resp.Header, resp.ContentLength, answer
	}
	status, _, _, _ := do(http.MethodHead, "/bucket/a", "")
	require.Equal(t, http.StatusNotFound, status)
	status, _, _, _ = do(http.MethodPut, "/bucket/a", "12345")
	require.Equal(t, http.StatusOK, status)
	status, _, _, _ = do(http.MethodPut, "/bucket/a", "1234567")
	require.Equal(t, http.StatusPreconditionFailed, status)
	_, header, size, _ := do(http.MethodHead, "/bucket/a", "")
	require.EqualValues(t, 5, size, "as S3 says it, so that a lost answer is resolved")
	require.Equal(t, "abcd", header.Get("X-Amz-Checksum-Crc32c"))
	status, _, _, _ = do(http.MethodGet, "/bucket/a", "")
	require.Equal(t, http.StatusNotFound, status, "it forgets")
	_, _, _, answer := do(http.MethodGet, "/counts", "")
	var counts NullS3Counts
	require.NoError(t, json.Unmarshal(answer, &counts))
	require.Equal(t, NullS3Counts{Puts: 2, Gets: 1, Bytes: 12}, counts)
}

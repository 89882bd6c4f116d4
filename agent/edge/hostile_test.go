package edge

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestServer_GarbageIsClosedWithAHint(t *testing.T) {
	for name, test := range map[string]struct{ send, hint string }{
		"TLS hello":     {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "the client speaks TLS, this listener does not"},
		"HTTP":          {"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP"},
		"negative size": {"\xff\xff\xff\xff\x00\x03\x00\x00", ""},
		"tiny size":     {"\x00\x00\x00\x07\x00\x03\x00\x00", ""},
		"large size":    {"\x7f\x00\x00\x00\x00\x03\x00\x00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			_, addr := startTCP(t, Config{Handler: echo, Log: zap.New(core)})
			c := dial(t, addr)
			write(t, c, []byte(test.send))
			requireClosed(t, c)
			require.Equal(t, 1, logs.Len())
			require.Equal(t, test.hint, logs.All()[0].ContextMap()["hint"])
		})
	}
}

func TestServer_RefusesWhatIsNotServed(t *testing.T) {
	_, addr := startTCP(t, Config{Handler: echo})
	for name, p := range map[string][]byte{
		"unknown key":          {0, 0, 0, 10, 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
		"produce version 2":    {0, 0, 0, 10, 0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff},
		"share fetch":          {0, 0, 0, 10, 0, 78, 0, 1, 0, 0, 0, 1, 0xff, 0xff},
		"client id too long":   {0, 0, 0, 10, 0, 3, 0, 0, 0, 0, 0, 1, 0x7f, 0xff},
		"no room for a header": {0, 0, 0, 8, 0, 3, 0, 0, 0, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, addr)
			write(t, c, append(request(metadata, 1, "before"), p...))
			requireResponse(t, c, 1, "before")
			requireClosed(t, c)
		})
	}
}

func TestServer_VersionNotServedIsLoggedWithItsRemedy(t *testing.T) {
	for name, test := range map[string]struct {
		key, version byte
		hint         string
	}{
		"Produce 2, as kafka-python with api_version=(0, 10) sends": {0, 2, "upgrade it or remove that setting (KIP-896)"},
		"Fetch 19":     {1, 19, "let it ask for versions"},
		"ShareFetch 1": {78, 1, "share groups (KIP-932)"},
		"key 200":      {200, 0, "unknown to Apache Kafka"},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			_, addr := startTCP(t, Config{Handler: echo, Log: zap.New(core)})
			c := dial(t, addr)
			write(t, c, []byte{0, 0, 0, 10, 0, test.key, 0, test.version, 0, 0, 0, 1, 0xff, 0xff})
			requireClosed(t, c)
			require.Equal(t, 1, logs.Len())
			require.Contains(t, logs.All()[0].ContextMap()["hint"], test.hint)
		})
	}
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestServer_TLS(t *testing.T) {
	reply := Reply{Head: make([]byte, 10_000)}
	for i := range 40 {
		reply.Tail = append(reply.Tail, make([]byte, i*i*100))
	}
	size := reply.size()
	h := handlerFunc(func(context.Context, *Request) func() Reply {
		return func() Reply { return reply }
	})
	core, logs := observer.New(zap.WarnLevel)
	_, addr := startTCP(t, Config{Handler: h, Log: zap.New(core), Listeners: []Listener{{
		Address: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}},
	}}})

	c := tls.Client(dial(t, addr), &tls.Config{InsecureSkipVerify: true}) // a throw-away certificate
	for i := range 3 {
		write(t, c, request(fetch, int32(i), "x"))
		correlation, body, err := readResponse(c)
		require.NoError(t, err)
		require.EqualValues(t, i, correlation)
		require.Len(t, body, size)
	}
	require.Zero(t, logs.Len())

	plain := dial(t, addr)
	write(t, plain, request(fetch, 1, "x"))
	_, _, _ = readResponse(plain) // an alert, then closed
	require.Eventually(t, func() bool { return logs.Len() == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, "the client does not speak TLS, this listener does", logs.All()[0].ContextMap()["hint"])
}

// TestServer_TLSSessionsAreResumed: a client that comes again is spared the better part of the handshake, and the agent too.
func TestServer_TLSSessionsAreResumed(t *testing.T) {
	_, addr := startTCP(t, Config{Handler: echo, Listeners: []Listener{{
		Address: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}},
	}}})
	client := &tls.Config{InsecureSkipVerify: true, ServerName: "agent", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for _, resumed := range []bool{false, true, true} {
		c := tls.Client(dial(t, addr), client)
		write(t, c, request(fetch, 1, "x"))
		_, _, err := readResponse(c) // and the ticket before it
		require.NoError(t, err)
		require.Equal(t, resumed, c.ConnectionState().DidResume)
	}
}

// countingWriter keeps the sizes of writes.
type countingWriter struct{ sizes []int }

func (w *countingWriter) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	return len(p), nil
}

func TestOutput_FillsRecordsUnderTLS(t *testing.T) {
	w := &countingWriter{}
	o := &output{to: w, tls: true, header: make([]byte, 9)}
	var tail net.Buffers
	for range 1000 {
		tail = append(tail, make([]byte, 300))
	}
	tail = append(tail, make([]byte, 100_000), make([]byte, 3<<20))
	require.NoError(t, o.write(new(conn), make([]byte, 50), tail))
	require.NoError(t, o.flush(new(conn)))
	total := 0
	for i, n := range w.sizes {
		total += n
		if i < len(w.sizes)-1 {
			require.Zero(t, n%tlsRecord, "write %d of %d bytes", i, n)
		}
		require.LessOrEqual(t, n, writeChunk)
	}
	require.Equal(t, 9+50+300_000+100_000+3<<20, total)
}

func TestOutput_WritesEverythingOnceInChunks(t *testing.T) {
	for _, head := range []int{0, 10, smallReply + 1, 3 << 20} {
		w := &countingWriter{}
		o := &output{to: w, header: make([]byte, 9)}
		tail := net.Buffers{make([]byte, 10), make([]byte, writeChunk-5), nil, make([]byte, 5*writeChunk/2)}
		want := 9 + head
		for _, p := range tail {
			want += len(p)
		}
		require.NoError(t, o.write(new(conn), make([]byte, head), tail))
		require.NoError(t, o.flush(new(conn)))
		total := 0
		for _, n := range w.sizes {
			total += n
		}
		require.Equal(t, want, total)
	}
}

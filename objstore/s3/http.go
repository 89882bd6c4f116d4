package s3

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/tlsfiles"
)

// Bounds of the HTTP client.
const (
	dialTimeout     = 5 * time.Second
	idleTimeout     = 60 * time.Second
	idleConnections = 512 // kept per host: as many as there are puts and gets at once in a burst
	bufferBytes     = 64 << 10
)

type payloadKey struct{}

// httpClient carries the SDK's requests. It is one per bucket, so that closing the bucket closes its connections.
type httpClient struct {
	client    http.Client
	transport *http.Transport
}

// newHTTPClient checks certificates with the authorities of a PEM file, or the system's if it is named "".
func newHTTPClient(caFile string) (*httpClient, error) {
	trust, err := tlsfiles.Files{CA: caFile}.Client(true, zap.NewNop())
	if err != nil {
		return nil, err
	}
	trust.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if tcp, ok := conn.(*net.TCPConn); ok {
				return vectorConn{tcp}, nil
			}
			return conn, err
		},
		TLSClientConfig:     trust,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
		WriteBufferSize:     bufferBytes, // also the size of TLS writes
		ReadBufferSize:      16 << 10,
		// One connection per request under way: HTTP/2 would put them all behind one flow control window.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	return &httpClient{
		transport: transport,
		client: http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Do sends the request, with the payload of its context as body.
func (c *httpClient) Do(req *http.Request) (*http.Response, error) {
	if p, ok := req.Context().Value(payloadKey{}).(*payload); ok && req.ContentLength > 0 {
		req.Body = p.reader()
		// For a connection that turns out closed before anything was sent.
		req.GetBody = func() (io.ReadCloser, error) { return p.reader(), nil }
	}
	return c.client.Do(req)
}

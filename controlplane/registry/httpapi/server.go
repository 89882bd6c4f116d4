package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/connlimit"
)

// Bounds of a connection. A header arrives within bodyTimeout. The time of the body, another bodyTimeout, begins once the caller is known.
const (
	// maxConnections bounds the open connections.
	maxConnections = 512
	// maxHeaderBytes bounds the header of a request. HTTP/1 takes up to 8 KiB more.
	maxHeaderBytes = 16 << 10
	// maxStreams bounds the requests that a connection of HTTP/2 has at once, and so the bodies and answers that wait for slow clients: 2,048 of all
	// connections, of at most maxBody, or about 100 KiB for a page of 100 audit entries.
	maxStreams = 4
	// maxReceived bounds the bytes that a connection of HTTP/2 keeps for handlers that do not read yet. HTTP/2 wants 64 KiB at least.
	maxReceived = 64 << 10
	// writeTimeout is the time from the header of a request to the last byte of its answer.
	writeTimeout = requestTimeout + bodyTimeout + 5*time.Second
	// idleTimeout is the time of a connection between two requests.
	idleTimeout = time.Minute
	// stopTimeout is the time that requests in progress have when the server stops. A change that is cut is made by the same request again.
	stopTimeout = time.Second
)

// ServerConfig configures a Server.
type ServerConfig struct {
	Address string // host:port to listen on
	TLS     *tls.Config
	Handler http.Handler
	Log     *zap.Logger
	// Registerer has the metrics of connections; nil means a private registry.
	Registerer prometheus.Registerer
}

// Server serves a Handler over TLS, with HTTP/1.1 and HTTP/2. Listen opens the address, Run serves.
type Server struct {
	cfg    ServerConfig
	http   http.Server
	limit  *connlimit.Limit
	socket net.Listener
}

// NewServer returns a Server that does not listen yet. It fails without a TLS configuration, because requests have secrets.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.TLS == nil {
		return nil, errors.New("the HTTP API needs a certificate")
	}
	limit := connlimit.New(connlimit.Config{
		Server: "public", Max: maxConnections, FirstRequest: 2 * bodyTimeout, Log: cfg.Log, Prefix: "freshet_public_", Registerer: cfg.Registerer,
	})
	s := &Server{cfg: cfg, limit: limit, http: http.Server{
		Handler: cfg.Handler, TLSConfig: limit.TLS(cfg.TLS), MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: bodyTimeout, ReadTimeout: bodyTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: maxReceived, MaxReceiveBufferPerStream: maxReceived,
		},
		ErrorLog: zap.NewStdLog(cfg.Log),
	}}
	connlimit.Guard(&s.http, func(*http.Request) bool { return true })
	s.http.Protocols.SetHTTP2(true) // Guard counts the requests of a connection, which may be several at once
	return s, nil
}

// Listen opens the address, so that a fault shows before anything else starts.
func (s *Server) Listen(ctx context.Context) error {
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Address)
	if err != nil {
		return fmt.Errorf("listen for the HTTP API on %s: %w", s.cfg.Address, err)
	}
	s.serveOn(socket)
	return nil
}

func (s *Server) serveOn(socket net.Listener) { s.socket = s.limit.Listener(socket) }

// Addr returns the address listened on, nil before Listen.
func (s *Server) Addr() net.Addr {
	if s.socket == nil {
		return nil
	}
	return s.socket.Addr()
}

// Run serves until ctx ends. It then waits up to stopTimeout for the requests in progress.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.ServeTLS(s.socket, "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the HTTP API: %w", err)
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(stopCtx); err != nil {
		_ = s.http.Close() // requests are cut
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the HTTP API: %w", err)
	}
	return nil
}

// Close closes the address if Run was not called.
func (s *Server) Close() {
	if s.socket != nil {
		_ = s.socket.Close()
	}
}

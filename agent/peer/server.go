package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/internal/connlimit"
)

// Lender gives units to send: cache.Cache implements it.
type Lender interface {
	Prepare(o *cache.Order)
	Lend(ctx context.Context, o *cache.Order, unit int) (*cache.Loan, error)
}

// ServerConfig is what a Server is made of. Zero values mean the defaults.
type ServerConfig struct {
	Address string // host:port to listen on
	// Secret opens the server to askers that show it.
	Secret *Secret
	Zone   string // that askers must be in
	// Cluster gives the cluster's id, which askers must name; "" while it is not known.
	Cluster func() string
	TLS     *tls.Config // nil: plaintext
	Units   Lender
	// Listener replaces the network, in tests; nil: Address is listened on.
	Listener func(ctx context.Context) (net.Listener, error)
	// Upgrades are the streams that other agents can open, by protocol. Each is called with a connection that is its own
	// from then on, and must end when the agent does.
	Upgrades map[string]Upgrade
	// Requests bounds those answered at once, half as many more of catch-up reads; further ones are refused. Default 128.
	Requests int
	// Connections bounds the open connections without streams. At the bound a new connection replaces one without a request in
	// progress, in the order of package connlimit. Default 1024: see Connections in the package comment.
	Connections int
	// UnsentBytes bounds the units that are being sent, half as much more for catch-up reads; one unit at least.
	// Default 64 MiB.
	UnsentBytes int64
	// WriteTimeout bounds the wait for an asker to take the next bytes, at most 256 KiB or a slab. Default 10 s.
	WriteTimeout time.Duration
	// StopTimeout bounds the sending of the answers that have begun when the server stops. Default 500 ms.
	StopTimeout time.Duration
	Log         *zap.Logger
	Registerer  prometheus.Registerer // nil: a private registry
}

// ApplyDefaults sets fields that are zero to their defaults.
func (c *ServerConfig) ApplyDefaults() {
	c.Requests = cmp.Or(c.Requests, 128)
	c.Connections = cmp.Or(c.Connections, 1024)
	c.UnsentBytes = cmp.Or(c.UnsentBytes, 64<<20)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.StopTimeout = cmp.Or(c.StopTimeout, 500*time.Millisecond)
	c.Zone = strings.TrimSpace(c.Zone)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate returns an error if a required field is not set.
func (c *ServerConfig) Validate() error {
	if c.Secret == nil || c.Cluster == nil || c.Units == nil {
		return errors.New("secret, cluster and units are needed")
	}
	return nil
}

// Server answers the other agents of the zone. Listen opens its address, Run serves.
type Server struct {
	cfg         ServerConfig
	metrics     *serverMetrics
	requests    byClass
	unsent      byClass
	connections *connlimit.Limit
	http        http.Server
	socket      net.Listener
	draining    atomic.Bool
}

// NewServer checks the configuration and builds a Server. It does not listen yet.
func NewServer(cfg ServerConfig) (*Server, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("peer server: %w", err)
	}
	s := &Server{
		cfg: cfg, metrics: newServerMetrics(cfg.Registerer),
		requests: newByClass(int64(cfg.Requests)), unsent: newByClass(cfg.UnsentBytes), connections: newConnections(cfg),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+bundlePath+"{session}/{n}", s.serve)
	mux.HandleFunc("GET "+streamPath, s.upgrade)
	s.http = http.Server{
		Handler: mux, TLSConfig: s.connections.TLS(cfg.TLS),
		MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: headerTimeout,
		WriteTimeout: cfg.WriteTimeout, IdleTimeout: idleTimeout,
		ErrorLog: zap.NewStdLog(cfg.Log),
	}
	connlimit.Guard(&s.http, s.authorized)
	return s, nil
}

// Bounds of a connection between requests.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// maxAgents is the number of agents in the largest zone that the default bound of connections suffices for.
const maxAgents = 200

// newConnections returns the bound of the connections without streams. Package zonewriter bounds streams.
func newConnections(cfg ServerConfig) *connlimit.Limit {
	return connlimit.New(connlimit.Config{
		Server: "peer", Max: cfg.Connections, FirstRequest: headerTimeout, Log: cfg.Log, Prefix: "freshet_peer_", Registerer: cfg.Registerer,
	})
}

// Listen opens the address, so that a fault shows before anything else starts.
func (s *Server) Listen(ctx context.Context) error {
	listen := s.cfg.Listener
	if listen == nil {
		listen = func(ctx context.Context) (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Address)
		}
	}
	socket, err := listen(ctx)
	if err != nil {
		return fmt.Errorf("listen for other agents on %s: %w", s.cfg.Address, err)
	}
	s.socket = s.connections.Listener(socket)
	return nil
}

// Addr is the address listened on; nil before Listen.
func (s *Server) Addr() net.Addr {
	if s.socket == nil {
		return nil
	}
	return s.socket.Addr()
}

// Run serves until ctx ends; then it refuses, and finishes what it has begun within StopTimeout.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() {
		if s.cfg.TLS != nil {
			failed <- s.http.ServeTLS(s.socket, "", "")
		} else {
			failed <- s.http.Serve(s.socket)
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve other agents: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopTimeout)
	defer cancel()
	if err := s.http.Shutdown(stopCtx); err != nil {
		_ = s.http.Close() // askers read the object store
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve other agents: %w", err)
	}
	return nil
}

// Close gives the address back if Run never ran.
func (s *Server) Close() {
	if s.socket != nil {
		_ = s.socket.Close()
	}
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if status, reason := s.refuse(r); status != 0 {
		s.refused(w, status, reason)
		return
	}
	order, err := parse(r)
	if err != nil {
		s.refused(w, http.StatusBadRequest, servedMalformed)
		return
	}
	requests := s.requests.of(order.Class)
	if !requests.TryAcquire(1) {
		s.refused(w, http.StatusServiceUnavailable, servedBusy)
		return
	}
	defer requests.Release(1)
	s.metrics.serving.Inc()
	defer s.metrics.serving.Dec()
	if err := s.answer(r.Context(), w, order); err != nil {
		s.metrics.requests.WithLabelValues(servedBroken).Inc()
		s.cfg.Log.Debug("answer to another agent broken off", zap.Stringer("bundle", order.Bundle), zap.Error(err))
		return
	}
	s.metrics.requests.WithLabelValues(servedOK).Inc()
}

func (s *Server) refused(w http.ResponseWriter, status int, reason string) {
	s.metrics.requests.WithLabelValues(reason).Inc()
	w.Header().Set(reasonHeader, reason)
	if status == http.StatusUnauthorized {
		w.Header().Set("Connection", "close") // Connections are for agents; without a secret none is kept idle.
	}
	w.WriteHeader(status)
}

// byClass bounds live reads, and catch-up reads at half of it: those may stand still while their readers are slow, and
// must not be in the way of the others.
type byClass struct{ live, catchUp *semaphore.Weighted }

func newByClass(n int64) byClass {
	return byClass{semaphore.NewWeighted(n), semaphore.NewWeighted(max(n/2, 1))}
}

func (b byClass) of(c cache.Class) *semaphore.Weighted {
	if c == cache.CatchUp {
		return b.catchUp
	}
	return b.live
}

// authorized reports whether a request has a valid secret.
func (s *Server) authorized(r *http.Request) bool {
	shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return s.cfg.Secret.opens(shown)
}

// refuse returns the status and the reason for refusing a request before it is read, or 0.
func (s *Server) refuse(r *http.Request) (status int, reason string) {
	if !s.authorized(r) {
		return http.StatusUnauthorized, servedUnauthorized
	}
	cluster := s.cfg.Cluster()
	switch {
	case s.draining.Load():
		return http.StatusServiceUnavailable, servedDraining
	case cluster == "" || r.Header.Get(clusterHeader) != cluster || r.Header.Get(zoneHeader) != s.cfg.Zone:
		return http.StatusMisdirectedRequest, servedMisdirected
	case r.ContentLength != 0:
		return http.StatusRequestEntityTooLarge, servedMalformed
	}
	return 0, ""
}

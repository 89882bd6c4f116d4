// Package adminhttp is the HTTP address of a Freshet process for operators and platforms:
//
//	/livez          200 while the process runs; it asks nothing of any other part
//	/readyz         200 when it serves, else 503 and why not; then a line for each warning; 503 "stopping" from SIGTERM on
//	/startedz       as /readyz until the process was ready once, then as /livez
//	/metrics        Prometheus metrics
//	/debug/pprof/   Go profiles; 401 without a key that Config.Profiles accepts
package adminhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/connlimit"
	"github.com/freshet-io/freshet/internal/service"
)

// Bounds of a connection. Profiles and traces take their time, so there is no bound on writing.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	stopTimeout    = time.Second
	maxHeaderBytes = 64 << 10
)

// maxConnections bounds the open connections: those of Prometheus, of probes and of operators' commands are a few.
const maxConnections = 256

// Config of a Server.
type Config struct {
	Address  string              // host:port to listen on
	Ready    func() error        // nil when the process serves; called for every /readyz, and for /startedz until it is nil
	Warnings func() []string     // faults with which the process serves; called for every /readyz; nil: there are none
	Gatherer prometheus.Gatherer // what /metrics shows
	// Profiles reports whether a bearer's key opens /debug/pprof/; nil: no key is needed.
	Profiles func(key string) bool
	// Handlers are further paths, in http.ServeMux's pattern syntax.
	Handlers map[string]http.Handler
	Log      *zap.Logger
}

// warnings returns the lines of /readyz after the first.
func (c *Config) warnings() []string {
	if c.Warnings == nil {
		return nil
	}
	var lines []string
	for _, warning := range c.Warnings() {
		lines = append(lines, "warning: "+warning)
	}
	return lines
}

// guard returns the handler of a profile for callers whose key Profiles accepts.
func (c *Config) guard(profile http.HandlerFunc) http.HandlerFunc {
	if c.Profiles == nil {
		return profile
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !c.Profiles(key) {
			http.Error(w, "profiles take an operator key (--operator-key)", http.StatusUnauthorized)
			return
		}
		profile(w, r)
	}
}

// Server answers on the address. Listen opens it, Run serves.
type Server struct {
	cfg     Config
	http    http.Server
	limit   *connlimit.Limit
	socket  net.Listener
	ending  atomic.Bool
	started atomic.Bool // Config.Ready returned nil once
}

// New builds a Server. It does not listen yet.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, limit: connlimit.New(connlimit.Config{Server: "http", Max: maxConnections, FirstRequest: headerTimeout, Log: cfg.Log})}
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", s.ready)
	mux.HandleFunc("/startedz", s.startedOrReady)
	mux.Handle("/metrics", promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(cfg.Log)}))
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
		"cmdline": http.NotFound, // the command line may hold keys
	} {
		mux.HandleFunc("/debug/pprof/"+path, cfg.guard(profile))
	}
	for pattern, h := range cfg.Handlers {
		mux.Handle(pattern, h)
	}
	s.http = http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: zap.NewStdLog(cfg.Log),
	}
	connlimit.Guard(&s.http, func(*http.Request) bool { return true })
	return s
}

// ready answers /readyz.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if s.ending.Load() {
		http.Error(w, "stopping", http.StatusServiceUnavailable)
		return
	}
	if err := s.cfg.Ready(); err != nil {
		http.Error(w, strings.Join(append([]string{err.Error()}, s.cfg.warnings()...), "\n"), http.StatusServiceUnavailable)
		return
	}
	s.started.Store(true)
	fmt.Fprintln(w, strings.Join(append([]string{"ok"}, s.cfg.warnings()...), "\n"))
}

// startedOrReady answers /startedz, for platforms with one check for roll-outs and restarts. A roll-out waits until the new process is ready,
// and a later fault of another part ends no process.
func (s *Server) startedOrReady(w http.ResponseWriter, r *http.Request) {
	if s.started.Load() {
		fmt.Fprintln(w, "ok")
		return
	}
	s.ready(w, r)
}

// Service is the Server as a part of a process. It comes before all other parts, so that it answers until they have stopped.
func (s *Server) Service() service.Service {
	return service.Service{Name: "http", Run: s.Run, Stopping: func() { s.ending.Store(true) }}
}

// Listen opens the address, so that a fault shows before anything else starts.
func (s *Server) Listen(ctx context.Context) error {
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Address)
	if err != nil {
		return fmt.Errorf("listen for http on %s: %w", s.cfg.Address, err)
	}
	s.socket = s.limit.Listener(socket)
	return nil
}

// Addr is the address listened on; nil before Listen.
func (s *Server) Addr() net.Addr {
	if s.socket == nil {
		return nil
	}
	return s.socket.Addr()
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(s.socket) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(stopCtx); err != nil {
		_ = s.http.Close() // a profile that is still being taken is cut
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// Close gives the address back if Run never ran.
func (s *Server) Close() {
	if s.socket != nil {
		_ = s.socket.Close()
	}
}

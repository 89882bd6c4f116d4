package adminhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/adminhttp"
)

func TestServer_Run(t *testing.T) {
	var ready atomic.Bool
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_gauge", Help: "A gauge."}))
	s := adminhttp.New(adminhttp.Config{
		Address: "127.0.0.1:0", Gatherer: registry, Log: zap.NewNop(),
		Ready: func() error {
			if !ready.Load() {
				return errors.New("no catalogue yet")
			}
			return nil
		},
		Warnings: func() []string { return []string{"one clock is off", "another too"} },
		Handlers: map[string]http.Handler{"GET /extra": http.RedirectHandler("/livez", http.StatusFound)},
	})
	require.NoError(t, s.Listen(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get("http://" + s.Addr().String() + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	code, body := get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "no catalogue yet\nwarning: one clock is off\nwarning: another too\n", body)
	ready.Store(true)
	for path, want := range map[string]string{
		"/readyz": "ok\nwarning: one clock is off\nwarning: another too\n", "/livez": "ok", "/metrics": "test_gauge 0", "/debug/pprof/": "goroutine", "/extra": "ok",
	} {
		code, body := get(path)
		require.Equal(t, http.StatusOK, code, path)
		require.Contains(t, body, want, path)
	}
	code, _ = get("/debug/pprof/cmdline")
	require.Equal(t, http.StatusNotFound, code, "it may hold keys")
	s.Service().Stopping()
	code, body = get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "stopping\n", body)
	code, _ = get("/livez")
	require.Equal(t, http.StatusOK, code)
	cancel()
	require.NoError(t, <-ended)
}

func TestServer_ListenTellsWhichAddress(t *testing.T) {
	s := adminhttp.New(adminhttp.Config{Address: "127.0.0.1:99999", Gatherer: prometheus.NewRegistry(), Log: zap.NewNop()})
	require.ErrorContains(t, s.Listen(t.Context()), "127.0.0.1:99999")
	s.Close()
}

// /startedz waits for readiness. After that, neither a fault nor SIGTERM changes its answer.
func TestServer_StartedOnceReady(t *testing.T) {
	var fault error
	s := adminhttp.New(adminhttp.Config{
		Address: "127.0.0.1:0", Gatherer: prometheus.NewRegistry(), Log: zap.NewNop(),
		Ready: func() error { return fault },
	})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	fault = errors.New("etcd does not answer")
	code, body := get("/startedz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "etcd does not answer\n", body)
	fault = nil
	code, _ = get("/startedz")
	require.Equal(t, http.StatusOK, code)
	fault = errors.New("etcd does not answer")
	code, _ = get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	code, body = get("/startedz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", body)
	s.Service().Stopping()
	code, _ = get("/startedz")
	require.Equal(t, http.StatusOK, code)
}

// A process that stops before it was ready did not start.
func TestServer_NotStartedWhenStopping(t *testing.T) {
	s := adminhttp.New(adminhttp.Config{
		Address: "127.0.0.1:0", Gatherer: prometheus.NewRegistry(), Log: zap.NewNop(),
		Ready: func() error { return nil },
	})
	s.Service().Stopping()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/startedz", nil))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "stopping\n", w.Body.String())
}

package adminhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
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

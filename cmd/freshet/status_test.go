package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatus_Suspended: the exit code tells a suspended virtual cluster from one that no replica answers for.
func TestStatus_Suspended(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"error":"virtual cluster main is suspended: resume it","state":"suspended"}`))
	}))
	defer s.Close()
	code, out, errs := command(t, nil, "status", "--control-plane-http", s.URL, "--virtual-cluster", "main", "--operator-key", "k")
	require.Equal(t, exitInactive, code)
	require.Equal(t, "Virtual cluster main: suspended\n", out)
	require.Equal(t, "freshet: virtual cluster main is suspended: resume it\n", errs)
}

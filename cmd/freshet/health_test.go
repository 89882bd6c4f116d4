package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/program"
)

func TestHealth_ExitCodes(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not yet", status) }))
	defer s.Close()
	// The environment is that of an agent: a file that this command knows no setting of, and another time-out.
	environ := []string{"FRESHET_CONFIG=/absent.yaml", "FRESHET_TIMEOUT=never", "FRESHET_NO_SETTING=1"}

	code, out, errs := command(t, environ, "health", s.URL)
	require.Equal(t, program.ExitOK, code, errs)
	require.Empty(t, out+errs)

	status = http.StatusServiceUnavailable
	code, out, errs = command(t, environ, "health", s.URL, "--timeout", "1m")
	require.Equal(t, program.ExitFailed, code)
	require.Empty(t, out)
	require.Equal(t, "freshet: "+s.URL+": 503 Service Unavailable: not yet\n", errs)

	code, _, errs = command(t, nil, "health")
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, "want one URL")
}

package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/cli"
)

// answering returns the URL of a server that answers everything with a status and a body.
func answering(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestCheckHealth_ByStatus(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusNoContent} {
		require.NoError(t, cli.CheckHealth(t.Context(), answering(t, status, ""), time.Minute))
	}
	for _, c := range []struct {
		status     int
		body, says string
	}{
		{http.StatusServiceUnavailable, "the object store\x1b refuses access\r\nand more\n", "503 Service Unavailable: the object store refuses access"},
		{http.StatusServiceUnavailable, "", "503 Service Unavailable"},
		{http.StatusFound, "moved", "302 Found: moved"},
		{http.StatusNotFound, strings.Repeat("x", 1<<20), "404 Not Found: " + strings.Repeat("x", 1<<10)},
	} {
		target := answering(t, c.status, c.body)
		require.EqualError(t, cli.CheckHealth(t.Context(), target, time.Minute), target+": "+c.says)
	}
}

// A server that accepts and never answers, and one that never ends its first line, take the timeout and no longer.
func TestCheckHealth_IsBounded(t *testing.T) {
	for _, begins := range []bool{false, true} {
		ended := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if begins {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, "starting")
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
			close(ended)
		}))
		err := cli.CheckHealth(t.Context(), s.URL, 200*time.Millisecond)
		<-ended
		s.Close()
		if begins {
			require.EqualError(t, err, s.URL+": 503 Service Unavailable: starting")
		} else {
			require.EqualError(t, err, s.URL+": no answer within 0.2 s")
		}
	}
}

func TestCheckHealth_NothingListens(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	require.ErrorContains(t, cli.CheckHealth(t.Context(), s.URL, time.Minute), s.URL+": dial tcp")
}

func TestCheckHealth_RefusesWhatIsNoURL(t *testing.T) {
	var usage *cli.UsageError
	for _, target := range []string{"", "localhost:8080/readyz", "127.0.0.1:8080", "ftp://localhost/", "http://", "http://a:b"} {
		err := cli.CheckHealth(t.Context(), target, time.Minute)
		require.ErrorAs(t, err, &usage, target)
		require.ErrorContains(t, err, "http://127.0.0.1:8080/readyz")
	}
	require.ErrorAs(t, cli.CheckHealth(t.Context(), "http://localhost", 0), &usage)
}

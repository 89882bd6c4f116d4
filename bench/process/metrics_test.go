package process_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/process"
)

func TestReadMetrics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("# TYPE requests counter\nrequests{operation=\"put\",zone=\"a\"} 3\nrequests{operation=\"put\",zone=\"b\"} 4\n" +
			"requests{operation=\"get\",zone=\"a\"} 5\nbare 2.5\n# TYPE sizes histogram\nsizes_bucket{le=\"+Inf\"} 2\nsizes_sum 7\nsizes_count 2\n"))
	}))
	defer server.Close()

	m, err := process.ReadMetrics(t.Context(), server.Client(), server.URL+"/metrics")
	require.NoError(t, err)
	for name, want := range map[string]float64{"requests": 12, "bare": 2.5, "sizes": 7, "absent": 0} {
		require.InDelta(t, want, m.Sum(name), 0, name)
	}
	require.Equal(t, map[string]float64{"put": 7, "get": 5}, m.By("operation", "requests"))
	require.Nil(t, m.By("operation", "absent"))

	_, err = process.ReadMetrics(t.Context(), server.Client(), server.URL)
	require.ErrorContains(t, err, "404")
}

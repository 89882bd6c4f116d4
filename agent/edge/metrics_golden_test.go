package edge

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/metrictest"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	_, err := New(Config{Handler: echo, Registerer: r, Listeners: []Listener{{Address: ":0"}}})
	require.NoError(t, err)
	r.Golden(t)
}

func TestRequest_Trim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trimming := handlerFunc(func(_ context.Context, req *Request) func() Reply {
			req.Trim(3)
			req.Trim(3)
			body := bytes.Clone(req.Body)
			return func() Reply { return Reply{Head: body} }
		})
		s, p, stop := start(t, Config{Handler: trimming})
		defer stop()
		c := p.dial()
		defer c.Close()
		for i, body := range []string{"ab", "abc", "abcdef"} {
			write(t, c, request(metadata, int32(i), body))
			requireResponse(t, c, int32(i), body[:min(len(body), 3)])
		}
		require.EqualValues(t, 1, testutil.ToFloat64(s.m.trailing.WithLabelValues("Metadata")))
	})
}

func TestServer_CountsErrorsByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := handlerFunc(func(context.Context, *Request) func() Reply {
			return func() Reply { return Reply{Errors: []int16{3, 3, 12345}} }
		})
		s, p, stop := start(t, Config{Handler: failing})
		defer stop()
		c := p.dial()
		defer c.Close()
		write(t, c, request(metadata, 1, "m"))
		requireResponse(t, c, 1, "")
		synctest.Wait()
		require.EqualValues(t, 2, testutil.ToFloat64(s.m.errors.WithLabelValues("Metadata", "UNKNOWN_TOPIC_OR_PARTITION")))
		require.EqualValues(t, 1, testutil.ToFloat64(s.m.errors.WithLabelValues("Metadata", "UNKNOWN_SERVER_ERROR")))
	})
}

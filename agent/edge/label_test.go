package edge

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// labelsOf gives the labels of the goroutines that are in a method of a connection, as a profile shows them.
func labelsOf(t *testing.T, method string) string {
	t.Helper()
	var all, found strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&all, 1))
	for goroutine := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(goroutine, "(*conn)."+method+"+") {
			_, labels, _ := strings.Cut(goroutine, "# labels: ")
			found.WriteString(strings.SplitAfter(labels, "\n")[0])
		}
	}
	return found.String()
}

// TestServer_LabelsGoroutines: profiles tell what both goroutines of a connection work for; nobody asked anything at first.
func TestServer_LabelsGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reader, writer string
		_, p, stop := start(t, Config{Handler: handlerFunc(func(context.Context, *Request) func() Reply {
			reader = labelsOf(t, "request")
			return func() Reply { writer = labelsOf(t, "resolve"); return Reply{} }
		})})
		defer stop()
		c := p.dial()
		defer c.Close()
		synctest.Wait()
		require.Equal(t, "{\"api\":\"connection\"}\n", labelsOf(t, "readPrefix"))
		require.Equal(t, "{\"api\":\"connection\"}\n", labelsOf(t, "write"))
		for key, name := range map[int16]string{metadata: "Metadata", fetch: "Fetch", produce: "Produce"} {
			write(t, c, request(key, 1, "x"))
			_, _, err := readResponse(c)
			require.NoError(t, err)
			require.Equal(t, "{\"api\":\""+name+"\"}\n", reader)
			require.Equal(t, reader, writer)
		}
	})
}

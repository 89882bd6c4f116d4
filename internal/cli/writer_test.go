package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListWriters(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/clusters/main/writers" || r.Header.Get("Authorization") != "Bearer k" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"agents":[
			{"session":4,"zone":"","produce_bytes_per_second":0,"silence_seconds":null,"writes":"","writer":0,"put_share":0,"further":1},
			{"session":2,"zone":"a","peer_address":"p:7070","produce_bytes_per_second":1048576,"silence_seconds":0.6,"writes":"hands over","writer":3,"put_share":0.5},
			{"session":3,"zone":"a","peer_address":"q:7070","produce_bytes_per_second":0,"silence_seconds":0.2,"writes":"writes","writer":3,"put_share":0.5}]}`))
	}))
	defer server.Close()
	c := OperatorConfig{ControlPlane: []string{server.URL}, VirtualCluster: "main", Key: "k"}
	var out bytes.Buffer
	require.NoError(t, ListWriters(t.Context(), c, Streams{Out: &out}))
	require.Equal(t, `ZONE    AGENT  PEER ADDRESS  PRODUCED   HEARD    WRITES      WRITER  PUT SHARE
(none)  4      -             0.0 MiB/s  never    -           -       -
a       2      p:7070        1.0 MiB/s  0 s ago  hands over  3       -
a       3      q:7070        0.0 MiB/s  0 s ago  writes      3       50%
`, out.String())
	out.Reset()
	require.NoError(t, ListWriters(t.Context(), c, Streams{Out: &out, Format: FormatJSON}))
	require.Contains(t, out.String(), `"further": 1`, "what the control plane says, whole")
	require.Error(t, ListWriters(t.Context(), OperatorConfig{}, Streams{Out: &out}))
}

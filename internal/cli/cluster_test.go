package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestListClusters reads two pages.
func TestListClusters(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/v1/clusters" || r.Header.Get("Authorization") != "Bearer k":
			http.NotFound(w, r)
		case r.URL.Query().Get("after") == "":
			_, _ = w.Write([]byte(`{"clusters":[
				{"virtual_cluster":"","cluster_id":"id0","source":"etcd","state":"","owner":null,"fault":"etcd key \"x\": a newer program"},
				{"virtual_cluster":"main","cluster_id":"id1","source":"settings","state":"active","owner":{"replica":"r1","address":"h:7050"},"more":1}],
				"next":"main/id1"}`))
		case r.URL.Query().Get("after") == "main/id1":
			_, _ = w.Write([]byte(`{"clusters":[{"virtual_cluster":"orders","cluster_id":"","source":"etcd","state":"active","owner":null,"fault":"no owner"},
				{"virtual_cluster":"rest","cluster_id":"id3","source":"etcd","state":"suspended","owner":null}]}`))
		}
	}))
	defer server.Close()
	c := OperatorConfig{ControlPlane: []string{server.URL}, Key: "k"}
	var out, errs bytes.Buffer
	require.NoError(t, ListClusters(t.Context(), c, Streams{Out: &out, Err: &errs}))
	require.Equal(t, `VIRTUAL CLUSTER  CLUSTER ID  STATE          SOURCE    OWNER
-                id0         invalid        etcd      -
main             id1         active         settings  r1 at h:7050
orders           -           active, fault  etcd      -
rest             id3         suspended      etcd      -
`, out.String())
	require.Equal(t, "freshet: etcd key \"x\": a newer program\nfreshet: no owner\n", errs.String())
	out.Reset()
	require.NoError(t, ListClusters(t.Context(), c, Streams{Out: &out, Format: FormatJSON}))
	require.Contains(t, out.String(), `"more": 1`)
	c.Key = ""
	require.ErrorContains(t, ListClusters(t.Context(), c, Streams{Out: &out}), "want --control-plane-http and --operator-key")
}

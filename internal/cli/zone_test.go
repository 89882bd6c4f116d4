package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListZones(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/clusters/main/zones" || r.Header.Get("Authorization") != "Bearer k" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"zones":[
			{"zone":"a","desired_replicas":3,"agents":2,"utilization":0.85,"load":1.7,"further":1,"loads":[
			 {"session":7,"utilization":0.9,"cpu":0.9,"network":0.1,"buffers":0.2,"produce_bytes_per_second":1048576},
			 {"session":9,"utilization":0.8,"cpu":0.3,"network":0.8,"buffers":0.1,"produce_bytes_per_second":524288}]},
			{"zone":"","desired_replicas":null,"agents":1,"utilization":0,"load":0,"loads":[]}]}`))
	}))
	defer server.Close()
	c := OperatorConfig{ControlPlane: []string{server.URL}, VirtualCluster: "main", Key: "k"}
	var out bytes.Buffer
	require.NoError(t, ListZones(t.Context(), c, false, Streams{Out: &out}))
	require.Equal(t, `ZONE    AGENTS  DESIRED  UTILIZATION  LOAD  CPU  NETWORK  BUFFERS  PRODUCED
a       2       3        85%          170%  90%  80%      20%      1.5 MiB/s
(none)  1       -        0%           0%    0%   0%       0%       0.0 MiB/s
`, out.String())
	out.Reset()
	require.NoError(t, ListZones(t.Context(), c, true, Streams{Out: &out}))
	require.Contains(t, out.String(), "  session 9                   80%                30%  80%      10%      0.5 MiB/s")
	out.Reset()
	require.NoError(t, ListZones(t.Context(), c, true, Streams{Out: &out, Format: FormatJSON}))
	require.Contains(t, out.String(), `"further": 1`, "what the control plane says, whole")
	require.Error(t, ListZones(t.Context(), OperatorConfig{}, false, Streams{Out: &out}))
}

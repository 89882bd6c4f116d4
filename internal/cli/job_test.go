package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListJobs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/clusters/main/jobs" || r.Header.Get("Authorization") != "Bearer k" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"jobs":[
			{"id":9,"state":"open","kind":"compact","level":1,"runner":3,"zone":"a","first_partition":"t-0","last_partition":"t-7",
			 "inputs":64,"input_bytes":500,"bytes_done":120,"age_seconds":4.6,"further":1},
			{"id":8,"state":"aborted","kind":"clean","level":2,"runner":2,"first_partition":"c-0","last_partition":"c-0","reason":"why"}]}`))
	}))
	defer server.Close()
	c := OperatorConfig{ControlPlane: []string{server.URL}, VirtualCluster: "main", Key: "k"}
	var out bytes.Buffer
	require.NoError(t, ListJobs(t.Context(), c, Streams{Out: &out}))
	require.Equal(t, `JOB  STATE    KIND     LEVEL  RUNNER  ZONE  AGE  INPUTS  BYTES  DONE  PARTITIONS  REASON
9    open     compact  1      3       a     4 s  64      500    120   t-0 to t-7  
8    aborted  clean    2      2             0 s  0       0      0     c-0         why
`, out.String())
	out.Reset()
	require.NoError(t, ListJobs(t.Context(), c, Streams{Out: &out, Format: FormatJSON}))
	require.Contains(t, out.String(), `"further": 1`, "what the control plane says, whole")
	require.Error(t, ListJobs(t.Context(), OperatorConfig{}, Streams{Out: &out}))
}

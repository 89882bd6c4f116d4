package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/operator"
)

// TestHandler_List reads the pages of 2,500 virtual clusters, 1,200 of them without a name. The status of the control plane takes the same key.
func TestHandler_List(t *testing.T) {
	var want []operator.Listed
	for i := range 2500 {
		l := operator.Listed{ClusterID: fmt.Sprintf("id%04d", i), Source: "etcd", State: "active"}
		if i >= 1200 {
			l.VirtualCluster = fmt.Sprintf("vc%04d", i)
		}
		want = append(want, l)
	}
	cfg := operator.Config{
		Open: func(virtualCluster, key string, readOnly bool) bool {
			return key == "secret" && virtualCluster == "" && !readOnly
		},
		List: func() []operator.Listed { return append([]operator.Listed{}, want...) },
	}
	var got []operator.Listed
	pages, after := 0, ""
	for {
		code, body := call(t, cfg, http.MethodGet, "/v1/clusters"+after)
		require.Equal(t, http.StatusOK, code, body)
		var answer struct {
			Clusters []operator.Listed `json:"clusters"`
			Next     string            `json:"next"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &answer))
		got = append(got, answer.Clusters...)
		if pages++; answer.Next == "" {
			break
		}
		after = "?after=" + url.QueryEscape(answer.Next)
	}
	require.Equal(t, 3, pages)
	require.Equal(t, want, got)

	cfg.Plane = func(context.Context) *operator.Plane { return &operator.Plane{Replica: "r1"} }
	code, body := call(t, cfg, http.MethodGet, "/v1/status")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `{"replica":"r1",`)

	cfg.Open = func(string, string, bool) bool { return false }
	for _, path := range []string{"/v1/clusters", "/v1/status"} {
		code, body := call(t, cfg, http.MethodGet, path)
		require.Equal(t, http.StatusUnauthorized, code)
		require.Contains(t, body, "no key for this call")
	}
}

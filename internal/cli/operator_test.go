package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/access"
	"github.com/freshet-io/freshet/internal/cli"
)

// plane is a replica that answers everything with a status and a body, and checks how it was asked.
func plane(t *testing.T, status int, body string, asked *string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		*asked = r.Method + " " + r.URL.RequestURI()
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestOperator_AsksUntilAReplicaAnswers(t *testing.T) {
	var asked, ignored string
	away := plane(t, http.StatusServiceUnavailable, `{"error":"no owner"}`, &ignored)
	works := plane(t, http.StatusOK, `{"name":"new","partitions":3}`, &asked)
	dead := "127.0.0.1:1"
	var out strings.Builder
	c := cli.OperatorConfig{ControlPlane: []string{dead, strings.TrimPrefix(works, "http://")}, VirtualCluster: "vc", Key: "key"}
	require.NoError(t, cli.UndeleteTopic(t.Context(), c, "a/b", "new", cli.Streams{Out: &out}))
	require.Equal(t, "POST /v1/clusters/vc/deleted-topics/a%2Fb/undelete?as=new", asked)
	require.Equal(t, "topic new is back with 3 partitions\n", out.String())

	c.ControlPlane = []string{dead, away, works}
	require.NoError(t, cli.ListDeletedTopics(t.Context(), c, cli.Streams{Out: &out}))
	require.Equal(t, "GET /v1/clusters/vc/deleted-topics", asked)
	asked = ""
	require.EqualError(t, cli.UndeleteTopic(t.Context(), c, "a", "", cli.Streams{Out: &out}), "control plane did not answer: no owner; the change may have been made: run `freshet topic list --deleted` before you repeat it")
	require.Empty(t, asked, "the change may have been made")
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(cut.Close)
	c.ControlPlane = []string{cut.URL, works}
	require.NoError(t, cli.ListDeletedTopics(t.Context(), c, cli.Streams{Out: &out}))
	asked = ""
	require.ErrorContains(t, cli.UndeleteTopic(t.Context(), c, "a", "", cli.Streams{Out: &out}), "control plane did not answer: ")
	require.Empty(t, asked, "the change may have been made before the connection ended")
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	c.ControlPlane = []string{untrusted.URL}
	err := cli.UndeleteTopic(t.Context(), c, "a", "", cli.Streams{Out: &out})
	require.ErrorContains(t, err, "unknown authority; if it is a private authority, add it to those of the system, or set SSL_CERT_FILE")
	require.NotContains(t, err.Error(), "may have been made")
	c.ControlPlane = []string{untrusted.URL, works}
	require.NoError(t, cli.UndeleteTopic(t.Context(), c, "a", "", cli.Streams{Out: &out}), "the first request was not sent")
	c.ControlPlane = []string{plane(t, http.StatusConflict, `{"error":"the name is taken"}`, &ignored)}
	require.EqualError(t, cli.UndeleteTopic(t.Context(), c, "a", "", cli.Streams{Out: &out}), "the name is taken")
	c.Key = "key,earlier" // as the environment of a control plane has them
	require.EqualError(t, cli.UndeleteTopic(t.Context(), c, "a", "", cli.Streams{Out: &out}), "the name is taken")
	c.Key = "wrong"
	require.ErrorContains(t, cli.UndeleteTopic(t.Context(), c, "a", "", cli.Streams{Out: &out}), "401")
	var usage *cli.UsageError
	require.ErrorAs(t, cli.UndeleteTopic(t.Context(), cli.OperatorConfig{}, "a", "", cli.Streams{Out: &out}), &usage)
}

func TestPurgeTopic_AsksForItsName(t *testing.T) {
	var asked string
	c := cli.OperatorConfig{
		ControlPlane: []string{plane(t, http.StatusOK, `{"name":"orders","partitions":3,"bytes":500}`, &asked)}, VirtualCluster: "vc", Key: "key",
	}
	var out, errs strings.Builder
	purge := func(in string, confirmed bool) error {
		asked = ""
		out.Reset()
		errs.Reset()
		return cli.PurgeTopic(t.Context(), c, "orders", confirmed, cli.Streams{In: strings.NewReader(in), Out: &out, Err: &errs})
	}
	for _, in := range []string{"", "\n", "y\n", "other\n", strings.Repeat("o", 1<<20)} {
		require.EqualError(t, purge(in, false), "topic orders was not purged: give --yes, or type its name")
		require.Empty(t, asked)
	}
	require.Equal(t, "Purge deleted topic orders? Its records cannot be brought back. Type orders to go on: ", errs.String())
	for in, confirmed := range map[string]bool{"orders\n": false, "": true} {
		require.NoError(t, purge(in, confirmed))
		require.Equal(t, "POST /v1/clusters/vc/deleted-topics/orders/purge", asked)
		require.Equal(t, "purged topic orders: 3 partitions, 500 B; its objects are deleted after the grace for garbage (--garbage-grace)\n", out.String())
	}
}

func TestCutBundle_AsksForItsName(t *testing.T) {
	var asked string
	c := cli.OperatorConfig{
		ControlPlane: []string{plane(t, http.StatusOK,
			`{"bundle":"5/7","partitions":2,"offsets":20,"ranges":[{"partition":"orders-0","from":10,"to":19}],"job":31}`, &asked)},
		VirtualCluster: "vc", Key: "key",
	}
	var out, errs strings.Builder
	cut := func(in string, confirmed bool) error {
		out.Reset()
		errs.Reset()
		return cli.CutBundle(t.Context(), c, "5/7", confirmed, cli.Streams{In: strings.NewReader(in), Out: &out, Err: &errs})
	}
	require.EqualError(t, cut("y\n", false), "bundle 5/7 was not cut: give --yes, or type its name")
	require.Equal(t, "GET /v1/clusters/vc/bundles/5/7", asked)
	require.Equal(t, "orders-0: offsets 10 to 19\n", out.String())
	require.Equal(t, "Cut bundle 5/7? It holds 20 offsets of 2 partitions. Records that cannot be read are lost for good. Type 5/7 to go on: ", errs.String())
	for in, confirmed := range map[string]bool{"5/7\n": false, "": true} {
		require.NoError(t, cut(in, confirmed))
		require.Equal(t, "POST /v1/clusters/vc/bundles/5/7/cut", asked)
		require.Contains(t, out.String(), "job 31 rewrites 20 offsets of 2 partitions and leaves out unreadable records")
	}
	var usage *cli.UsageError
	require.ErrorAs(t, cli.CutBundle(t.Context(), c, "5", true, cli.Streams{}), &usage)
}

func TestOperator_PortWithoutTLS(t *testing.T) {
	plain := plane(t, http.StatusOK, `{}`, new(string))
	c := cli.OperatorConfig{ControlPlane: []string{strings.Replace(plain, "http://", "https://", 1)}, VirtualCluster: "vc", Key: "key"}
	err := cli.ListDeletedTopics(t.Context(), c, cli.Streams{Out: io.Discard})
	require.EqualError(t, err, "--control-plane-http "+c.ControlPlane[0]+": that port does not speak TLS: write http://")
}

func TestListDeletedTopics_TellsTopicsOfOneNameApart(t *testing.T) {
	topic := `{"name":"%s","id":"%s","partitions":1,"bytes":1536,"deleted":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z"}`
	body := `{"topics":[` + fmt.Sprintf(topic, "a", "I1") + "," + fmt.Sprintf(topic, "b", "I2") + "," + fmt.Sprintf(topic, "a", "I3") + `]}`
	c := cli.OperatorConfig{ControlPlane: []string{plane(t, http.StatusOK, body, new(string))}, VirtualCluster: "vc", Key: "key"}
	var out strings.Builder
	require.NoError(t, cli.ListDeletedTopics(t.Context(), c, cli.Streams{Out: &out}))
	require.Regexp(t, `^TOPIC .*\na \(id I1\)  1           1.5 KiB .*\nb  .*\na \(id I3\)  1 `, out.String())
}

func TestOperator_ByDataDirectory(t *testing.T) {
	dir := t.TempDir()
	var asked string
	url := plane(t, http.StatusOK, `{"topics":[{"name":"t","id":"I","partitions":1,"bytes":5,"deleted":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z"}]}`, &asked)
	c := cli.OperatorConfig{DataDir: dir}
	require.ErrorIs(t, cli.ListDeletedTopics(t.Context(), c, cli.Streams{}), os.ErrNotExist)
	require.NoError(t, access.Access{URL: "http://gone", VirtualCluster: "old", Key: "old"}.Write(dir))
	require.NoError(t, access.Access{URL: url, VirtualCluster: "dev", Key: "key"}.Write(dir))
	info, err := os.Stat(filepath.Join(dir, "operator.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	var out strings.Builder
	require.NoError(t, cli.ListDeletedTopics(t.Context(), c, cli.Streams{Out: &out}))
	require.Equal(t, "GET /v1/clusters/dev/deleted-topics", asked)
	require.Equal(t, "TOPIC  PARTITIONS  SIZE  DELETED               RESTORABLE UNTIL\n"+
		"t      1           5 B   2026-01-01T00:00:00Z  2026-01-02T00:00:00Z\n", out.String())
}

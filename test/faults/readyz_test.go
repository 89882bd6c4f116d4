package faults

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// named is the maximum time until /readyz names a part that has stopped.
const named = 10 * time.Second

// /readyz of every process names etcd or the object store while it is paused, with its address and the time since then.
func TestReadyz_NamesAPausedPart(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1})
	processes := map[string]string{c.Agents[0].Name: c.Agents[0].HTTP, "controlplane-0": c.ControlPlanes[0].HTTP, "controlplane-1": c.ControlPlanes[1].HTTP}
	for _, part := range []struct {
		name, says string
		stop, cont func()
	}{
		{"object store", "object store at " + strings.TrimPrefix(c.S3.Endpoint, "http://") + " does not answer", c.S3.Stop, c.S3.Cont},
		{"etcd", "etcd at " + c.Etcd.Members[0].Endpoint + " does not answer", c.Etcd.Members[0].Stop, c.Etcd.Members[0].Cont},
	} {
		for name, address := range processes {
			harness.Await(t, name+" is ready without a warning", func() bool { return said(t, address) == "ok\n" })
		}
		part.stop()
		stopped := time.Now()
		says := regexp.MustCompile(regexp.QuoteMeta(part.says) + `, [1-9]\d* s`)
		waiting := maps.Clone(processes)
		harness.Await(t, part.name+" is named by every process", func() bool {
			for name, address := range waiting {
				text := said(t, address)
				if !says.MatchString(text) {
					continue
				}
				delete(waiting, name)
				harness.Within(t, name+" names "+part.name, time.Since(stopped), named)
				t.Logf("%s: %s", name, text)
				require.NotContains(t, text, "context canceled", name)
			}
			return len(waiting) == 0
		})
		part.cont()
	}
	for name, address := range processes {
		harness.Await(t, name+" is ready again", func() bool { return said(t, address) == "ok\n" })
	}
	for _, p := range c.ControlPlanes {
		require.NotRegexp(t, `(WARN|ERROR).*context (canceled|deadline exceeded)`, p.Output())
	}
}

// said returns the text of a process's /readyz, whatever its status.
func said(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get(address + "/readyz")
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

package faults

import (
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestStoreClock_Ahead moves the Date of the object store beyond the bound and kills the owner. etcd's clock agrees with the other control
// plane's, so that one takes over. /readyz of both names the store's clock and stays ready.
func TestStoreClock_Ahead(t *testing.T) {
	t.Parallel()
	moveStoreClock(t, 45*time.Second, "ahead of", false)
}

// TestStoreClock_Behind is TestStoreClock_Ahead the other way, with TLS.
func TestStoreClock_Behind(t *testing.T) {
	t.Parallel()
	moveStoreClock(t, -45*time.Second, "behind", true)
}

func moveStoreClock(t *testing.T, ahead time.Duration, says string, tls bool) {
	t.Helper()
	store := harness.NewFaultyStore(t)
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 2, TLS: tls, MutualTLS: tls, Front: store.Front})
	tr := startTraffic(t, bootstraps(c)...)
	store.SetAhead(ahead)
	warns := regexp.MustCompile(`^ok\nwarning: virtual cluster main: the object store's clock is 4[3-6](\.\d+)?s ` + says +
		` this machine's clock and etcd's clock and the clock of the replica at \S+; nothing expires`)
	for _, p := range c.ControlPlanes {
		harness.Await(t, "a control plane names the store's clock", func() bool { return warns.MatchString(readyz(t, p)) })
	}
	tr.flows()

	tr.load.ResetStalls()
	owner := c.Owner(t)
	owner.Kill()
	killed := time.Now()
	c.Owner(t, owner)
	harness.Within(t, "takeover", time.Since(killed), crashStall)
	tr.flows()
	owner.Restart()
	tr.flows()
	harness.Within(t, "longest stall", tr.finish(), crashStall)
	serving(t, c)
}

// readyz returns the body of a control plane's /readyz.
func readyz(t *testing.T, p *harness.ControlPlane) string {
	t.Helper()
	response, err := http.Get(p.HTTP + "/readyz")
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

package e2e

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// TestSecurity_AgentsThatAreKeptOut: each way in which an agent's credentials can be wrong is a clear warning that
// does not fill the log, with a process that lives on and says that it is not ready.
func TestSecurity_AgentsThatAreKeptOut(t *testing.T) {
	t.Parallel()
	other := testservers.NewTLSFiles(t)
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1, TLS: true, MutualTLS: true})
	c.ControlPlanes[0].Launch()
	c.ControlPlanes[0].AwaitReady()
	c.Agents[0].Launch()
	c.Agents[0].AwaitReady()
	own := []string{
		"--control-plane-tls-ca", c.Files.CA, "--control-plane-tls-cert", c.Files.Cert, "--control-plane-tls-key", c.Files.Key,
	}
	cases := map[string]struct {
		flags []string
		says  string
	}{
		"wrong key":             {append(own, "--agent-key", "not-the-key-but-secret"), "unknown agent key"},
		"wrong authority":       {append(own, "--control-plane-tls-ca", other.CA), "certificate signed by unknown authority"},
		"no client certificate": {[]string{"--control-plane-tls-ca", c.Files.CA}, "certificate required"},
		// What it hears is a matter of time: the replica says why.
		"strange client":          {append(own, "--control-plane-tls-cert", other.Cert, "--control-plane-tls-key", other.Key), "broken pipe|reset|EOF|certificate"},
		"no TLS":                  {nil, "error reading server preface|connection (reset|closed)|EOF"},
		"unknown virtual cluster": {append(own, "--virtual-cluster", "another"), `another.*is not served`},
	}
	agents := map[string]*harness.Agent{}
	for name, tt := range cases {
		a := c.NewAgentWith(t, strings.ReplaceAll(name, " ", "-"), tt.flags...)
		a.Launch()
		agents[name] = a
	}
	for name, tt := range cases {
		a := agents[name]
		says := regexp.MustCompile(tt.says)
		require.Eventually(t, func() bool { return says.MatchString(a.Output()) }, time.Minute, 50*time.Millisecond,
			"%s: %s", name, a.Output())
		require.Equal(t, http.StatusOK, status(t, a.HTTP+"/livez"), name)
		require.Equal(t, http.StatusServiceUnavailable, status(t, a.HTTP+"/readyz"), name)
		require.Eventually(t, func() bool { return says.MatchString(body(t, a.HTTP+"/readyz")) }, time.Minute, 50*time.Millisecond, name)
	}
	for name, a := range agents {
		harness.Await(t, name+" tries again", func() bool { return attempts(t, a) >= fewAttempts })
	}
	said := c.ControlPlanes[0].Output()
	all := 0
	for name, a := range agents {
		require.True(t, a.Running(), name)
		lines := strings.Count(a.Output(), "no session stream with the owner")
		tried := attempts(t, a)
		all += tried
		t.Logf("%s: %d warnings after %d attempts; last: %s", name, lines, tried, lastLine(a.Output()))
		require.Positive(t, lines, name)
		require.LessOrEqual(t, lines, 1+tried/2, "%s fills its log: %s", name, a.Output())
		for _, secret := range []string{c.AgentKey, "not-the-key-but-secret"} {
			require.NotContains(t, a.Output(), secret, name)
			require.NotContains(t, body(t, a.HTTP+"/debug/pprof/cmdline"), secret, name)
		}
	}
	for _, says := range []string{"agent refused.*unknown agent key", "tls handshake with a caller failed.*certificate"} {
		require.Regexp(t, says, said)
	}
	refusals := strings.Count(said, "agent refused") + strings.Count(said, "tls handshake with a caller failed")
	t.Logf("the replica logged %d refusals of %d attempts", refusals, all)
	require.LessOrEqual(t, refusals, all/2, "the replica's log is not filled:\n%s", said)
	require.Less(t, strings.Count(said, "\n")-refusals, 40, "the replica's log is not filled:\n%s", said)
	require.NotContains(t, c.ControlPlanes[0].Output(), c.AgentKey)
	require.NotContains(t, c.Agents[0].Output(), c.AgentKey)
	require.NotContains(t, c.ControlPlanes[0].Output(), "not-the-key-but-secret")
	harness.CLI(t, c.Agents[0].Bootstrap, nil, "topic", "create", "t")
	require.Equal(t, http.StatusOK, status(t, c.ControlPlanes[0].HTTP+"/readyz"))
}

// fewAttempts are more attempts of an agent to reach the owner than a bounded log has lines for.
const fewAttempts = 10

// attempts returns how often an agent has failed to reach the owner.
func attempts(t *testing.T, a *harness.Agent) int {
	t.Helper()
	n, err := a.Metric("freshet_agent_session_reconnects_total")
	require.NoError(t, err)
	return int(n)
}

// TestSecurity_ControlPlaneThatMayNotUseEtcd: an etcd that does not take the replica's certificate, or whose own the
// replica does not trust, is a clear warning and no ownership.
func TestSecurity_ControlPlaneThatMayNotUseEtcd(t *testing.T) {
	t.Parallel()
	other := testservers.NewTLSFiles(t)
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1, TLS: true})
	for name, tt := range map[string]struct {
		flags []string
		says  string
	}{
		"wrong authority": {[]string{"--etcd-tls-ca", other.CA}, "certificate signed by unknown authority"},
		// What it hears is a matter of time: etcd says why.
		"strange client":     {[]string{"--etcd-tls-cert", other.Cert, "--etcd-tls-key", other.Key}, "broken pipe|reset|EOF|certificate"},
		"etcd without a key": {[]string{"--etcd-tls-cert", ""}, "certificate|key"},
	} {
		p := c.NewControlPlaneWith(t, strings.ReplaceAll(name, " ", "-"), tt.flags...)
		p.Launch()
		says := regexp.MustCompile(tt.says)
		require.Eventually(t, func() bool { return says.MatchString(p.Output()) }, time.Minute, 50*time.Millisecond,
			"%s: %s", name, p.Output())
		if p.Running() {
			require.NotEqual(t, http.StatusOK, status(t, p.HTTP+"/readyz"), name)
		}
		t.Logf("%s: running %t, %d lines; last: %s", name, p.Running(), strings.Count(p.Output(), "\n"), lastLine(p.Output()))
		require.NotContains(t, p.Output(), c.AgentKey)
		p.Kill()
	}
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// body is what an address answers with.
func body(t *testing.T, address string) string {
	t.Helper()
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(address)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

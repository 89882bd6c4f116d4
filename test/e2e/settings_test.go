package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// says waits until a process has logged a text.
func says(t *testing.T, p *testservers.Process, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.Output(), text) }, 2*time.Minute, 50*time.Millisecond, "%s\n%s", text, p.Output())
}

// TestSettings_TLSOnOneSide: a process whose peer has TLS where it has none, or the other way round, ends and names the setting.
func TestSettings_TLSOnOneSide(t *testing.T) {
	t.Parallel()
	plain := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	secured := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1, TLS: true})
	secured.ControlPlanes[0].Launch()
	secured.ControlPlanes[0].AwaitReady()
	plainEtcd, securedEtcd := plain.Etcd.Members[0].Endpoint, secured.Etcd.Members[0].Endpoint
	const noEtcdTLS = " does not speak TLS: remove --etcd-tls and the settings that begin with it, and https:// from --etcd"
	withoutTLS, withTLS := plain.ControlPlanes[0].GRPC, secured.ControlPlanes[0].GRPC
	processes := map[string]*testservers.Process{
		"--control-plane " + withoutTLS + " does not speak TLS: remove the settings --control-plane-tls, --control-plane-tls-ca, --control-plane-tls-cert, " +
			"or set the control plane's --tls-cert": plain.NewAgentWith(t, "agent-tls", "--control-plane-tls").Process,
		"--control-plane " + withTLS + " speaks TLS: set --control-plane-tls, or --control-plane-tls-ca to the certificates to trust": secured.NewAgentWith(t, "agent-plain").Process,

		// The other two members are down.
		"--etcd https://" + plainEtcd + noEtcdTLS: plain.NewControlPlaneWith(t, "controlplane-https",
			"--etcd", "https://"+plainEtcd+",https://127.0.0.1:1,https://127.0.0.1:2").Process,
		"--etcd " + plainEtcd + noEtcdTLS: plain.NewControlPlaneWith(t, "controlplane-tls", "--etcd-tls").Process,
		"--etcd " + securedEtcd + " speaks TLS: set --etcd-tls, or --etcd-tls-ca to the certificates to trust": secured.NewControlPlaneWith(t, "controlplane-plain",
			"--etcd-tls-ca", "", "--etcd-tls-cert", "", "--etcd-tls-key", "").Process,
	}
	for _, p := range processes {
		p.Launch()
	}
	for line, p := range processes {
		require.Equal(t, line, exitLine(t, p, refusalLimit))
	}
}

// TestSettings_OneAddressForTwo: agents, and control planes, that advertise one address warn of each other and go on.
func TestSettings_OneAddressForTwo(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	a := c.NewAgentWith(t, "agent-same", "--advertise", c.Agents[0].Bootstrap)
	p := c.NewControlPlaneWith(t, "controlplane-same", "--replica-id", "cp-same", "--advertise", c.ControlPlanes[0].GRPC)
	a.Launch()
	p.Launch()
	const agents = "another agent advertises the same address: set --advertise and --peer-advertise of each agent to its own, or --shared-advertise to that of a load balancer"
	for _, process := range []*testservers.Process{a.Process, c.Agents[0].Process} {
		says(t, process, agents+"  address="+c.Agents[0].Bootstrap)
	}
	const replicas = "another replica advertises the same address: set --advertise of each replica to its own  "
	says(t, p.Process, replicas)
	says(t, c.ControlPlanes[0].Process, replicas+"advertise="+c.ControlPlanes[0].GRPC+" other_replica=cp-same")
	harness.CLI(t, c.Bootstrap(), nil, "topic", "create", "t")
}

// TestSettings_AddressThatLeadsToItself: a process that listens for other machines and advertises localhost warns. So does an agent in
// a zone that no client id can name.
func TestSettings_AddressThatLeadsToItself(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	a := c.NewAgentWith(t, "agent-local", "--kafka-listen", ":0", "--advertise", "localhost", "--zone", "rack 1")
	p := c.NewControlPlaneWith(t, "controlplane-local", "--grpc-listen", ":0", "--advertise", "localhost:7050")
	a.Launch()
	p.Launch()
	const remedy = " on other machines to themselves: set --advertise to a name or address of this machine that "
	says(t, a.Process, "advertised address leads clients"+remedy+"clients reach")
	says(t, a.Process, "clients cannot name this zone in their client ids: set --zone to a name without white space")
	says(t, p.Process, "advertised address leads agents and replicas"+remedy+"they reach")
	require.NotContains(t, c.Agents[0].Output(), remedy)
	require.NotContains(t, c.ControlPlanes[0].Output(), remedy)
}

// TestSettings_KeyThatOneReplicaKnows: an agent whose key the owner does not have yet tries again, says so, and gets in when an owner has it.
func TestSettings_KeyThatOneReplicaKnows(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 2, AgentFlags: []string{"--agent-key", "new"}})
	c.ControlPlanes[0].Launch()
	c.ControlPlanes[0].AwaitReady()
	other := c.NewControlPlaneWith(t, "controlplane-new", "--replica-id", "cp-new", "--grpc-listen", c.ControlPlanes[1].GRPC,
		"--advertise", c.ControlPlanes[1].GRPC, "--agent-key", c.AgentKey+",new")
	other.Launch()
	other.AwaitReady()
	a := c.Agents[0]
	a.Launch()
	harness.Await(t, "the agent tries again", func() bool {
		n, err := a.Metric("freshet_agent_session_reconnects_total")
		return err == nil && n >= fewAttempts
	})
	require.Contains(t, body(t, a.HTTP+"/readyz"), "unknown agent key")
	require.True(t, a.Running())
	c.ControlPlanes[0].Kill()
	a.AwaitReady()
}

// TestSettings_ClockThatIsOff: the store refuses an agent whose clock is off, and the agent says why, and is not ready.
func TestSettings_ClockThatIsOff(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large.</Message></Error>`))
	}))
	t.Cleanup(proxy.Close)
	store := *c.S3
	store.Endpoint = proxy.URL
	a := c.NewAgentWith(t, "agent-clock", "--bucket", store.URL("bucket", "freshet"))
	a.Launch()
	const clock = "clock differs too much from the object store's"
	says(t, a.Process, clock)
	require.Eventually(t, func() bool { return strings.Contains(body(t, a.HTTP+"/readyz"), clock) }, time.Minute, 50*time.Millisecond)
}

// TestSettings_DataDirInUse: a second `freshet dev` on a data directory ends and names the setting.
func TestSettings_DataDirInUse(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	second := harness.NewDev(t, "--data-dir", d.DataDir)
	second.Launch()
	ctx, cancel := context.WithTimeout(t.Context(), exitLimit)
	defer cancel()
	require.ErrorContains(t, second.Await(ctx), "ended with exit code 1:")
	require.Equal(t, "freshet: dev: --data-dir "+d.DataDir+" is in use by another process: stop that process, or set --data-dir to another directory\n",
		ignoredVariables.ReplaceAllString(second.Output(), ""))
	harness.CLI(t, d.Bootstrap, nil, "topic", "create", "t")
}

// TestSettings_AutoCreateTopics: the setting does the same in `freshet dev` and in an agent.
func TestSettings_AutoCreateTopics(t *testing.T) {
	t.Parallel()
	cluster := func(flags ...string) string {
		return harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1, AgentFlags: flags}).Bootstrap()
	}
	for name, address := range map[string]string{"dev": harness.StartDev(t).Bootstrap, "agent": cluster("--auto-create-topics=true")} {
		harness.CLI(t, address, strings.NewReader("a\n"), "produce", "on")
		require.Contains(t, harness.CLI(t, address, nil, "topic", "list"), "on     1  ", name)
	}
	for name, address := range map[string]string{"dev": harness.StartDev(t, "--auto-create-topics=false").Bootstrap, "agent": cluster("--auto-create-topics=false")} {
		r := harness.TryCLI(t, address, strings.NewReader("a\n"), "produce", "off")
		require.Equal(t, 1, r.Code, name)
		require.Contains(t, r.Err, "freshet topic create off", name)
		require.NotContains(t, harness.CLI(t, address, nil, "topic", "list"), "off", name)
	}
}

package kube

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/stock"
)

// kind says how much a phase may disturb clients, from least to most: comparisons use the order.
type kind int

const (
	clean kind = iota // agents go in good order, and others serve
	joins             // agents come; those of an empty zone are shown before load balancers know them
	rough             // agents or nodes are lost
	away              // no agent is left for a while
)

const (
	// stallBound is the longest that a record may take while agents go in good order.
	stallBound = 2 * time.Second
	// expired is the time after which the control plane has closed the sessions of agents that ended without notice.
	expired = 7 * time.Second
	chart   = "../../deploy/helm/freshet"
)

// Values of FRESHET_KUBE. kill and early-ack break a promise on purpose: such a run fails if it does not notice.
const (
	whole    = "1"
	zones    = "zones"     // the first phases of the whole run
	kill     = "kill"      // agents that scale down are killed without notice
	earlyAck = "early-ack" // agents acknowledge records before they have stored them: the image has to be of such a build
)

// scene is a cluster with its clients.
type scene struct {
	*cluster
	mode    string
	clients []*stock.App
	values  []string // set by upgrades so far
	table   bytes.Buffer
	found   []string // promises that were broken
	seen    *addresses
}

// TestKube is the whole run. FRESHET_KUBE has to be set.
func TestKube(t *testing.T) {
	mode := os.Getenv("FRESHET_KUBE")
	if mode == "" {
		t.Skip("needs root, Debian packages and binaries: run make e2e-kube")
	}
	require.Contains(t, []string{whole, zones, kill, earlyAck}, mode, "FRESHET_KUBE")
	s := newScene(t, mode)
	switch mode {
	case kill:
		s.phase("zone 1 from 2 to 5 agents", joins, func() { s.scale(5, "zone-1") })
		s.phase("zone 1 from 5 to 2 agents", clean, func() { s.scale(2, "zone-1") })
	case zones:
		s.secondZone()
		s.finish()
	case earlyAck:
		for range 3 {
			s.phase("forced deletion of an agent", rough, s.deleteAgent)
		}
		s.finish()
	case whole:
		s.everything()
		s.end()
	}
	s.t.Logf("| phase | client | records | p50 | longest |\n|---|---|---|---|---|\n%s", &s.table)
	if mode == whole || mode == zones {
		require.Empty(t, s.found)
		return
	}
	require.NotEmpty(t, s.found, "the run does not notice %s", mode)
	t.Logf("the run notices %s: %q", mode, s.found)
}

// everything is all that may happen to a cluster.
func (s *scene) everything() {
	s.secondZone()
	s.phase("zone 1 from 2 to 5 agents", joins, func() { s.scale(5, "zone-1") })
	s.phase("rolling upgrade of agents", clean, func() {
		s.upgrade("agents.settings.flush-interval=200ms")
		s.rollout("deployment/freshet-agent-zone-1", "deployment/freshet-agent-zone-2")
		s.await(ofZone("zone-1"), 5) // as kubectl scale has set it
		s.await(ofZone("zone-2"), 2)
	})
	s.phase("zone 1 from 5 to 2 agents", clean, func() { s.scale(2, "zone-1") })
	s.phase("eviction of an agent", clean, func() {
		s.evict(s.pods(ofZone("zone-2"))[0].Metadata.Name)
		s.await(agents, 4)
	})
	s.phase("rolling upgrade of control planes", rough, func() {
		s.upgrade("controlPlane.settings.topic-undelete=2h")
		s.rollout("statefulset/freshet-controlplane")
	})
	s.phase("rollout with wrong bucket keys", clean, s.wrongKeys)
	s.phase("forced deletion of an agent", rough, s.deleteAgent)
	s.phase("forced deletion of a control plane", rough, func() {
		s.kubectl("delete", "pod", "freshet-controlplane-0", "--force", "--grace-period=0")
		s.await(controlPlanes, 2)
	})
	s.phase("an agent out of memory", rough, s.outOfMemory)
	s.phase("node 2 lost for 20 s", rough, s.lostNode)
	s.phase("a member of etcd without its volume", rough, s.lostVolume)
	s.phase("both zones from 2 to 0 to 2 agents", away, func() {
		s.scale(0, "zone-1", "zone-2")
		s.scale(2, "zone-1", "zone-2")
	})
}

// secondZone gives zone 2 its first agents, while its clients run.
func (s *scene) secondZone() {
	s.phase("2 and 0 agents", clean, func() {})
	s.phase("zone 2 from 0 to 2 agents", joins, func() {
		s.scale(2, "zone-2")
		s.staysInZone()
	})
}

func (s *scene) deleteAgent() {
	n := len(s.pods(agents))
	s.kubectl("delete", "pod", s.pods(ofZone("zone-1"))[0].Metadata.Name, "--force", "--grace-period=0")
	s.await(agents, n)
}

// broken records a broken promise; the run fails at its end.
func (s *scene) broken(format string, args ...any) {
	s.t.Helper()
	s.found = append(s.found, fmt.Sprintf(format, args...))
	s.t.Log("BROKEN: " + s.found[len(s.found)-1])
}

// newScene installs the chart, with 2 agents in zone 1 and none in zone 2, and starts the clients.
func newScene(t *testing.T, mode string) *scene {
	t.Helper()
	s := &scene{cluster: newCluster(t), mode: mode}
	s.install()
	s.scale(0, "zone-2")
	s.scale(2, "zone-1")
	s.clients = newClients(t, s.cluster)
	stock.Prepare(t, load, s.clients, options(s.cluster)...)
	for _, c := range s.clients {
		c.Consume(t)
		c.Produce(t)
	}
	stock.Flows(t, s.clients, time.Now())
	return s
}

// install makes what the chart does not: namespaces, secrets, an object store, volumes; then it installs the chart.
func (s *scene) install() {
	s.t.Helper()
	began := time.Now()
	for _, ns := range []string{namespace, "store"} {
		s.script("kubectl", "create", "namespace", ns)
		s.script("kubectl", "--namespace", ns, "create", "secret", "generic", "bucket", "--from-literal=AWS_ACCESS_KEY_ID=access", "--from-literal=AWS_SECRET_ACCESS_KEY=secret-key")
	}
	s.seen = watchAddresses(s.t)
	s.script("kubectl", "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	s.kubectl("create", "secret", "generic", "freshet", "--from-literal=agent-key="+rand.Text(), "--from-literal=operator-key="+rand.Text())
	s.script("kubectl", "--namespace", "store", "apply", "-f", "store.yaml")
	for i, node := range []string{"1", "1", "2"} { // etcd has a majority without node 2
		s.script("volume", namespace, fmt.Sprintf("data-freshet-etcd-%d", i), node)
	}
	s.helm("install", "freshet", chart, "--values", "values.yaml")
	s.rollout("statefulset/freshet-etcd", "statefulset/freshet-controlplane", "deployment/freshet-agent-zone-1", "deployment/freshet-agent-zone-2")
	s.t.Logf("the chart is installed and ready in %s", time.Since(began).Round(time.Millisecond))
	for !strings.Contains(s.operate("zone", "list"), "zone-1") { // agents report once a second
		require.Less(s.t, time.Since(began), time.Minute, "zone list has no zone-1")
	}
}

// operate runs an operator's command in a control plane's pod.
func (s *scene) operate(args ...string) string {
	s.t.Helper()
	args = append([]string{"exec", "statefulset/freshet-controlplane", "--", "freshet"}, args...)
	return s.kubectl(append(args, "--control-plane-http", "127.0.0.1:8090", "--virtual-cluster", "main")...)
}

// upgrade changes one value.
func (s *scene) upgrade(value string) {
	s.t.Helper()
	s.values = append(s.values, "--set", value)
	s.helm(append([]string{"upgrade", "freshet", chart, "--values", "values.yaml"}, s.values...)...)
}

// phase runs happens, waits until every record sent meanwhile is acknowledged, and adds the times of the records to the table. It logs the share
// of the phase in which tasks of the machine waited for CPU and disk, and the slowest of each step of a produce, which explain long times.
func (s *scene) phase(name string, k kind, happens func()) {
	s.t.Helper()
	for _, c := range s.clients {
		c.Mark(s.t)
		c.Again = c.Again || k > joins || c.Java && c.Protocol == "classic" // seen while batches had leader epochs; not tried since
	}
	samples := s.counts()
	began, closed, before := time.Now(), s.closed(k), s.pressure()
	happens()
	happened := time.Now()
	flows := stock.Flows(s.t, s.clients, time.Now())
	waited := before.until(s.pressure()) + samples.slowest(s.counts())
	for i, micros := range flows {
		c := s.clients[i]
		c.Check(s.t)
		top, median := stock.Longest(micros)
		row := fmt.Sprintf("| %s | %s | %d | %d ms | %d ms |", name, c.Name, len(micros), median.Milliseconds(), top.Milliseconds())
		s.t.Log(row)
		fmt.Fprintln(&s.table, row)
		if k == clean && top > stallBound {
			s.broken("%s: a record of %s took %s, more than %s%s", name, c.Name, top, stallBound, waited)
		}
	}
	if k <= joins {
		<-time.After(expired - time.Since(happened))
	}
	if n := s.closed(k) - closed; n != 0 {
		s.broken("%s: %v agent sessions ended by time-out", name, n)
	}
	s.connected()
	s.t.Logf("%s: %s%s", name, happened.Sub(began).Round(time.Millisecond), waited)
}

// closed returns how many agent sessions ended by time-out; 0 where this is allowed.
func (s *scene) closed(k kind) float64 {
	s.t.Helper()
	if k > joins {
		return 0
	}
	return s.sum(controlPlanes, 8090, "freshet_session_closed_total")
}

// finish stops the producers and compares the stored records with the sent ones.
func (s *scene) finish() *stock.Sent {
	s.t.Helper()
	all := stock.FinishAll(s.t, s.clients)
	stock.AwaitListed(s.t, load.Topic, options(s.cluster)...)
	if err := all.Stored(s.t.Context(), load.Topic, options(s.cluster)...); err != nil {
		s.broken("%v", err)
	}
	return all
}

// end compares the stored records and those read by groups with the sent ones, before and after a reinstallation of the chart.
func (s *scene) end() {
	s.t.Helper()
	all := s.finish()
	for _, c := range s.clients {
		c.End(s.t, all)
	}
	s.helm("uninstall", "freshet", "--wait")
	s.await(agents, 0)
	s.helm(append([]string{"install", "freshet", chart, "--values", "values.yaml"}, s.values...)...)
	s.rollout("statefulset/freshet-etcd", "statefulset/freshet-controlplane", "deployment/freshet-agent-zone-1", "deployment/freshet-agent-zone-2")
	stock.AwaitListed(s.t, load.Topic, options(s.cluster)...)
	require.NoError(s.t, all.Stored(s.t.Context(), load.Topic, options(s.cluster)...))
	s.t.Logf("%d records, all there once and in order, also after a reinstallation, read by %d groups", all.Total(), len(s.clients))
}

func (s *scene) evict(name string) {
	s.t.Helper()
	eviction, err := json.Marshal(map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]string{"name": name, "namespace": namespace},
	})
	require.NoError(s.t, err)
	_, err = run(string(eviction), "kubectl", "create", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/eviction", namespace, name), "-f", "-")
	require.NoError(s.t, err)
}

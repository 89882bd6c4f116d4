package compose

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// checked are the containers with a health check, at first.
var checked = []string{
	"etcd-1_1", "etcd-2_1", "etcd-3_1", "store_1", "control-1_1", "control-2_1", "agent-a_1", "agent-b_1", "agent-c_1", "prometheus_1",
}

// TestCompose is the whole run. FRESHET_COMPOSE has to be set.
func TestCompose(t *testing.T) {
	if os.Getenv("FRESHET_COMPOSE") == "" {
		t.Skip("needs root, Debian packages and an image: run make e2e-compose")
	}
	s := newStack(t)
	s.start()
	require.Contains(t, s.section("Clients on this machine"), "\n1000\n")
	clients := startClients(s)
	require.Contains(t, s.section("Clients in containers"), "2000\n")
	s.stopAgents()
	s.scale()
	clients.finish()
	require.Equal(t, "3000\n", s.run("docker compose exec -T control-1 /freshet consume lines --from earliest --exit-at-end | wc -l"))
	s.takeDown()
	require.Empty(t, slices.Collect(maps.Keys(s.page)), "sections that the test does not run")
}

// start starts the cluster, and waits until all parts are healthy and shown to clients.
func (s *stack) start() {
	s.t.Helper()
	began := time.Now()
	commands := s.page["Start it"]
	require.Len(s.t, commands, 2)
	s.run(commands[0])
	s.t.Logf("up took %s", time.Since(began).Round(time.Millisecond))
	for _, container := range checked {
		s.awaitHealthy(container)
	}
	s.awaitBrokers(3)
	s.t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))
	require.Contains(s.t, s.section("Start it"), "Findings: none\n")
}

func (s *stack) awaitHealthy(container string) {
	s.t.Helper()
	var err error
	harness.Await(s.t, container+" is healthy", func() bool {
		_, err = s.try("podman healthcheck run freshet_" + container)
		return err == nil
	})
}

// awaitBrokers waits until every zone's load balancer answers and Metadata shows n brokers.
func (s *stack) awaitBrokers(n int) {
	s.t.Helper()
	for _, address := range strings.Split(bootstrap, ",") {
		harness.Await(s.t, address+" answers", func() bool {
			out, err := s.try("kcat -L -J -m 5 -b " + address)
			var metadata struct{ Brokers []struct{ Name string } }
			return err == nil && json.Unmarshal([]byte(out), &metadata) == nil && len(metadata.Brokers) == n
		})
	}
}

// stopAgents stops and kills the only agent of zone a, then other parts, as the page shows. Clients go on each time.
func (s *stack) stopAgents() {
	s.t.Helper()
	out := s.section("Stop an agent")
	require.NotContains(s.t, out, "\na  ", "zone a has no agent")
	require.Contains(s.t, out, "\nb  ")
	s.awaitHealthy("agent-a_1")
	s.flows()
	s.run("docker compose kill agent-a")
	s.flows()
	s.run("docker compose start agent-a")
	s.awaitHealthy("agent-a_1")
	s.flows()
	for _, fault := range []struct{ verb, service string }{{"kill", "control-1"}, {"stop", "etcd-2"}, {"stop", "store"}} {
		s.run("docker compose " + fault.verb + " " + fault.service)
		s.run("docker compose start " + fault.service)
		s.awaitHealthy(fault.service + "_1")
		s.flows()
	}
}

// scale gives zone b a second agent, which Prometheus finds too.
func (s *stack) scale() {
	s.t.Helper()
	commands := s.page["Scale a zone"]
	require.Len(s.t, commands, 2)
	s.run(commands[0])
	s.awaitHealthy("agent-b_2")
	require.Regexp(s.t, `\nb +2 `, s.section("Scale a zone"))
	s.flows()
	s.awaitTargets(9)
	require.Contains(s.t, s.section("Metrics"), `{"metric":{"zone":"b"},"value":[`)
}

// awaitTargets waits until Prometheus has n targets, all of them up.
func (s *stack) awaitTargets(n int) {
	s.t.Helper()
	harness.Await(s.t, "Prometheus scrapes all targets", func() bool {
		var answer struct {
			Data struct {
				ActiveTargets []struct{ Health, ScrapeURL, LastError string }
			}
		}
		require.NoError(s.t, json.Unmarshal([]byte(s.run("curl -sf http://127.0.0.1:19090/api/v1/targets")), &answer))
		for _, target := range answer.Data.ActiveTargets {
			if target.Health != "up" {
				return false
			}
		}
		return len(answer.Data.ActiveTargets) == n
	})
}

// takeDown removes the project. Nothing is left of it.
func (s *stack) takeDown() {
	s.t.Helper()
	began := time.Now()
	s.run("podman rm --force freshet_agent-b_2") // of the page's text: podman-compose
	s.section("Take it down")
	s.t.Logf("down took %s", time.Since(began).Round(time.Millisecond))
	require.Empty(s.t, s.run("podman ps --all --quiet; podman volume ls --quiet; podman pod ls --quiet"))
	require.Equal(s.t, "podman\n", s.run("podman network ls --format '{{.Name}}'"), "Podman's own network is left")
}

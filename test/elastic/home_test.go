package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/test/harness"
	"github.com/freshet-io/freshet/test/stock"
)

// silence is how long zone a's agents must hear nothing of zone b's clients: two refreshes of Metadata.
const silence = 2 * refreshMs * time.Millisecond

// roundRobin are the requests that franz-go sends to all nodes in turn, whichever are near. The last is each connection's first.
var roundRobin = []string{"Metadata", "FindCoordinator", "ApiVersions"}

// TestHome starts zone b's clients while zone b has no agent. When agents have come to it, nothing of them reaches zone a's agents any
// more, no group has rebalanced, and no application has seen an error.
func TestHome(t *testing.T) {
	for _, family := range []string{"java", "librdkafka", "franz-go"} {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			goHome(t, family)
		})
	}
}

func goHome(t *testing.T, family string) {
	t.Helper()
	s := &scene{t: t, short: true, marked: make(map[string][]int64)}
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 4, ControlPlanes: 1, Zones: zones[:2], Ports: 2})
	c.ControlPlanes[0].Launch()
	s.fleet = &fleet{Cluster: c, t: t, drain: finishing}
	for _, i := range []int{0, 2} {
		c.Agents[i].Launch()
		c.Agents[i].AwaitReady()
	}
	s.topics()
	s.families = map[string]stock.Client{family: newFamily(t, family)}
	for _, kind := range []string{"", "classic", "consumer"} {
		g := &group{
			name: family + " " + cmp.Or(kind, "without a group"), family: s.families[family], kind: kind, zone: "b",
			tells: family != "librdkafka", fleet: s.fleet,
		}
		if kind == "" {
			g.members = []string{g.name}
		} else {
			s.commitStart(g.name)
		}
		s.groups = append(s.groups, g)
		s.join(family, g)
	}
	for _, g := range s.groups {
		g.settle(t)
	}
	s.families[family].Write(t, stock.Job{
		Name: family, Topic: topic, Partitions: partitions, IntervalMs: intervalMs,
		Config: s.config(family, map[string]string{"client.id": "writer,zone=b", "enable.idempotence": "true"}),
	})
	s.phase("no agent in zone b", steady, 0, func() {})
	s.fleet.start(1, 3)
	began := time.Now()
	s.fleet.serves(1, 3)
	s.silent(family)
	t.Logf("%s: zone a heard nothing for %s, %s after zone b's agents came", family, silence, time.Since(began).Round(time.Second))
	s.phase("2 agents in zone b", clean, 0, func() {})
	s.end()
}

// silent waits until zone a's agents have had no request, but those of roundRobin by franz-go, for as long as silence is.
func (s *scene) silent(family string) {
	s.t.Helper()
	s.admin.Close()
	before := s.heard(family)
	harness.Await(s.t, "zone a's agents hear nothing", func() bool {
		<-time.After(silence) // the measurement's length
		now, more := s.heard(family), make(map[string]float64)
		for api, n := range now {
			if n != before[api] {
				more[api] = n - before[api]
			}
		}
		before = now
		s.t.Logf("%s: requests at zone a's agents in %s: %v", family, silence, more)
		return len(more) == 0
	})
	admin, err := kgo.NewClient(kgo.SeedBrokers(s.fleet.running()...), kgo.ClientID(admin))
	require.NoError(s.t, err)
	s.admin = kadm.NewClient(admin)
	s.t.Cleanup(s.admin.Close)
}

// heard counts the answers of zone a's agents to Kafka clients, by API.
func (s *scene) heard(family string) map[string]float64 {
	s.t.Helper()
	counts := make(map[string]float64)
	for _, entry := range kafkaproto.Table() {
		if family == "franz-go" && slices.Contains(roundRobin, entry.Name) {
			continue
		}
		for _, i := range []int{0, 2} {
			n, err := harness.Metric(s.fleet.Agents[i].HTTP, "freshet_kafka_request_seconds_count", fmt.Sprintf("api=%q", entry.Name))
			require.NoError(s.t, err)
			counts[entry.Name] += n
		}
	}
	return counts
}

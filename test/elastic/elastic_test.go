package elastic

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
	"github.com/freshet-io/freshet/test/stock"
)

const (
	topic      = "elastic"
	partitions = 6
	intervalMs = 50 // between two records of a producer in one partition
	// refreshMs is how old clients let Metadata get: how long after agents came some load has come to them.
	refreshMs = 5000
	// finishing bounds what is to be done at the end: the last acknowledgements, reading all again.
	finishing = 3 * time.Minute
)

// zones of the agents in turn: agents 0 and 3 are in a, 1 and 4 in b, 2 and 5 in c.
var zones = []string{"a", "b", "c"}

// TestElastic grows and shrinks a cluster while stock clients write and read. FRESHET_ELASTIC is how long (one round if
// it is not set).
func TestElastic(t *testing.T) {
	s := &scene{short: true} // a phase ends once records flow
	var until time.Time
	if d := os.Getenv("FRESHET_ELASTIC"); d != "" {
		duration, err := time.ParseDuration(d)
		require.NoError(t, err)
		s.short, s.hold, s.still, s.moved = false, 10*time.Second, 10*time.Second, 10*time.Second
		until = time.Now().Add(duration)
	}
	s.set(t)
	for _, g := range s.groups {
		g.newZones = len(zones) - 1 // they come in the first round
	}
	for round := 1; round == 1 || time.Now().Before(until); round++ {
		s.round()
	}
	s.end()
}

// scene is a run: a cluster, the clients, and what was measured.
type scene struct {
	t        *testing.T
	fleet    *fleet
	admin    *kadm.Client
	families map[string]stock.Client
	groups   []*group
	short    bool
	hold     time.Duration      // how long a phase goes on after what happened in it; 0 if short
	still    time.Duration      // how long a phase is in which nothing happens; 0 if short
	moved    time.Duration      // hold where clients are to find new agents: more than refreshMs; 0 if short
	marked   map[string][]int64 // latencies of this phase so far
	figures  figures

	bootstrap string // of clients under test; "": all agents
}

// set starts one agent and the clients.
func (s *scene) set(t *testing.T) {
	t.Helper()
	s.t, s.marked = t, make(map[string][]int64)
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 6, ControlPlanes: 2, EtcdMembers: 1, Zones: zones, Ports: 4})
	for _, p := range c.ControlPlanes {
		p.Launch()
	}
	for _, p := range c.ControlPlanes {
		p.AwaitReady()
	}
	s.fleet = &fleet{Cluster: c, t: t, drain: drainLimit}
	if s.short { // in which nothing is measured
		s.fleet.drain = finishing
	}
	s.fleet.Agents[0].Launch()
	s.fleet.Agents[0].AwaitReady()
	s.topics()
	s.families = allFamilies(t)
	s.readers()
	for i, name := range s.names() {
		s.write(name, "writer,zone="+zones[i])
	}
	s.flows()
	s.mark() // connections were made meanwhile
}

func allFamilies(t *testing.T) map[string]stock.Client {
	t.Helper()
	all := make(map[string]stock.Client)
	for _, name := range []string{"java", "librdkafka", "franz-go"} {
		all[name] = newFamily(t, name)
	}
	return all
}

func newFamily(t *testing.T, name string) stock.Client {
	t.Helper()
	switch name {
	case "java":
		return stock.Foreign{Worker: harness.JavaWorker(t, "Elastic")}
	case "librdkafka":
		return stock.Foreign{Worker: harness.PythonWorker(t, "elastic.py")}
	default:
		return newFranz()
	}
}

// write starts a family's producer.
func (s *scene) write(name, clientID string) {
	s.t.Helper()
	own := map[string]string{"client.id": clientID, "enable.idempotence": "true"}
	if name == "librdkafka" {
		own["enable.sparse.connections"] = "false" // docs/clients.md: else it can stall for a second when agents join
	}
	s.families[name].Write(s.t, stock.Job{
		Name: name, Topic: topic, Partitions: partitions, IntervalMs: intervalMs, Config: s.config(name, own),
	})
}

// topics creates the topics, by an agent that runs, with the replication factor of FRESHET_ELASTIC_FACTOR, by default 4.
func (s *scene) topics() {
	s.t.Helper()
	factor := int64(4)
	if f := os.Getenv("FRESHET_ELASTIC_FACTOR"); f != "" {
		var err error
		factor, err = strconv.ParseInt(f, 10, 16)
		require.NoError(s.t, err)
	}
	s.admin = kadm.NewClient(s.fleet.client())
	for name, n := range map[string]int32{topic: partitions, probeTopic: 1} {
		_, err := s.admin.CreateTopic(s.t.Context(), n, int16(factor), nil, name)
		require.NoError(s.t, err)
	}
}

// names are the families', always in the same order.
func (s *scene) names() []string { return slices.Sorted(maps.Keys(s.families)) }

// config is a client's configuration with what all have.
func (s *scene) config(family string, own map[string]string) map[string]string {
	all := maps.Clone(own)
	all["bootstrap.servers"] = cmp.Or(s.bootstrap, s.fleet.Bootstrap())
	all["metadata.max.age.ms"] = fmt.Sprint(refreshMs)
	if family == "librdkafka" {
		all["topic.metadata.refresh.interval.ms"] = fmt.Sprint(refreshMs)
	}
	return all
}

// round is one way up and down. It begins and ends with one agent, in zone a.
func (s *scene) round() {
	s.phase("1 agent", steady, s.still, func() {})
	s.phase("1 to 6 agents", clean, s.moved, func() {
		s.fleet.start(1, 2, 3, 4, 5)
		s.zonesChange() // b and c have agents
		if s.short {
			s.fleet.serves(1, 4) // zone b's producer has found its zone
			s.fleet.serves(2, 5)
		}
	})
	s.phase("6 agents", steady, s.still, func() {})
	s.phase("kill -9 of one of 6 agents", rough, s.hold, func() {
		s.fleet.Agents[4].Kill()
	})
	s.phase("it comes back", clean, s.hold, func() { s.fleet.start(4) })
	s.phase("6 to 3 agents", clean, s.hold, func() { s.fleet.stop(3, 4, 5) })
	s.phase("zone a empties", clean, s.hold, func() {
		s.fleet.stop(0)
		s.zonesChange()
	})
	s.phase("zone a refills", clean, s.hold, func() {
		s.fleet.start(0)
		s.zonesChange()
		s.fleet.serves(0) // its clients come back
	})
	s.phase("3 agents", steady, s.still, func() {})
	s.phase("3 to 1 agents", clean, s.hold, func() {
		s.fleet.stop(1, 2)
		s.zonesChange()
	})
	s.phase("1 to 0 to 1 agents", away, s.hold, func() {
		s.fleet.stop(0)
		s.zonesChange()
		s.fleet.start(0)
		s.zonesChange()
	})
}

// zonesChange notes that a zone has got its first agent or lost its last one.
func (s *scene) zonesChange() {
	for _, g := range s.groups {
		g.zonesChanged++
	}
}

// phase lets something happen, waits, and measures. Groups must not have noticed.
func (s *scene) phase(name string, k kind, hold time.Duration, happens func()) {
	s.t.Helper()
	happens()
	if hold > 0 {
		<-time.After(hold) // the measurement's length, no wait for anything
	}
	s.flows()
	all := s.mark()
	for _, family := range s.names() {
		f := newFigure(name, k, family, all[family])
		s.figures = append(s.figures, f)
		s.t.Log(f)
	}
	for _, g := range s.groups {
		g.quiet(s.t, name, k)
	}
	require.Zero(s.t, s.fleet.validations(), "%s: consumers validate their positions", name)
}

// mark takes every producer's latencies since the last mark.
func (s *scene) mark() map[string][]int64 {
	s.t.Helper()
	all := s.marked
	s.marked = make(map[string][]int64)
	for _, name := range s.names() {
		m := s.families[name].Mark(s.t)
		require.Empty(s.t, m.Failures, name)
		all[name] = append(all[name], m.Micros...)
	}
	return all
}

// flows waits until every producer has got everything through that it sent before, and measures on.
func (s *scene) flows() {
	s.t.Helper()
	began := time.Now()
	for _, name := range s.names() {
		harness.Await(s.t, "records of "+name+" are acknowledged", func() bool {
			m := s.families[name].Mark(s.t)
			require.Empty(s.t, m.Failures, name)
			s.marked[name] = append(s.marked[name], m.Micros...)
			return len(s.marked[name]) > 0 && m.Oldest < time.Since(began).Microseconds()
		})
	}
}

// end stops everything and checks.
func (s *scene) end() {
	s.t.Helper()
	all := stock.NewSent()
	for _, name := range s.names() {
		all.Add(s.t, name, s.families[name].Finish(s.t))
	}
	require.NoError(s.t, all.Stored(s.t.Context(), topic, kgo.SeedBrokers(s.fleet.running()...), kgo.ClientID(admin)))
	for _, g := range s.groups {
		g.finish(s.t, all)
	}
	s.t.Logf("%d records, all there once and in order, read by %d groups and readers\n%s\n%s", all.Total(), len(s.groups),
		s.figures.table(), startTable(s.fleet.served))
}

// commitStart gives a group the offsets to begin at, so that no reader ever needs a reset.
func (s *scene) commitStart(groups ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), finishing)
	defer cancel()
	var begin kadm.Offsets
	for p := range int32(partitions) {
		begin.AddOffset(topic, p, 0, -1)
	}
	for _, g := range groups {
		committed, err := s.admin.CommitOffsets(ctx, g, begin)
		require.NoError(s.t, err)
		require.NoError(s.t, committed.Error())
	}
}

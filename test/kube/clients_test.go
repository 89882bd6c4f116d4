package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
	"github.com/freshet-io/freshet/test/stock"
)

const (
	topic      = "kube"
	partitions = 6
	intervalMs = 50 // between two records of a producer in one partition
	refreshMs  = 5000
	groupSize  = 2 // members
	finishing  = 3 * time.Minute
)

// client is a stock client in one place, with a producer and a group.
type client struct {
	stock.Client
	name      string
	zone      string
	bootstrap string
	protocol  string // of its group
	java      bool
	again     bool // its group may read records again: all agents had gone, or partitions were validated at a rebalance
}

func (c *client) config(own map[string]string) map[string]string {
	all := maps.Clone(own)
	all["bootstrap.servers"] = c.bootstrap
	all["metadata.max.age.ms"] = fmt.Sprint(refreshMs)
	// docs/clients.md: else clients can try addresses of ended agents for 5 minutes, if all ended.
	all["metadata.recovery.rebootstrap.trigger.ms"] = "10000"
	if !c.java {
		all["topic.metadata.refresh.interval.ms"] = fmt.Sprint(refreshMs)
	}
	return all
}

// write starts the producer.
func (c *client) write(t *testing.T) {
	t.Helper()
	own := map[string]string{"client.id": "writer,zone=" + c.zone, "enable.idempotence": "true"}
	if c.name == "librdkafka-outside" { // docs/clients.md; inside it would keep connections to the other zone's agents
		own["enable.sparse.connections"] = "false"
	}
	c.Write(t, stock.Job{Name: c.name, Topic: topic, Partitions: partitions, IntervalMs: intervalMs, Config: c.config(own)})
}

// join starts the members of the group.
func (c *client) join(t *testing.T) {
	t.Helper()
	own := map[string]string{
		"group.id": c.name, "group.protocol": c.protocol, "client.id": "reader,zone=" + c.zone,
		"auto.offset.reset": map[bool]string{true: "none", false: "error"}[c.java],
	}
	if c.protocol == "classic" {
		own["session.timeout.ms"] = "60000" // a machine under load must not cause a rebalance
	}
	for i := range groupSize {
		c.Join(t, stock.Job{Name: fmt.Sprint(i), Topic: topic, Config: c.config(own)})
	}
	harness.Await(t, "the group "+c.name+" has all partitions", func() bool {
		assigned := 0
		for i := range groupSize {
			r := c.Look(t, fmt.Sprint(i))
			require.Empty(t, r.Faults, c.name)
			assigned += r.Assigned
		}
		return assigned == partitions
	})
}

// check fails the test if a member of the group has seen an error.
func (c *client) check(t *testing.T) {
	t.Helper()
	for i := range groupSize {
		require.Empty(t, c.Look(t, fmt.Sprint(i)).Faults, c.name)
	}
}

// finish waits until the group has read everything, once and in order.
func (c *client) finish(t *testing.T, all *stock.Sent) {
	t.Helper()
	var faults []string
	defer func() {
		if len(faults) > 0 {
			t.Logf("%s: %q", c.name, faults)
		}
	}()
	harness.Await(t, "the group "+c.name+" has read everything, once and in order", func() bool {
		var runs []stock.Run
		for i := range groupSize {
			r := c.Look(t, fmt.Sprint(i))
			require.Empty(t, r.Faults, c.name)
			runs = append(runs, r.Runs...)
		}
		faults = all.Faults(runs, c.again)
		return len(faults) == 0
	})
	for i := range groupSize {
		require.Empty(t, c.Leave(t, fmt.Sprint(i)).Faults, c.name)
	}
}

// newClients starts the programs of all clients: librdkafka and Java, inside and outside.
func newClients(t *testing.T, c *cluster) []*client {
	t.Helper()
	one, two := c.address("freshet", 9092), c.address("freshet-zone-2", 9092)
	all := []*client{
		{name: "librdkafka-inside", zone: "zone-1", bootstrap: one, protocol: "classic"},
		{name: "java-inside", zone: "zone-2", bootstrap: one, protocol: "classic", java: true},
		{name: "librdkafka-inside-2", zone: "zone-2", bootstrap: two, protocol: "consumer"},
		{name: "java-outside", zone: "zone-1", bootstrap: "10.99.0.1:30092,10.99.0.2:30196", protocol: "consumer", java: true},
		{name: "librdkafka-outside", zone: "zone-2", bootstrap: "10.99.0.2:30192,10.99.0.1:30096", protocol: "classic"},
	}
	for _, cl := range all {
		where := strings.TrimPrefix(cl.zone, "zone-")
		if strings.Contains(cl.name, "outside") {
			where = "outside"
		}
		if cl.java {
			cl.Client = stock.Foreign{Worker: harness.LoneJavaWorkerAt(t, place(where), "Elastic")}
		} else {
			cl.Client = stock.Foreign{Worker: harness.PythonWorkerAt(t, place(where), "elastic.py")}
		}
	}
	return all
}

// options are those of a client of the test's own, inside.
func options(c *cluster) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(c.address("freshet", 9092)), kgo.ClientID("admin,zone=zone-1"), kgo.Dialer(place("1").Dial)}
}

// prepare creates the topic and gives groups the offsets to begin at, so that no member ever needs a reset.
func prepare(t *testing.T, c *cluster, groups ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), finishing)
	defer cancel()
	kafka, err := kgo.NewClient(options(c)...)
	require.NoError(t, err)
	defer kafka.Close()
	admin := kadm.NewClient(kafka)
	_, err = admin.CreateTopic(ctx, partitions, 1, nil, topic)
	require.NoError(t, err)
	var begin kadm.Offsets
	for p := range int32(partitions) {
		begin.AddOffset(topic, p, 0, -1)
	}
	for _, g := range groups {
		committed, err := admin.CommitOffsets(ctx, g, begin)
		require.NoError(t, err)
		require.NoError(t, committed.Error())
	}
}

// longest returns the largest of some latencies in microseconds, and the median.
func longest(micros []int64) (top, median time.Duration) {
	if len(micros) == 0 {
		return 0, 0
	}
	slices.Sort(micros)
	return time.Duration(micros[len(micros)-1]) * time.Microsecond, time.Duration(micros[len(micros)/2]) * time.Microsecond
}

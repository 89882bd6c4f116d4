package kube

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
	"github.com/freshet-io/freshet/test/stock"
)

// load is that of each client.
var load = stock.Load{Topic: "kube", Partitions: 6, IntervalMs: 50}

// newClients starts the programs of all clients: librdkafka and Java, inside and outside.
func newClients(t *testing.T, c *cluster) []*stock.App {
	t.Helper()
	one, two := c.address("freshet", 9092), c.address("freshet-zone-2", 9092)
	all := []*stock.App{
		{Name: "librdkafka-inside", Zone: "zone-1", Bootstrap: one, Protocol: "classic"},
		{Name: "java-inside", Zone: "zone-2", Bootstrap: one, Protocol: "classic", Java: true},
		{Name: "librdkafka-inside-2", Zone: "zone-2", Bootstrap: two, Protocol: "consumer"},
		{Name: "java-outside", Zone: "zone-1", Bootstrap: "10.99.0.1:30092,10.99.0.2:30196", Protocol: "consumer", Java: true},
		{
			Name: "librdkafka-outside", Zone: "zone-2", Bootstrap: "10.99.0.2:30192,10.99.0.1:30096", Protocol: "classic",
			// docs/clients.md; inside, the setting would keep connections to the other zone's agents.
			Producer: map[string]string{"enable.sparse.connections": "false"},
		},
	}
	for _, cl := range all {
		cl.Load = load
		where := strings.TrimPrefix(cl.Zone, "zone-")
		if strings.Contains(cl.Name, "outside") {
			where = "outside"
		}
		if cl.Java {
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

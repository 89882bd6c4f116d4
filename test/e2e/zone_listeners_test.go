package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// zonePort is the first port of the first zone's listener. Each agent has a loopback address of its own, so all have the same ports.
const zonePort = 29292

var listenerZones = []string{"a", "b", "c"}

// zonePlace is the address of the agents of a zone.
func zonePlace(process string) testservers.Place {
	zone, ok := strings.CutPrefix(process, "zone-")
	if !ok {
		return testservers.Place{}
	}
	return testservers.Place{Address: fmt.Sprintf("127.0.90.%d", 1+slices.Index(listenerZones, zone))}
}

// TestZone_ListenerOutlivesItsZone: a client that names no zone comes by the port of zone b. The agents of zone b
// lead all partitions at that port. When zone b dies, the client writes on through other zones' agents, at the same port, without
// asking its seed again. When zone b is back, it leads again.
func TestZone_ListenerOutlivesItsZone(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1, Place: zonePlace})
	c.ControlPlanes[0].Launch()
	agents := map[string]*harness.Agent{}
	for _, zone := range listenerZones {
		listeners := fmt.Sprintf("%s:%d=%s", zonePlace("zone-"+zone).Host(), zonePort, strings.Join(listenerZones, ","))
		agents[zone] = c.NewAgentWith(t, "zone-"+zone, "--zone", zone, "--zone-listeners", listeners)
		agents[zone].Launch()
	}
	for _, a := range agents {
		a.AwaitReady()
	}
	harness.CLI(t, agents["a"].Bootstrap, nil, "topic", "create", "t", "--partitions", "6")
	at := func(zone string) string {
		return net.JoinHostPort(zonePlace("zone-"+zone).Host(), strconv.Itoa(zonePort+4))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(at("b")), kgo.ClientID("billing"), kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	leads := func(zones ...string) {
		t.Helper()
		harness.Await(t, fmt.Sprint("zones lead: ", zones), func() bool {
			m, err := admin.Metadata(t.Context(), "t")
			if err != nil || len(m.Topics["t"].Partitions) != 6 {
				return false
			}
			var led []string
			for _, p := range m.Topics["t"].Partitions {
				i := slices.IndexFunc(m.Brokers, func(b kadm.BrokerDetail) bool { return b.NodeID == p.Leader })
				if i < 0 {
					return false
				}
				b := m.Brokers[i]
				require.GreaterOrEqual(t, b.Port, int32(zonePort+4), "a port of zone b's listener")
				require.Less(t, b.Port, int32(zonePort+8), "a port of zone b's listener")
				require.Equal(t, zonePlace("zone-"+*b.Rack).Host(), b.Host)
				led = append(led, *b.Rack)
			}
			slices.Sort(led)
			return slices.Equal(slices.Compact(led), zones)
		})
	}
	write := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range 6 {
			require.NoError(t, client.ProduceSync(ctx, kgo.StringRecord(strconv.Itoa(i))).FirstErr())
		}
	}
	leads("b")
	write()
	agents["b"].Kill() // and with it the client's only seed
	write()
	leads("a", "c")
	write()
	agents["b"].Launch()
	agents["b"].AwaitReady()
	leads("b")
	write()
	unknown, err := agents["a"].Metric("freshet_kafka_clients_of_unknown_zone")
	require.NoError(t, err)
	require.Equal(t, 1.0, unknown, "the command that created the topic, by the default listener")
}

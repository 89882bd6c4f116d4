package zones

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	// firstZonePort is the first port of the first zone's listener, portsPerZone the number of ports of each listener.
	firstZonePort, portsPerZone = 9192, 4
	// settling is the time from the readiness of a zone's agents until the checks of that zone start again. It has room for a metadata age, a
	// heartbeat (3 s) that finds the new coordinator, and the idle second after which connections to other zones close, on a busy machine.
	settling = metadataAge + 3*time.Second + time.Second + 10*time.Second
	// watched is the length of the checks before a zone loses its agents, and after it has agents again.
	watched = 10 * time.Second
	// going is the number of records that each client writes and reads to show that it works.
	going = 100
)

// breakListeners is the value of FRESHET_BREAK with which the port of each zone belongs to the next zone. The test then fails.
const breakListeners = "listener-zone"

// ports is a cluster whose clients come by the ports of their zones.
type ports struct {
	*testing.T
	net     *namespaces
	cluster *harness.Cluster
	clients []*portClient
	watcher *watcher
}

// TestZones_Ports runs clients of several libraries that come by the port of their zone and name no zone. The first zone is scaled to no
// agents, and later gets new agents at other addresses. While a zone has agents, agents of the zone lead and coordinate at its port, and its
// clients exchange no records with other zones. While it has none, its clients go on in other zones. No acknowledged record is lost.
func TestZones_Ports(t *testing.T) {
	if os.Getenv("FRESHET_ZONES") == "" {
		nightly.Only(t, "runs twenty clients for more than a minute; make zones runs it too")
	}
	n, err := newNamespaces(t)
	if err != nil {
		t.Skipf("network namespaces are not allowed here: %v", err)
	}
	p := startPorts(t, n)
	p.calm("all zones have agents", zones, func() { time.Sleep(watched) }) // sleeps: the time that is measured
	p.calm("zone-a has none", zones[1:], func() {
		p.lose()
		p.restore()
	})
	p.calm("zone-a has agents again", zones, func() { time.Sleep(watched) }) // sleeps: the time that is measured
	p.finish()
}

// startPorts starts agents and clients, and returns when each client has worked.
func startPorts(t *testing.T, n *namespaces) *ports {
	t.Helper()
	p := &ports{T: t, net: n}
	p.cluster = start(t, n, p.listeners)
	var keys []string
	for _, zone := range zones {
		for _, l := range portLibraries(t, zone) {
			c := newPortClient(t, l, zone, n.place(zone, 0), p.bootstrap(zone))
			p.clients, keys = append(p.clients, c), append(keys, c.name)
		}
	}
	p.watcher = newWatcher(t, keys)
	for _, a := range p.cluster.Agents {
		p.watch(a)
	}
	for _, c := range p.clients {
		c.consumer.Launch()
		c.producer.Launch()
	}
	p.progress("all zones have agents")
	return p
}

// listeners returns the flags of an agent for the zones' ports.
func (p *ports) listeners(agent string) []string {
	order := slices.Clone(zones)
	if os.Getenv("FRESHET_BREAK") == breakListeners {
		order = append(order[1:], order[0])
	}
	return []string{"--zone-listeners", p.port(agent, zones[0]) + "=" + strings.Join(order, ",")}
}

// port returns the address of a zone's port at an agent.
func (p *ports) port(agent, zone string) string {
	return net.JoinHostPort(p.net.place(home(agent)).Host(), strconv.Itoa(firstZonePort+portsPerZone*slices.Index(zones, zone)))
}

// bootstrap returns the addresses of a zone's agents at the zone's port.
func (p *ports) bootstrap(zone string) string {
	var all []string
	for _, a := range p.running(zone) {
		all = append(all, p.port(a.Name, zone))
	}
	return strings.Join(all, ",")
}

// running returns the running agents of some zones.
func (p *ports) running(of ...string) (all []*harness.Agent) {
	for _, a := range p.cluster.Agents {
		if a.Running() && slices.Contains(of, a.Zone) {
			all = append(all, a)
		}
	}
	return all
}

// watch starts the requests to an agent at all zones' ports.
func (p *ports) watch(a *harness.Agent) {
	for _, zone := range zones {
		p.watcher.watch(p.T, a.Name, p.net.place(home(a.Name)), zone, p.port(a.Name, zone))
	}
}

// progress waits until every client has written and read more records.
func (p *ports) progress(when string) {
	p.Helper()
	before := make(map[*words]int)
	for _, c := range p.clients {
		before[c.acked], _ = c.acked.count()
		before[c.read], _ = c.read.count()
	}
	more := func(w *words) bool {
		n, _ := w.count()
		return n >= before[w]+going
	}
	for _, c := range p.clients {
		harness.Await(p, when+": "+c.name+" works", func() bool {
			require.True(p, c.consumer.Running(), "the consumer of %s ended\n%s", c.name, c.consumer.Output())
			require.True(p, c.ended || c.producer.Running(), "the producer of %s ended\n%s", c.name, c.producer.Output())
			return more(c.read) && (c.ended || more(c.acked))
		})
	}
}

// calm calls during and then checks some zones, which had agents all the while: at each port of these zones, every leader and coordinator
// was of the port's zone; their clients exchanged no records with other zones; and no record crossed the links between them.
func (p *ports) calm(when string, homes []string, during func()) {
	p.Helper()
	began, before := time.Now(), p.net.count()
	crossings := startCrossings(p.T, p.net, homes)
	during()
	took, after := time.Since(began), p.net.count()
	flows := crossings.stop()
	agents := p.running(zones...)
	m := after.since(before)
	fmt.Fprintf(p.Output(), "\n%s, %s:\n", when, took.Round(100*time.Millisecond))
	m.print(p.Output())
	for _, zone := range homes {
		answers := p.watcher.during(zone, began, began.Add(took))
		p.Logf("%s: %d answers with leaders and coordinators", zone, len(answers))
		require.NoError(p, checkAnswers(answers, agents), when)
	}
	require.NoError(p, checkFlows(flows, p.clients, took), when)
	for i, a := range homes {
		for _, b := range homes[i+1:] {
			require.Less(p, float64(m.both(a, b)), linkChatter*took.Seconds(), "%s: bytes between %s and %s", when, a, b)
		}
	}
}

// lose ends all agents of the first zone at once, as a zone that is scaled to none. Its clients go on in other zones.
func (p *ports) lose() {
	p.Helper()
	var ending sync.WaitGroup
	for _, a := range p.running(zones[0]) {
		ending.Go(func() {
			took, err := a.Terminate(time.Minute)
			if err != nil {
				p.Errorf("%s: %v", a.Name, err)
			}
			p.Logf("%s ended in %s", a.Name, took.Round(time.Millisecond))
		})
	}
	ending.Wait()
	began, before, records := time.Now(), p.net.count(), 0
	crossings := startCrossings(p.T, p.net, zones[:1])
	p.progress("zone-a has no agents")
	require.Error(p, checkFlows(crossings.stop(), p.clients, time.Since(began)), "records are seen in connections to other zones")
	for _, c := range p.clients {
		if c.zone == zones[0] {
			records += going
		}
	}
	m := p.net.count().since(before)
	across := m.both(zones[0], zones[1]) + m.both(zones[0], zones[2])
	p.Logf("clients of zone-a without agents: %s across", size(across))
	require.Greater(p, across, int64(records*portRecordBytes), "bytes between zone-a without agents and other zones")
}

// restore starts agents in the first zone, at new addresses as new pods have, and waits until its clients had time to return.
func (p *ports) restore() {
	p.Helper()
	for _, name := range []string{"agent-6", "agent-9"} { // of the first zone, by home
		a := p.cluster.NewAgentWith(p, name, append(p.listeners(name), "--put-budget", putBudget)...)
		p.net.belongs(a.Zone, a.Process)
		p.cluster.Agents = append(p.cluster.Agents, a)
		a.Launch()
		a.AwaitReady()
		p.watch(a)
	}
	time.Sleep(settling) // sleeps: the time that is not measured
}

// end ends a producer, whose records must all be acknowledged.
func (p *ports) end(c *portClient) {
	p.Helper()
	require.NoError(p, c.input.Close())
	harness.Await(p, "the producer of "+c.name+" ends", func() bool { return !c.producer.Running() })
	require.NoError(p, c.producer.Await(p.Context()))
	require.Empty(p, c.acked.gaveUp(), "records of %s without acknowledgement", c.name)
	c.ended = true
}

// finish ends all producers and waits until each group has read every acknowledged record.
func (p *ports) finish() {
	p.Helper()
	total := 0
	for _, c := range p.clients {
		if !c.ended {
			p.end(c)
		}
		acked, _ := c.acked.count()
		total += acked
	}
	for _, reader := range p.clients {
		harness.Await(p, reader.name+" has read all records", func() bool {
			n, _ := reader.read.count()
			return n >= total
		})
		for _, writer := range p.clients {
			n, example := reader.read.missing(writer.acked)
			require.Zero(p, n, "records of %s that %s has not read, such as %s", writer.name, reader.name, example)
		}
		different, all := reader.read.count()
		acked, _ := reader.acked.count()
		p.Logf("%-30s %6d records acknowledged, %6d read, %d of them again", reader.name, acked, different, all-different)
	}
}

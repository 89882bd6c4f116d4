package zones

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	agentsPerZone = 2
	// perSecond is what is produced in a zone, in records.
	perSecond  = 16 << 10
	partitions = 12
	// slack is how many times as long as its rate says a run may take, beyond starting: the machine may be busy.
	slack    = 15
	starting = 3 * time.Minute
	// controlShare bounds what a zone and the control plane say to each other, of the bytes that are produced in the zone.
	controlShare = 0.005
	// controlRate is what an agent and the control plane say to each other in a second however little is written: ten probes
	// and stamps while fetches come and go, and a notice of a few bundles. A run that a busy machine stretches has more of them.
	controlRate = 5 << 10
	// storeShare bounds what zone and store say to each other beyond each record put once by its zone, and got once by
	// each other zone: headers, acknowledgements, a GET of what left memory before everybody had it.
	storeShare = 0.15
	// leaked is how much a client reads in another zone, in records, to show that it is seen.
	leaked = 1024
)

// TestZones counts in network namespaces, or by loopback address where namespaces are not allowed. FRESHET_ZONES is how much
// is produced in each zone.
func TestZones(t *testing.T) {
	amount := config.Bytes(64 << 20)
	if s := os.Getenv("FRESHET_ZONES"); s != "" {
		var err error
		amount, err = config.ParseBytes(s)
		require.NoError(t, err)
	}
	measure(t, newNetwork(t, forcedLoopback()), int64(amount))
}

// TestZones_Loopback counts the same in the way that needs no namespaces.
func TestZones_Loopback(t *testing.T) {
	nightly.Only(t, "TestZones counts the same, and takes this way itself where namespaces are not allowed")
	measure(t, newNetwork(t, true), 16<<20)
}

// measure produces and consumes in every zone and checks who said how much to whom.
func measure(t *testing.T, n network, amount int64) {
	t.Helper()
	l := load{records: amount / recordBytes, perSecond: perSecond}
	c := start(t, n, nil)
	began, before := time.Now(), n.count()
	work(t, n, c, l)
	m, took := n.count().since(before), time.Since(began)
	hasty := haste(t, c)
	report(t.Output(), n, m, l, took, hasty)
	checkSilence(t, m)
	checkControl(t, m, l, took)
	checkStore(t, m, l, hasty)
	checkLeakIsSeen(t, n, c)
}

// putBudget is the agents' --put-budget, as at a store that bills requests: each PUT is a commit at the control plane.
const putBudget = "4"

// start runs a cluster with a topic. flagsOf returns further flags of an agent, or is nil. Jobs are off, because compaction gets and puts
// the same records again.
func start(t *testing.T, n network, flagsOf func(agent string) []string) *harness.Cluster {
	t.Helper()
	c := harness.NewCluster(t, harness.ClusterConfig{
		Agents: agentsPerZone * len(zones), ControlPlanes: 1, Zones: zones,
		ControlFlags: []string{"--no-jobs"},
		AgentFlags:   []string{"--put-budget", putBudget},
		FlagsOf:      flagsOf,
		Place:        func(process string) testservers.Place { return n.place(home(process)) },
		Front: func(process, address string) string {
			node, _ := home(process)
			return n.front(node, address)
		},
	})
	n.belongs(control, c.ControlPlanes[0].Process)
	c.ControlPlanes[0].Launch()
	for _, a := range c.Agents {
		n.belongs(a.Zone, a.Process)
		a.Launch()
	}
	for _, a := range c.Agents {
		a.AwaitReady()
	}
	create := harness.FreshetAt(t, n.place(zones[0], 0), "create", "topic", "create", topic,
		"--partitions", strconv.Itoa(partitions), "--bootstrap-server", c.Agents[0].Bootstrap)
	run(t, n, zones[0], create)
	return c
}

// run runs a zone's client to its end.
func run(t *testing.T, n network, zone string, p *testservers.Process) {
	t.Helper()
	n.belongs(zone, p)
	p.Launch()
	ctx, cancel := context.WithTimeout(t.Context(), testservers.Ready)
	defer cancel()
	require.NoError(t, p.Await(ctx))
}

// work runs the clients of all zones.
func work(t *testing.T, n network, c *harness.Cluster, l load) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), starting+slack*l.duration())
	defer cancel()
	var all []zoneClients
	for i, zone := range zones {
		clients := newClients(t, zone, n.place(zone, 0), c.Agents[i].Bootstrap, l)
		n.belongs(zone, clients.consumer)
		n.belongs(zone, clients.producer)
		clients.consumer.Launch()
		all = append(all, clients)
	}
	awaitReaders(ctx, t, c)
	for _, clients := range all {
		clients.producer.Launch()
	}
	for _, clients := range all {
		require.NoError(t, clients.producer.Await(ctx))
	}
	for _, clients := range all {
		require.NoError(t, clients.consumer.Await(ctx))
		clients.check(t)
	}
}

// awaitReaders waits until a fetch waits at every agent: what is written then is read from memory.
func awaitReaders(ctx context.Context, t *testing.T, c *harness.Cluster) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for _, a := range c.Agents {
		for parked := 0.0; parked == 0; {
			select {
			case <-poll.C:
			case <-ctx.Done():
				require.Fail(t, "nobody reads", a.Name)
			}
			var err error
			parked, err = a.Metric("freshet_view_parked_fetches")
			require.NoError(t, err)
		}
	}
}

// report prints the matrix and what is promised of it.
func report(w io.Writer, n network, m matrix, l load, took time.Duration, hasty map[string]int) {
	fmt.Fprintf(w, "\n%s\n%s of records of %d bytes produced in each of %d zones, all of them consumed in each, in %s (%s at the rate asked for):\n\n",
		n, size(l.bytes()), recordBytes, len(zones), took.Round(100*time.Millisecond), l.duration())
	m.print(w)
	fmt.Fprintln(w)
	for _, zone := range zones {
		own := float64(l.bytes())
		fmt.Fprintf(w, "%s: control plane %.3f %% of its records (%.3f %% up, %.3f %% down); put %.2f, got %.2f times its records; "+
			"%d requests made because others took long\n", zone,
			100*float64(m.both(zone, control))/own, 100*float64(m[zone][control])/own, 100*float64(m[control][zone])/own,
			float64(m[zone][store])/own, float64(m[store][zone])/own, hasty[zone])
	}
}

// checkSilence: zones say nothing to each other, and nothing to etcd.
func checkSilence(t *testing.T, m matrix) {
	t.Helper()
	for i, a := range zones {
		for _, b := range append(zones[i+1:], etcd) {
			require.Zero(t, m.both(a, b), "%s and %s", a, b)
		}
	}
}

// checkControl: agents and control plane speak of records, not in them.
func checkControl(t *testing.T, m matrix, l load, took time.Duration) {
	t.Helper()
	late := max(took-l.duration(), 0).Seconds()
	for _, zone := range zones {
		require.Positive(t, m[zone][control])
		require.Less(t, float64(m.both(zone, control)), controlShare*float64(l.bytes())+controlRate*agentsPerZone*late,
			"%s and the control plane", zone)
	}
	require.Less(t, float64(m.both(control, store)), controlShare*float64(l.bytes()), "snapshots")
}

// checkStore: each record is put once, by its zone, and got once by every other one. On a machine that is too busy for agents to
// wait for each other and for the store, each gets for itself and puts again; then there is no upper bound to check.
func checkStore(t *testing.T, m matrix, l load, hasty map[string]int) {
	t.Helper()
	others := int64(len(zones) - 1)
	for _, zone := range zones {
		require.GreaterOrEqual(t, m[zone][store], l.bytes(), "put by %s", zone)
		require.GreaterOrEqual(t, m[store][zone], others*l.bytes(), "got by %s", zone)
		if hasty[zone] > 0 {
			t.Logf("not checked: that %s puts and gets each record once at most", zone)
			continue
		}
		require.Less(t, float64(m[zone][store]), (1+storeShare)*float64(l.bytes()), "put by %s", zone)
		require.Less(t, float64(m[store][zone]), (1+storeShare)*float64(others*l.bytes()), "got by %s", zone)
	}
}

// haste counts, by zone, what its agents asked the store because another agent did not answer in time, asked it again because
// it did not, and asked for readers who had fallen behind.
func haste(t *testing.T, c *harness.Cluster) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for _, a := range c.Agents {
		for _, series := range [][]string{
			{"freshet_peer_fallbacks_total"},
			{"freshet_objstore_hedges_total"},
			{"freshet_writer_put_retries_total"},
			{"freshet_cache_gets_total", `class="catch_up"`},
		} {
			n, err := a.Metric(series[0], series[1:]...)
			require.NoError(t, err)
			counts[a.Zone] += int(n)
		}
	}
	return counts
}

// checkLeakIsSeen: a client that reads in another zone is counted.
func checkLeakIsSeen(t *testing.T, n network, c *harness.Cluster) {
	t.Helper()
	before, from, to := n.count(), zones[1], zones[0]
	p := harness.KcatAt(t, n.place(to, 0), "stray", "-C", "-q", "-b", c.Agents[1].Bootstrap, "-t", topic, "-o", "beginning",
		"-c", strconv.Itoa(leaked))
	run(t, n, to, p)
	require.GreaterOrEqual(t, n.count().since(before)[from][to], int64(leaked*recordBytes))
}

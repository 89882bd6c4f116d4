package tco

import (
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// One zone, one agent, no compaction: every line can be worked out by hand.
func TestBill_SmallestWorkloadByHand(t *testing.T) {
	lines := bill(t, func(w *Workload) {
		w.Throughput, w.Zones, w.Fanout, w.Rewrites, w.Retention = 80<<20, 1, 2, -1, 24*time.Hour
		w.Instance, w.ControlReplicas, w.MinAgents, w.HedgedPuts = "m6in.4xlarge", 1, 1, 0
	})
	for name, want := range map[string]string{
		"on the wire":                "80",
		"bundles":                    "10",       // 80 MiB/s / 8 MiB
		"live reads":                 "0",        // no other zone
		"agents":                     "813.1032", // 730 x 1.11384
		"control plane":              "59.568",   // 730 x 0.0816
		"disks of etcd":              "1.28",     // 16 x 0.08
		"PUT of bundles":             "131.4",    // 10 x 2,628,000 x 0.000005
		"compaction, requests":       "0",
		"control plane across zones": "0",
		"stored":                     "6820.3125", // 80 x (86,400 + 900) / 1,024
		"storage":                    "156.8669",  // 6,820.3 x 0.023
		"total":                      "1162.22",
	} {
		require.Equal(t, want, lines[name].Computed.String(), name)
	}
}

func TestBill_PutsFollowBytesZonesAndTime(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*Workload)
		puts   string
	}{
		{"idle: the budget of every zone", func(w *Workload) { w.Throughput = 1 << 10 }, "12"},
		{"loaded: full bundles", func(w *Workload) { w.Throughput = 768 << 20 }, "96"},
		{"smaller bundles", func(w *Workload) { w.Throughput, w.BundleBytes = 768<<20, 4<<20 }, "192"},
		{"a shorter flush interval", func(w *Workload) { w.Throughput, w.FlushInterval = 1<<20, 50*time.Millisecond }, "60"},
		{"compressed", func(w *Workload) { w.Throughput, w.CompressionRatio = 768<<20, 4 }, "24"},
		{"each agent for itself", func(w *Workload) { w.Throughput, w.Sharing, w.MinAgents = 1<<20, ShareAgent, 3 }, "36"},
	} {
		require.Equal(t, c.puts, bill(t, c.change)["bundles"].Computed.String(), c.what)
	}
}

func TestBill_ReadersCostGetsAndCPUNotRequestsPerGroup(t *testing.T) {
	one := bill(t, func(w *Workload) { w.Fanout, w.Instance = 1, "r6i.large" })
	five := bill(t, func(w *Workload) { w.Fanout, w.Instance = 5, "r6i.large" })
	none := bill(t, func(w *Workload) { w.Fanout = -1 })
	require.Equal(t, one["live reads"].Computed.String(), five["live reads"].Computed.String())
	require.True(t, none["live reads"].Computed.IsZero())
	require.True(t, five["agents"].Computed.GreaterThan(one["agents"].Computed))
	alone := bill(t, func(w *Workload) { w.Sharing, w.MinAgents, w.Instance = ShareAgent, 2, "m6in.4xlarge" })
	require.Equal(t, alone["bundles"].Shown().Mul(decimal.NewFromInt(5)).String(), alone["live reads"].Computed.String(), "five of six agents read each bundle")
}

func TestBill_ExpressChargesBytes(t *testing.T) {
	lines := bill(t, func(w *Workload) {
		w.Throughput, w.Zones, w.Rewrites, w.Store, w.Copies, w.HedgedPuts = 64<<20, 2, -1, S3Express, 2, 0
	})
	// 64 MiB/s in two copies for a month are 328,500 GiB; half of it is read, once, by the other zone.
	require.Equal(t, "1051.2", lines["Express, bytes in"].Computed.String())
	require.Equal(t, "98.55", lines["Express, bytes out"].Computed.String())
	require.Equal(t, "47.51424", lines["PUT of bundles"].Computed.String()) // 8/s x 2 x 2,628,000 x 0.00000113
	require.Contains(t, lines["storage"].Formula, "$0.11/GB-month")
}

func TestBill_KeysAndGateways(t *testing.T) {
	plain := bill(t, func(*Workload) {})
	require.True(t, plain["KMS"].Computed.IsZero())
	require.True(t, plain["way to the object store"].Computed.IsZero())
	keyed := bill(t, func(w *Workload) { w.KMS, w.Endpoint = KMSBucketKeys, EndpointNAT })
	every := bill(t, func(w *Workload) { w.KMS = KMSObjects })
	one := decimal.NewFromInt(1)
	require.True(t, every["KMS"].Computed.Sub(one).Div(keyed["KMS"].Computed.Sub(one)).Equal(decimal.NewFromInt(100)))
	require.Contains(t, keyed["way to the object store"].Formula, "$0.045/GB")
}

// The formula of a sum names the lines' own figures, and the total is what they add up to.
func TestBill_TotalIsTheSumOfItsLines(t *testing.T) {
	w := Workload{}
	w.ApplyDefaults()
	table, err := Bill("x", w, prices(t))
	require.NoError(t, err)
	sum := decimal.Zero
	for _, l := range table.Lines {
		if l.Unit == USDMonth && l.Name != "total" && l.Name != "without storage" {
			sum = sum.Add(l.Shown())
		}
	}
	for _, l := range table.Lines {
		if l.Name == "total" {
			require.Equal(t, sum.String(), l.Computed.String())
			require.Equal(t, strings.Count(l.Formula, "$"), strings.Count(l.Formula, "+")+1)
		}
	}
}

func TestElasticDay_HasItsMeanAndPeaks(t *testing.T) {
	w := Workload{Phases: elasticDay()}
	w.ApplyDefaults()
	require.NoError(t, w.Validate())
	require.InDelta(t, 80.0, w.meanThroughput()/mib, 1e-9)
	var peak, hours float64
	for _, p := range w.Phases {
		peak = max(peak, p.Peak)
		hours += p.Hours
	}
	require.InDelta(t, 1200.0, peak/mib, 1e-9)
	require.InDelta(t, 24.0, hours, 1e-9)
}

func TestSizer_AgentsGrowWithTheResourceThatBinds(t *testing.T) {
	cpu := catalog.CPU{Produce: decimal.NewFromInt(1), Fetch: decimal.NewFromInt(1), Get: decimal.NewFromInt(1)}
	for _, c := range []struct {
		instance catalog.Instance
		groups   float64
		agents   int
		binds    string
	}{
		// One zone, one group, 1 GiB/s: 2 CPU seconds, 1 GiB in and out a second, 5 GiB to be held; half stays free.
		{catalog.Instance{VCPU: 4, Gbps: 100, MemoryGiB: 100}, 1, 1, "the least a zone has"},
		{catalog.Instance{VCPU: 1, Gbps: 1000, MemoryGiB: 1000}, 1, 8, "CPU"}, // with what they pass on to one another 2 + 2 (n-1)/n
		{catalog.Instance{VCPU: 4, Gbps: 100, MemoryGiB: 5}, -1, 3, "memory"},
		{catalog.Instance{VCPU: 100, Gbps: 8.589934592, MemoryGiB: 1000}, 1, 6, "network"}, // out: 2 + (n-1)/n
	} {
		w := Workload{Throughput: 1 << 30, Zones: 1, Fanout: c.groups, Setup: Setup{MinAgents: 1, NetworkHeadroom: 0.5}}
		w.ApplyDefaults()
		n, binds, err := newSizer(&w, c.instance, cpu).agents(1 << 30)
		require.NoError(t, err)
		require.Equal(t, c.binds, binds)
		require.Equal(t, c.agents, n, c.binds)
	}
	// What is read is in each agent's memory, so that more agents do not help.
	w := Workload{Throughput: 1 << 30}
	w.ApplyDefaults()
	_, _, err := newSizer(&w, catalog.Instance{VCPU: 4, Gbps: 100, MemoryGiB: 8}, cpu).agents(1 << 30)
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestBill_TooLargeForTheInstance(t *testing.T) {
	w := Workload{Throughput: 1 << 49}
	w.ApplyDefaults()
	_, err := Bill("x", w, prices(t))
	require.ErrorIs(t, err, ErrTooLarge)
}

func prices(t *testing.T) *catalog.Prices {
	t.Helper()
	p, err := catalog.LoadPrices("")
	require.NoError(t, err)
	return p
}

// bill is the default workload with a change, by line.
func bill(t *testing.T, change func(*Workload)) map[string]Line {
	t.Helper()
	w := Workload{}
	w.ApplyDefaults()
	change(&w)
	require.NoError(t, w.Validate())
	table, err := Bill("x", w, prices(t))
	require.NoError(t, err)
	lines := map[string]Line{}
	for _, l := range table.Lines {
		lines[l.Name] = l
	}
	return lines
}

func TestBill_CompactionReadsBundlesAndObjects(t *testing.T) {
	for _, c := range []struct {
		rewrites int
		want     string
	}{
		{-1, "0"},
		{1, "64"}, // bundles of 8 MiB
		{3, "68"}, // besides 512 MiB/s twice, in objects of 512 MiB that two jobs read
	} {
		lines := bill(t, func(w *Workload) { w.Throughput, w.Rewrites = 512<<20, c.rewrites })
		require.Equal(t, c.want, lines["compaction, read"].Computed.String(), "%d rewrites", c.rewrites)
	}
	// An object of 512 MiB takes eight parts, and two requests around them; one of 64 MiB is a plain PUT. Where an agent has
	// 4 GiB of memory, parts have 49 MiB.
	for _, c := range []struct {
		instance string
		object   int64
		want     string
	}{{"m6in.4xlarge", 512 << 20, "5"}, {"m6in.4xlarge", 64 << 20, "4"}, {"c7gn.large", 512 << 20, "6.5"}} {
		lines := bill(t, func(w *Workload) {
			w.Throughput, w.Rewrites, w.Instance, w.ObjectBytes = 256<<20, 1, c.instance, c.object
		})
		require.Equal(t, c.want, lines["compaction, written"].Computed.String(), "%+v", c)
	}
}

package model

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

func TestRun_PlainOutput(t *testing.T) {
	var out strings.Builder
	c := Config{Out: &out}
	c.ApplyDefaults()
	require.NoError(t, Run(c))
	golden(t, "plain.txt", out.String())
}

// The Java producer was measured over the object store's model (bench/results/2026-11-21-latency.md): it comes close to
// the bound and stays below it.
func TestLoad_BoundsWhatWasMeasured(t *testing.T) {
	for _, c := range []struct {
		client   string
		ports    int
		measured float64 // MiB/s
	}{
		{"java", 4, 3.4}, {"java", 1, 3.4}, {"java-tuned", 4, 22.9}, {"java-tuned", 1, 16.7},
	} {
		got := bound(t, c.client, "freshet", Load{Partitions: 12, Agents: 1, Ports: c.ports, RecordBytes: 1024, Rate: mib}).Rate / mib
		require.GreaterOrEqual(t, got, c.measured, "%s, %d ports", c.client, c.ports)
		require.InEpsilon(t, c.measured, got, 0.2, "%s, %d ports", c.client, c.ports)
	}
}

func TestLoad_WhatBinds(t *testing.T) {
	load := Load{Partitions: 12, Agents: 1, RecordBytes: 1024, Rate: 100 * mib}
	for _, c := range []struct {
		client, broker, binds string
		ports                 int // that lift it
		bytes                 float64
	}{
		{"java", "freshet", "batch.size", -1, 5 * 12 * 16 * kib},                     // a batch of each partition, over however many ports
		{"java-tuned", "warpstream", "max.request.size", -1, 5 * mib},                // ports lift the request's bound, but not to this
		{"java-tuned", "kafka", "max.request.size", 1, 1 * mib},                      // one request at a time is enough within 2 ms
		{"librdkafka", "freshet", "queue.buffering.max.messages", 4, 100_000 * 1024}, // the agent's own four: it is enough
		{"librdkafka-idempotent", "warpstream", "batch.size", -1, 5_000_000},         // one partition a request, five requests
		{"librdkafka-idempotent", "freshet", "batch.size", -1, 12 * 1_000_000},       // a batch of each partition
		{"franz-go", "freshet", "MaxBufferedRecords", -1, 10_000 * 1024},
	} {
		b := bound(t, c.client, c.broker, load)
		require.Equal(t, c.binds, b.Binds, "%s at %s", c.client, c.broker)
		require.InDelta(t, c.bytes, b.Bytes, 1, "%s at %s", c.client, c.broker)
		require.Equal(t, c.ports, b.Ports, "%s at %s", c.client, c.broker)
	}
}

// What the table says would lift the bound does.
func TestLoad_TheSettingsProducersAndPortsThatItNamesReachTheRate(t *testing.T) {
	clients, brokers := all(t)
	load := Load{Partitions: 12, Agents: 2, RecordBytes: 1024, Rate: 200 * mib}
	lifted := 0
	for _, c := range clients {
		for _, b := range brokers {
			got := load.Of(c, b)
			require.GreaterOrEqual(t, float64(got.Producers)*got.Rate*(1+1e-9), float64(load.Rate), "%s at %s", c.Name, b.Name)
			if got.Enough {
				require.Empty(t, got.Set)
				continue
			}
			lifted++
			with := load
			with.Ports = got.Ports
			if got.Ports > 0 {
				require.True(t, with.Of(c, b).Enough, "%s at %s with %d ports", c.Name, b.Name, got.Ports)
			}
			require.True(t, load.Of(apply(t, c, got.Set), b).Enough, "%s at %s with %s", c.Name, b.Name, got.Set)
		}
	}
	require.Positive(t, lifted)
}

func TestMachine_TheScarceResourceBinds(t *testing.T) {
	cpu := catalog.CPU{Produce: decimal.NewFromInt(1), Fetch: decimal.NewFromInt(1), Get: decimal.NewFromInt(1)}
	m := Machine{Zones: 3, Fanout: 1, CPU: cpu} // 4 CPU-s/GiB; 3 bytes in, 2 out
	for _, c := range []struct {
		instance catalog.Instance
		binds    string
		mibs     float64
	}{
		{catalog.Instance{VCPU: 1, Gbps: 1000, MemoryGiB: 1000}, "CPU", 256},
		{catalog.Instance{VCPU: 100, Gbps: 8.589934592, MemoryGiB: 1000}, "network", 1024.0 / 3},
		{catalog.Instance{VCPU: 100, Gbps: 1000, MemoryGiB: 15}, "memory", 1024 * 15 * 0.4 / 10 / 3},
	} {
		got := m.Of(c.instance)
		require.Equal(t, c.binds, got.Binds)
		require.InDelta(t, c.mibs, got.Rate/mib, 1e-6, c.binds)
	}
	m.Fanout = 0 // nobody reads: no GETs
	require.InDelta(t, 1024.0, m.Of(catalog.Instance{VCPU: 1, Gbps: 1000, MemoryGiB: 1000}).Rate/mib, 1e-6)
}

func TestRun_JSONAndCSV(t *testing.T) {
	var out strings.Builder
	c := Config{Out: &out, Format: FormatJSON}
	c.ApplyDefaults()
	require.NoError(t, Run(c))
	var r Result
	require.NoError(t, json.Unmarshal([]byte(out.String()), &r))
	clients, brokers := all(t)
	require.Len(t, r.Bounds, len(clients)*len(brokers))
	require.GreaterOrEqual(t, len(r.Capacities), 4)
	for table, rows := range map[string]int{TableClients: len(r.Bounds), TableCapacity: len(r.Capacities)} {
		out.Reset()
		c.Format, c.Table = FormatCSV, table
		require.NoError(t, Run(c))
		records, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		require.NoError(t, err)
		require.Len(t, records, rows+1)
	}
}

func TestRun_AllFaultsAtOnce(t *testing.T) {
	c := Config{Format: FormatCSV, Clients: []string{"kcat"}, Brokers: []string{"redpanda"}, Instances: []string{"t2.micro"}, Shape: "Z"}
	c.ApplyDefaults()
	c.Load.Partitions, c.Machine.Zones, c.Load.Ports = 0, 99, -1
	err := Run(c)
	require.ErrorIs(t, err, ErrInvalid)
	for _, fault := range []string{
		"CSV is of one table", "partitions: 0 is not between 1 and", "zones: 99 is not between 1 and 16", "ports: -1 is not between",
		`clients: "kcat" is not one of java, `, `brokers: "redpanda" is not one of kafka, `, `instances: "t2.micro" is not one of c7gn.large, `,
		`unknown shape "Z"`,
	} {
		require.ErrorContains(t, err, fault)
	}
}

func all(t *testing.T) ([]Client, []Broker) {
	t.Helper()
	clients, err := Clients()
	require.NoError(t, err)
	brokers, err := Brokers()
	require.NoError(t, err)
	return clients, brokers
}

func bound(t *testing.T, client, broker string, l Load) Bound {
	t.Helper()
	clients, brokers := all(t)
	for _, c := range clients {
		for _, b := range brokers {
			if c.Name == client && b.Name == broker {
				return l.Of(c, b)
			}
		}
	}
	t.Fatalf("no client %s or broker %s", client, broker)
	return Bound{}
}

// apply sets a client as Bound.Set says.
func apply(t *testing.T, c Client, set string) Client {
	t.Helper()
	for assignment := range strings.FieldsSeq(set) {
		name, text, ok := strings.Cut(assignment, "=")
		require.True(t, ok, assignment)
		value := decimal.RequireFromString(text).IntPart()
		switch name {
		case c.Settings.Batch:
			c.BatchBytes = value
		case c.Settings.Request:
			c.RequestBytes = value
		case c.Settings.Records:
			c.BufferRecords = value
		case c.Settings.Buffer:
			if strings.HasSuffix(name, ".kbytes") {
				value *= kib
			}
			c.BufferBytes = value
		default:
			t.Fatalf("%s has no setting %s", c.Name, name)
		}
	}
	return c
}

// golden compares with a file, which UPDATE_GOLDEN=1 writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

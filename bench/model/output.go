package model

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// write prints the tables for people, with where their numbers are from.
func (r *Result) write(w io.Writer, c *Config) {
	if len(r.Bounds) > 0 {
		r.writeBounds(w, c)
	}
	if len(r.Bounds) > 0 && len(r.Capacities) > 0 {
		fmt.Fprintln(w)
	}
	if len(r.Capacities) > 0 {
		r.writeCapacities(w, c)
	}
}

func (r *Result) writeBounds(w io.Writer, c *Config) {
	fmt.Fprintf(w, "One producer, %d partitions, agents or brokers: %d; MiB/s = connections x requests in flight x request / latency; wanted: %s\n",
		c.Load.Partitions, c.Load.Agents, mibs(float64(c.Load.Rate)))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "client\tbroker\tconns\tin flight\trequest KiB\tin flight KiB\tlatency ms\tMiB/s\tat p99\tbinds\tproducers\tports\t  or set")
	for _, b := range r.Bounds {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", b.Client, b.Broker, b.Connections, b.InFlight,
			b.Request/kib, b.Bytes/kib, number(b.LatencyMs), mibs(b.Rate), orDash(b.RateP99), b.Binds, b.producers(), b.ports(), b.Set)
	}
	t.Flush()
	fmt.Fprintln(w, "  a bound, not a forecast: CPU and network of clients and brokers bind long before the largest of these")
	fmt.Fprintln(w, "  producers, ports (node ids of each agent), settings: any one of the three reaches the wanted rate; \"none\": no number of ports does")
	for _, client := range r.clients {
		fmt.Fprintf(w, "  %s: %s; version %s; %s\n", client.Name, client.What, client.Version, client.Source)
	}
	for _, b := range r.brokers {
		fmt.Fprintf(w, "  %s: %s; %s: %s\n", b.Name, b.What, b.How, b.Source)
	}
}

func (b Bound) producers() string {
	if b.Enough {
		return "enough"
	}
	return strconv.Itoa(b.Producers)
}

func (b Bound) ports() string {
	switch {
	case b.Enough:
		return ""
	case b.Ports < 0:
		return "none"
	default:
		return strconv.Itoa(b.Ports)
	}
}

func (r *Result) writeCapacities(w io.Writer, c *Config) {
	m := c.Machine
	fmt.Fprintf(w, "One agent of each of %d zones, fan-out %v: MiB/s produced to it; %.0f %% of CPU and %.0f %% of network stay free\n",
		m.Zones, m.Fanout, m.CPUHeadroom*100, m.NetworkHeadroom*100)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "instance\tvCPU\tGiB\tGbit/s\tby CPU\tby network\tby memory\tMiB/s\tbinds\tUSD/h\t")
	for _, i := range r.Capacities {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", i.Instance, i.VCPU, i.MemoryGiB, number(i.Gbps),
			mibs(i.ByCPU), mibs(i.ByNetwork), mibs(i.ByMemory), mibs(i.Rate), i.Binds, i.USDPerHour)
	}
	t.Flush()
	fmt.Fprintf(w, "  CPU: shape %s of %s, measured; reading from the store %s CPU-s/GiB, not measured\n", c.Shape, r.measured.Source, r.measured.GetAmount)
	fmt.Fprintf(w, "  memory: %.0f %% hold %.0f s of all zones' records, %.0f %% what waits %.0f s for its PUT and commit\n",
		cacheShare*100, cacheSeconds, slabShare*100, slabSeconds)
	fmt.Fprintf(w, "  instances: %s\n", r.source)
}

// writeCSV writes the one table there is.
func (r *Result) writeCSV(w io.Writer) error {
	var records [][]string
	if len(r.Bounds) > 0 {
		records = append(records, []string{
			"client", "broker", "connections", "requests_in_flight", "request_bytes", "bytes_in_flight", "latency_ms",
			"bytes_per_second", "bytes_per_second_at_p99", "binds", "enough", "producers", "ports", "set",
		})
		for _, b := range r.Bounds {
			records = append(records, []string{
				b.Client, b.Broker, strconv.Itoa(b.Connections), strconv.FormatInt(b.InFlight, 10), whole(b.Request), whole(b.Bytes), number(b.LatencyMs),
				whole(b.Rate), whole(b.RateP99), b.Binds, strconv.FormatBool(b.Enough), strconv.Itoa(b.Producers), strconv.Itoa(b.Ports), b.Set,
			})
		}
	}
	if len(r.Capacities) > 0 {
		records = append(records, []string{"instance", "vcpu", "memory_gib", "gbps", "by_cpu", "by_network", "by_memory", "bytes_per_second", "binds", "usd_per_hour"})
		for _, i := range r.Capacities {
			records = append(records, []string{
				i.Instance, strconv.Itoa(i.VCPU), strconv.Itoa(i.MemoryGiB), number(i.Gbps), whole(i.ByCPU), whole(i.ByNetwork), whole(i.ByMemory),
				whole(i.Rate), i.Binds, i.USDPerHour,
			})
		}
	}
	c := csv.NewWriter(w)
	if err := c.WriteAll(records); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func mibs(bytes float64) string { return strconv.FormatFloat(bytes/mib, 'f', 1, 64) }
func whole(v float64) string    { return strconv.FormatFloat(v, 'f', 0, 64) }
func number(v float64) string   { return strconv.FormatFloat(v, 'f', -1, 64) }

func orDash(bytes float64) string {
	if bytes == 0 {
		return "-"
	}
	return mibs(bytes)
}

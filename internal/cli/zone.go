package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"text/tabwriter"
)

// zone is a zone as the control plane tells it.
type zone struct {
	Zone        string  `json:"zone"`
	Desired     *int    `json:"desired_replicas"`
	Agents      int     `json:"agents"`
	Utilization float64 `json:"utilization"`
	Reason      string  `json:"reason"`
	Loads       []struct {
		Session     uint32  `json:"session"`
		Utilization float64 `json:"utilization"`
		CPU         float64 `json:"cpu"`
		Network     float64 `json:"network"`
		Buffers     float64 `json:"buffers"`
		Produce     float64 `json:"produce_bytes_per_second"`
	} `json:"loads"`
}

// ListZones writes how busy zones are and how many agents they should have, as a table or as the control plane's JSON.
// With agents the table has a line for each agent too.
func ListZones(ctx context.Context, c OperatorConfig, asJSON, agents bool, s Streams) error {
	if err := c.complete(); err != nil {
		return err
	}
	var answer struct {
		Zones []json.RawMessage `json:"zones"`
	}
	if err := c.ask(ctx, http.MethodGet, "/zones", &answer); err != nil {
		return err
	}
	if asJSON {
		out := json.NewEncoder(s.Out)
		out.SetIndent("", "  ")
		return out.Encode(answer.Zones)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ZONE\tAGENTS\tDESIRED\tUTILIZATION\tCPU\tNETWORK\tBUFFERS\tPRODUCED\tREASON")
	for _, raw := range answer.Zones {
		var z zone
		if err := json.Unmarshal(raw, &z); err != nil {
			return fmt.Errorf("a zone in the answer: %w", err)
		}
		z.print(w, agents)
	}
	return w.Flush()
}

// print writes the zone's line, with its agents' most used resources, and theirs.
func (z *zone) print(w *tabwriter.Writer, agents bool) {
	name, desired := z.Zone, "-"
	if name == "" {
		name = "(none)"
	}
	if z.Desired != nil {
		desired = strconv.Itoa(*z.Desired)
	}
	var cpu, network, buffers, produce float64
	for _, l := range z.Loads {
		cpu, network, buffers = max(cpu, l.CPU), max(network, l.Network), max(buffers, l.Buffers)
		produce += l.Produce
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
		name, z.Agents, desired, percent(z.Utilization), percent(cpu), percent(network), percent(buffers), rate(produce), z.Reason)
	if !agents {
		return
	}
	for _, l := range z.Loads {
		fmt.Fprintf(w, "  session %d\t\t\t%s\t%s\t%s\t%s\t%s\t\n",
			l.Session, percent(l.Utilization), percent(l.CPU), percent(l.Network), percent(l.Buffers), rate(l.Produce))
	}
}

func percent(share float64) string { return strconv.FormatFloat(share*100, 'f', 0, 64) + "%" }

func rate(bytesPerSecond float64) string {
	return strconv.FormatFloat(bytesPerSecond/(1<<20), 'f', 1, 64) + " MiB/s"
}

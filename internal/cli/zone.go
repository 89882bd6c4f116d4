package cli

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
)

// zone is a zone in the control plane's answer.
type zone struct {
	Zone        string  `json:"zone"`
	Desired     *int    `json:"desired_replicas"`
	Agents      int     `json:"agents"`
	Utilization float64 `json:"utilization"`
	Load        float64 `json:"load"`
	Loads       []struct {
		Session     uint32  `json:"session"`
		Utilization float64 `json:"utilization"`
		CPU         float64 `json:"cpu"`
		Network     float64 `json:"network"`
		Buffers     float64 `json:"buffers"`
		Produce     float64 `json:"produce_bytes_per_second"`
	} `json:"loads"`
}

// ListZones writes the utilization of zones and the number of agents they should have, as a table or as the control plane's JSON.
// With agents, the table has a line for each agent too.
func ListZones(ctx context.Context, c OperatorConfig, agents bool, s Streams) error {
	return listing(ctx, c, "/zones", "zones", "ZONE\tAGENTS\tDESIRED\tUTILIZATION\tLOAD\tCPU\tNETWORK\tBUFFERS\tPRODUCED",
		"no agent has reported to the owner of the metadata yet; `freshet status` lists agents and faults",
		func(w *tabwriter.Writer, z *zone) { z.print(w, agents) }, s)
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
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, z.Agents, desired, percent(z.Utilization), percent(z.Load),
		percent(cpu), percent(network), percent(buffers), rate(produce))
	if !agents {
		return
	}
	for _, l := range z.Loads {
		fmt.Fprintf(w, "  session %d\t\t\t%s\t\t%s\t%s\t%s\t%s\n", l.Session, percent(l.Utilization),
			percent(l.CPU), percent(l.Network), percent(l.Buffers), rate(l.Produce))
	}
}

func percent(share float64) string { return strconv.FormatFloat(share*100, 'f', 0, 64) + "%" }

func rate(bytesPerSecond float64) string {
	return strconv.FormatFloat(bytesPerSecond/(1<<20), 'f', 1, 64) + " MiB/s"
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newZone(p program.Program) *cobra.Command {
	return program.Parent("zone", "Show how busy availability zones are, and how many agents they should have", newZoneList(p), newZoneWriters(p))
}

func newZoneList(p program.Program) *cobra.Command {
	var c cli.OperatorConfig
	var agents bool
	cmd := &cobra.Command{
		Use: "list", Short: "List zones with their agents, their load, and the number of agents that the load needs", Args: program.Takes(0, 0, "no arguments"),
		Long: "List zones with their agents, their load, and the number of agents that the load needs. UTILIZATION is the mean of the agents'\n" +
			"loads, LOAD their sum. CPU, NETWORK and BUFFERS are those of the agent that has least of each left. docs/scaling.md\n" +
			"describes how autoscalers use DESIRED.",
		Example: "  freshet zone list --data-dir ./data\n" +
			"  freshet zone list --agents --control-plane-http cp-1:8090,cp-2:8090 --virtual-cluster main",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.ListZones(cmd.Context(), c, agents, p.Streams)
		},
	}
	bindOperator(cmd.Flags(), &p, &c)
	cmd.Flags().BoolVar(&agents, "agents", agents, "list each agent too")
	return cmd
}

func newZoneWriters(p program.Program) *cobra.Command {
	var c cli.OperatorConfig
	cmd := &cobra.Command{
		Use: "writers", Short: "List which agents of each zone write, and which hand over to them", Args: program.Takes(0, 0, "no arguments"),
		Long: "List the agents of each zone, and the agent that writes the records of their clients. Most of a zone's agents hand over to few writers,\n" +
			"so that the number of PUTs follows the bytes. The PUT share is a writer's part of the zone's --put-budget.",
		Example: "  freshet zone writers --data-dir ./data\n" +
			"  freshet zone writers --control-plane-http cp-1:8090,cp-2:8090 --virtual-cluster main",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.ListWriters(cmd.Context(), c, p.Streams)
		},
	}
	bindOperator(cmd.Flags(), &p, &c)
	return cmd
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
)

func newZone(p process) *cobra.Command {
	return parent("zone", "Show how busy availability zones are, and how many agents they should have", newZoneList(p))
}

func newZoneList(p process) *cobra.Command {
	var c cli.OperatorConfig
	var asJSON, agents bool
	cmd := &cobra.Command{
		Use: "list", Short: "List zones with their agents, their load, and the number of agents that it takes", Args: takes(0, 0, "no arguments"),
		Long: "List zones with their agents, their load, and the number of agents that it takes. CPU, network and buffers are those of\n" +
			"the agent that has least of each left. docs/scaling.md tells how autoscalers use the number.",
		Example: "  freshet zone list --data-dir ./data\n" +
			"  freshet zone list --agents --control-plane-http cp-1:8090,cp-2:8090 --virtual-cluster main",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.ListZones(cmd.Context(), c, asJSON, agents, p.streams)
		},
	}
	bindOperator(cmd.Flags(), &c)
	cmd.Flags().BoolVar(&agents, "agents", agents, "list each agent too")
	cmd.Flags().BoolVar(&asJSON, "json", asJSON, "print JSON")
	return cmd
}

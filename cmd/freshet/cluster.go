package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newCluster(p program.Program) *cobra.Command {
	return program.Parent("cluster", "List virtual clusters", newClusterList(p))
}

func newClusterList(p program.Program) *cobra.Command {
	var c cli.OperatorConfig
	cmd := &cobra.Command{
		Use: "list", Short: "List virtual clusters with their ids, states and owners", Args: program.Takes(0, 0, "no arguments"),
		Long: "List virtual clusters with their ids, states and owners, as the replica that answers knows them. SOURCE is \"settings\" for those of\n" +
			"--virtual-cluster of the control plane, and \"etcd\" for others. Faults of that replica are on standard error, and the exit status is 0 with\n" +
			"them. The command takes an operator key. freshet ctl cluster list-all shows the teams and the tenants' names of virtual clusters in etcd.",
		Example: "  freshet cluster list --data-dir ./data\n" +
			"  freshet cluster list --control-plane-http cp-1:8090,cp-2:8090",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.ListClusters(cmd.Context(), c, p.Streams)
		},
	}
	bindControlPlane(cmd.Flags(), &c)
	bindAsking(cmd.Flags(), &p, &c)
	return cmd
}

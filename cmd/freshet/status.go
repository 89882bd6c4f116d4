package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

// exitFindings is the exit code of freshet status if there are findings.
const exitFindings = 3

// exitInactive is the exit code of freshet status of a virtual cluster that is suspended or deleted.
const exitInactive = 4

func newStatus(p program.Program) *cobra.Command {
	c := cli.OperatorConfig{Timeout: cli.StatusTimeout}
	cmd := &cobra.Command{
		Use: "status", Short: "Show the parts of the cluster, and faults in words", Args: program.Takes(0, 0, "no arguments"),
		Long: "Show the owner, the control plane's replicas, the members of etcd, the object store and the agents, and findings: faults in words,\n" +
			"with the address of the part and the time since then. All replicas of --control-plane-http are asked at once, and one that does\n" +
			"not answer is a finding. Without etcd, the agents are as of the last owner. Agents and replicas that stopped without notice are\n" +
			"findings for 10 minutes, unless they are started again at the same address.\n\n" +
			"Without --virtual-cluster, the command shows the replicas, etcd, the object store and the number of virtual clusters. Faults of virtual\n" +
			"clusters are findings.\n\n" +
			"The exit code is 0 without findings, 3 with findings, 4 if the virtual cluster is suspended or deleted, and 1 if no replica answers.",
		ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  freshet status --data-dir ./data\n" +
			"  freshet status --control-plane-http cp-1:8090,cp-2:8090\n" +
			"  freshet status --control-plane-http cp-1:8090,cp-2:8090 --virtual-cluster main",
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := cli.ShowStatus(cmd.Context(), c, p.Streams)
			var found *cli.FindingsError
			var inactive *cli.InactiveError
			switch {
			case errors.As(err, &found):
				return &program.ExitError{Err: err, Code: exitFindings}
			case errors.As(err, &inactive):
				return &program.ExitError{Err: err, Code: exitInactive}
			}
			return err
		},
	}
	bindOperator(cmd.Flags(), &p, &c)
	return cmd
}

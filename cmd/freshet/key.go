package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newKey(p program.Program) *cobra.Command {
	return program.Parent("key", "Make keys for agents, scalers and operators", newKeyCreate(p))
}

func newKeyCreate(p program.Program) *cobra.Command {
	c := cli.KeyConfig{Kind: cli.AgentKey}
	cmd := &cobra.Command{
		Use: "create", Short: "Print a new key", Args: program.Takes(0, 0, "no arguments"),
		Long: "Print a new key. It is stored nowhere. The control plane takes it as --agent-key, --read-only-key or --operator-key, or its SHA-256 in\n" +
			"the file of --agent-keys, --read-only-keys or --operator-keys; -o json prints the SHA-256 too. Programs recognize a mistyped key by its\n" +
			"checksum, and scanners of source code recognize keys by their prefixes: fsk_ of agents, fsr_ read-only, fso_ of operators.",
		Example: "  freshet key create --cluster-id 0MP4Kxjfr8KpC_OLjGQtgg\n" +
			"  freshet key create --kind operator",
		RunE: func(*cobra.Command, []string) error { return cli.CreateKey(c, p.Streams) },
	}
	cmd.Flags().Var(config.Choice(&c.Kind, cli.AgentKey, cli.ReadOnlyKey, cli.OperatorKey), "kind", "what the key is for")
	cmd.Flags().StringVar(&c.ClusterID, "cluster-id", c.ClusterID, "id of the virtual cluster that the key opens, as `freshet cluster list` prints it; not of operator keys")
	program.BindFormat(cmd.Flags(), &p)
	return cmd
}

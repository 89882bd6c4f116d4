package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newKey(p program.Program) *cobra.Command {
	return program.Parent("key", "Make keys for agents", newKeyCreate(p))
}

func newKeyCreate(p program.Program) *cobra.Command {
	var c cli.KeyConfig
	cmd := &cobra.Command{
		Use: "create", Short: "Print a new agent key", Args: program.Takes(0, 0, "no arguments"),
		Long: "Print a new agent key of a cluster id. The key is stored nowhere: give it to the agents' --agent-key, and to the\n" +
			"control plane's --agent-key, or its SHA-256 to the control plane's --agent-keys. -o json prints the SHA-256 too.\n" +
			"Programs recognize a mistyped key by its checksum, and scanners of source code recognize a key by its prefix, fsk_.",
		Example: "  freshet key create --cluster-id 0MP4Kxjfr8KpC_OLjGQtgg",
		RunE:    func(*cobra.Command, []string) error { return cli.CreateKey(c, p.Streams) },
	}
	cmd.Flags().StringVar(&c.ClusterID, "cluster-id", c.ClusterID, "id of the virtual cluster that the key opens, as `freshet bucket show` prints it")
	program.BindFormat(cmd.Flags(), &p)
	return cmd
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newHealth() *cobra.Command {
	timeout := cli.DefaultHealthTimeout
	cmd := &cobra.Command{
		Use: "health URL", Short: "Check a health URL, for containers without a shell", Args: program.Takes(1, 1, "one URL"),
		Long: "Request a URL once. The exit code is 0 if the status is 2xx. Otherwise it is 1, and the status and the first line of the\n" +
			"answer go to standard error. Environment and configuration file are not read: in a container, both are those of the process checked.",
		Example: `  freshet health http://127.0.0.1:8080/livez    # an agent
  freshet health http://127.0.0.1:8090/readyz   # a control plane`,
		// Replaces the root's, which would apply the settings of the process checked.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.CheckHealth(cmd.Context(), args[0], timeout)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "maximum time of the check, from connecting to the first line of the answer")
	config.CommandLineOnly(cmd.Flags(), "timeout")
	return cmd
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newGroup(p program.Program) *cobra.Command {
	return program.Parent("group", "List, describe and delete consumer groups, reset their offsets",
		newGroupList(p), newGroupDescribe(p), newGroupDelete(p), newGroupResetOffsets(p))
}

func newGroupList(p program.Program) *cobra.Command {
	var c cli.GroupConfig
	cmd := &cobra.Command{
		Use: "list", Short: "List groups with their protocol and state", Args: program.Takes(0, 0, "no arguments"),
		Example: "  freshet group list --state Stable,Empty",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cli.ListGroups(cmd.Context(), c, p.Streams) },
	}
	f := cmd.Flags()
	bindClient(f, &p, &c.ClientConfig)
	f.Var(config.List(&c.States), "state", "list groups in these states only, as Empty, Stable, PreparingRebalance")
	return cmd
}

func newGroupDescribe(p program.Program) *cobra.Command {
	var c cli.GroupConfig
	cmd := &cobra.Command{
		Use: "describe GROUP...", Short: "Show members, committed offsets and lag of groups", Args: program.Takes(1, -1, "one or more groups"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Groups = args
			return cli.DescribeGroups(cmd.Context(), c, p.Streams)
		},
	}
	bindClient(cmd.Flags(), &p, &c.ClientConfig)
	cmd.ValidArgsFunction = names(&p, -1, groupsOf(&c.ClientConfig))
	return cmd
}

func newGroupDelete(p program.Program) *cobra.Command {
	var c cli.GroupConfig
	cmd := &cobra.Command{
		Use: "delete GROUP...", Short: "Delete groups without members, and their offsets", Args: program.Takes(1, -1, "one or more groups"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Groups = args
			return cli.DeleteGroups(cmd.Context(), c, p.Streams)
		},
	}
	bindClient(cmd.Flags(), &p, &c.ClientConfig)
	cmd.ValidArgsFunction = names(&p, -1, groupsOf(&c.ClientConfig))
	return cmd
}

func newGroupResetOffsets(p program.Program) *cobra.Command {
	var c cli.GroupConfig
	cmd := &cobra.Command{
		Use: "reset-offsets GROUP", Short: "Show other offsets for a group, and commit them with --execute", Args: program.Takes(1, 1, "one group"),
		Example: `  freshet group reset-offsets billing --to earliest
  freshet group reset-offsets billing --topic orders --partition 0,2 --to 2026-01-31T12:00:00Z --execute`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Groups = args
			return cli.ResetOffsets(cmd.Context(), c, p.Streams)
		},
	}
	f := cmd.Flags()
	bindClient(f, &p, &c.ClientConfig)
	f.Var(config.List(&c.Topics), "topic", "topics to reset; all that the group has offsets of if none are given")
	f.Int32SliceVarP(&c.Partitions, "partition", "p", nil, "partitions to reset, comma-separated; all if none are given")
	f.StringVar(&c.To, "to", c.To, "new position: earliest, latest, an offset (the nearest there is), a time (RFC 3339, or @ and milliseconds since the epoch), or how long ago, as 90m")
	f.BoolVar(&c.Execute, "execute", c.Execute, "commit the offsets; without it they are only shown")
	config.CommandLineOnly(f, "execute")
	cmd.ValidArgsFunction = names(&p, 1, groupsOf(&c.ClientConfig))
	completeFlag(cmd, "topic", names(&p, -1, topicsOf(&c.ClientConfig)))
	return cmd
}

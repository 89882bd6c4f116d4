package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/groups"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newGroups(p program.Program) *cobra.Command {
	cfg := groups.Config{}
	cfg.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Measure the owner under many groups' heartbeats, and an agent under many idle connections",
		Long: `Starts an agent and a control plane with an embedded etcd as processes of their own, on loopback, and measures
what they use by the kernel's count: first with connections on which nothing happens, then with members that join
their groups and do nothing but heartbeat. Linux only. The last lines are the figures that have bounds.`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = p.Streams.Out
			return groups.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.Var(config.List(&cfg.Parts), "parts", "parts to measure, of idle and heartbeats; all if not given")
	f.IntVar(&cfg.Groups, "groups", cfg.Groups, "groups")
	f.IntVar(&cfg.Members, "members", cfg.Members, "members of each group")
	f.IntVar(&cfg.Lane, "lane", cfg.Lane, "connections that members of the same place in their groups share; more of them join faster")
	f.DurationVar(&cfg.Interval, "interval", cfg.Interval, "time between two heartbeats of a member")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "length of each measurement")
	f.DurationVar(&cfg.Settle, "settle", cfg.Settle, "how long processes are left alone before each measurement")
	f.IntVar(&cfg.Connections, "connections", cfg.Connections, "idle connections")
	return cmd
}

// newGroupsRole is how the benchmark starts its helper processes; not for people.
func newGroupsRole(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "groups-role NAME SPEC", Hidden: true, Args: program.Takes(2, 2, "NAME and SPEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return groups.RunRole(cmd.Context(), args[0], args[1], p.Streams.Out)
		},
	}
}

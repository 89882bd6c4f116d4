package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/tenants"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newTenants(p program.Program) *cobra.Command {
	cfg := tenants.Config{}
	cfg.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "tenants",
		Short: "Measure two replicas of the control plane with many idle virtual clusters",
		Long: `Starts etcd, two replicas of the control plane, and an agent for each loaded virtual cluster as processes of their own. Opens an
agent's stream with a group for each idle virtual cluster. Measures what an idle virtual cluster costs, then what producers see while
replicas are killed and restarted. Linux only. Each figure has a line, with its bound.`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return &cli.UsageError{Message: err.Error()}
			}
			cfg.Out = p.Streams.Out
			return tenants.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Clusters, "clusters", cfg.Clusters, "idle virtual clusters")
	f.IntVar(&cfg.Loaded, "loaded", cfg.Loaded, "virtual clusters with an agent and a producer")
	f.IntVar(&cfg.Rate, "rate", cfg.Rate, "records of 1 KiB a second of each producer")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "length of each measurement")
	f.DurationVar(&cfg.Settle, "settle", cfg.Settle, "time before each measurement")
	f.StringVar(&cfg.Profiles, "profiles", cfg.Profiles, "directory for profiles of the replicas; none by default")
	f.BoolVar(&cfg.Bounds, "bounds", cfg.Bounds, "exit with an error if a figure is above its bound")
	return cmd
}

// newTenantsRole starts the helper process of the benchmark; not for people.
func newTenantsRole(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "tenants-role NAME SPEC", Hidden: true, Args: program.Takes(2, 2, "NAME and SPEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return tenants.RunRole(cmd.Context(), args[0], args[1], p.Streams.Out)
		},
	}
}

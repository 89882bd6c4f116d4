package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/cost"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newCost(p program.Program) *cobra.Command {
	cfg := cost.Config{}
	cfg.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Measure CPU seconds per GiB of produce and fetch, as a ratio to the floor",
		Long: `Measures what the agent's data path costs in CPU, side by side with a floor program that only receives,
checksums and stores bytes (or sends them from memory). Everything runs on loopback in processes of its own;
the object store is an endpoint that forgets. Linux only. The last two lines are the ratios of shape A.`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = p.Streams.Out
			return cost.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Rounds, "rounds", cfg.Rounds, "pairs of floor and agent for each shape and direction")
	f.Var(config.Size(&cfg.Bytes), "bytes", "bytes of each round")
	f.IntVar(&cfg.Connections, "clients", cfg.Connections, "clients of each load")
	f.DurationVar(&cfg.Steady, "steady", cfg.Steady.Round(time.Second), "length of the paced load under which memory is measured")
	f.Var(config.Size(&cfg.SteadyRate), "steady-rate", "bytes a second in, and as many out, of that load")
	f.Var(config.List(&cfg.Shapes), "shapes", "shapes to measure, of A, B and C; all if not given")
	f.StringVar(&cfg.Profiles, "profiles", cfg.Profiles, "directory to keep CPU and allocation profiles of the agent in")
	return cmd
}

// newCostRole is how the benchmark starts its helper processes; not for people.
func newCostRole(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "cost-role NAME SPEC", Hidden: true, Args: program.Takes(2, 2, "NAME and SPEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cost.RunRole(cmd.Context(), args[0], args[1], p.Streams.Out)
		},
	}
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/scale"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newScale(p program.Program) *cobra.Command {
	cfg := scale.Config{}
	cfg.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure many partitions and idle clients while agents come and go",
		Long: `Starts etcd, a control plane, agents, producers and idle clients as processes of their own. Measures what producers see
and what processes use with few partitions, with many, with many idle clients, while an agent comes and while one goes,
after each of which every client asks for Metadata anew. Linux only. The last lines are the figures that have bounds.`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return &cli.UsageError{Message: err.Error()}
			}
			cfg.Out = p.Streams.Out
			return scale.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Agents, "agents", cfg.Agents, "agents before one is added")
	f.IntVar(&cfg.Topics, "topics", cfg.Topics, "topics")
	f.IntVar(&cfg.Partitions, "partitions", cfg.Partitions, "partitions of each topic")
	f.IntVar(&cfg.Clients, "clients", cfg.Clients, "idle clients, each a connection of its own that uses one topic")
	f.IntVar(&cfg.Fetchers, "fetchers", cfg.Fetchers, "clients that have a fetch parked")
	f.IntVar(&cfg.Rate, "rate", cfg.Rate, "records of 1 KiB a second to produce")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "length of each measurement")
	f.DurationVar(&cfg.Window, "window", cfg.Window, "time in which all clients refresh")
	f.DurationVar(&cfg.Settle, "settle", cfg.Settle, "time before each measurement")
	f.StringVar(&cfg.PutBudget, "put-budget", cfg.PutBudget, "PUTs a second")
	return cmd
}

// newScaleRole is how the benchmark starts its helper processes; not for people.
func newScaleRole(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "scale-role NAME SPEC", Hidden: true, Args: program.Takes(2, 2, "NAME and SPEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return scale.RunRole(cmd.Context(), args[0], args[1], p.Streams.Out)
		},
	}
}

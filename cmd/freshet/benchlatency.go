package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/latency"
	"github.com/freshet-io/freshet/internal/config"
)

func newBenchLatency(p process) *cobra.Command {
	cfg := latency.Config{}
	cfg.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure what an idle agent adds to the object store's latency",
		Long: `Produces single records, one at a time and slower than the PUT budget, to an agent over a bucket that is as slow
as a model of a real object store says, and shows how long the answers took and how long their PUTs did.`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = p.streams.Out
			_, err := latency.Run(cmd.Context(), cfg)
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Records, "records", cfg.Records, "records measured")
	f.DurationVar(&cfg.Interval, "interval", cfg.Interval, "mean time between records")
	f.IntVar(&cfg.Bytes, "record-bytes", cfg.Bytes, "size of a record")
	f.Var(config.Choice(&cfg.Model, "s3-standard", "s3-express"), "model", "object store to model")
	return cmd
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/batches"
	"github.com/freshet-io/freshet/bench/cluster"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newBatches(p program.Program) *cobra.Command {
	cfg := batches.Config{}
	cfg.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "batches",
		Short: "Measure what batches cost that have one record each",
		Long: `Starts etcd, a control plane and an agent as processes of their own, and producers that spread records round-robin over
the partitions, so that every record is a batch of its own. Counts the batches a second that are reached, the bytes of
metadata log of each, and the CPU of each process. Linux only. The last lines are the figures.`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = p.Streams.Out
			_, err := batches.Run(cmd.Context(), cfg)
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Producers, "producers", cfg.Producers, "producers, each with a client of its own")
	f.IntVar(&cfg.Partitions, "partitions", cfg.Partitions, "partitions of the topic")
	f.IntVar(&cfg.RecordBytes, "record-bytes", cfg.RecordBytes, "size of a record")
	f.IntVar(&cfg.Rate, "rate", cfg.Rate, "batches a second of all producers; 0: as many as they can")
	f.DurationVar(&cfg.WarmUp, "warm-up", cfg.WarmUp, "time before the measurement")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "length of the measurement")
	f.Var(config.Choice(&cfg.Model, "s3-standard", "s3-express"), "model", "object store to model")
	return cmd
}

// newBatchesRole is how the benchmark starts its helper processes; not for people.
func newBatchesRole(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "batches-role NAME SPEC", Hidden: true, Args: program.Takes(2, 2, "NAME and SPEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return batches.RunRole(cmd.Context(), args[0], args[1], p.Streams.Out)
		},
	}
}

// newClusterRole is how benchmarks start etcd and an object store; not for people.
func newClusterRole(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "cluster-role NAME SPEC", Hidden: true, Args: program.Takes(2, 2, "NAME and SPEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cluster.RunRole(cmd.Context(), args[0], args[1], p.Streams.Out)
		},
	}
}

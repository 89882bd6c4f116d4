package main

import (
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/catchup"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newCatchup(p program.Program) *cobra.Command {
	cfg := catchup.Default()
	cmd := &cobra.Command{
		Use:   "catchup",
		Short: "Measure what reading history costs producers and consumers at the live edge",
		Long: `Produces a backlog, waits until it is compacted, and then produces at a steady rate, in turns without and with
groups that read all of the backlog. The last lines compare the turns, each beside its bound. Everything runs on loopback
in processes of its own over a bucket that is as slow as a model of a real object store says. Linux only.`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = p.Streams.Out
			_, err := catchup.Run(cmd.Context(), cfg)
			return err
		},
	}
	f := cmd.Flags()
	f.Var(config.Size(&cfg.Backlog), "backlog", "size of the backlog")
	f.Var(config.Size(&cfg.Rate), "rate", "bytes a second produced meanwhile")
	f.IntVar(&cfg.Groups, "groups", cfg.Groups, "groups that read the backlog")
	f.DurationVar(&cfg.Gap, "gap", cfg.Gap, "time between the starts of groups")
	f.Var(config.Size(&cfg.GroupRate), "group-rate", "bytes a second that a group reads at most; 0 for no bound")
	f.IntVar(&cfg.Pairs, "pairs", cfg.Pairs, "turns without and with groups")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "length of a turn without groups, and the least of one with")
	f.DurationVar(&cfg.WarmUp, "warm-up", cfg.WarmUp, "beginning of a turn that is not measured")
	f.DurationVar(&cfg.Settle, "settle", cfg.Settle, "bound of the wait until the backlog is compacted; 0: it is read as it was written")
	f.DurationVar(&cfg.CompactAfter, "compact-after", cfg.CompactAfter, "age at which bundles are compacted, however few")
	f.IntVar(&cfg.Partitions, "partitions", cfg.Partitions, "partitions of the topic")
	f.IntVar(&cfg.RecordBytes, "record-bytes", cfg.RecordBytes, "size of a record's value")
	f.StringVar(&cfg.Memory, "memory", cfg.Memory, "memory limit of the agent")
	f.Var(config.Choice(&cfg.Model, "s3-standard", "s3-express"), "model", "object store to model")
	return cmd
}

// newCatchupRole is how the benchmark starts its helper processes; not for people.
func newCatchupRole(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "catchup-role NAME SPEC", Hidden: true, Args: program.Takes(2, 2, "NAME and SPEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return catchup.RunRole(cmd.Context(), args[0], args[1], p.Streams.Out)
		},
	}
}

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/logsoak"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/logging"
	"github.com/freshet-io/freshet/internal/program"
)

func newLog(p program.Program) *cobra.Command {
	cfg := logsoak.Config{}
	cfg.ApplyDefaults()
	var logs logging.Config
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Load the metadata log through an embedded etcd for minutes, and show what it takes on disk",
		Long: `Commits at a steady rate of log bytes through an owner and a warm follower over an embedded etcd, and prints
sizes and latencies as they develop. With --failing every snapshot fails during that time: commits are slowed and
refused at the log's budget; then snapshots work again and the log heals.`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Dir == "" {
				if cfg.Dir, err = os.MkdirTemp("", "freshet-bench-log-"); err != nil {
					return fmt.Errorf("make directory: %w", err)
				}
				defer os.RemoveAll(cfg.Dir)
			}
			if cfg.Log, err = logging.New(logs, p.Streams.Err); err != nil {
				return err
			}
			cfg.Out = p.Streams.Out
			result, err := logsoak.Run(cmd.Context(), cfg)
			if result != nil {
				result.Summarize(p.Streams.Out)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", "", "empty directory for etcd and objects; if not given, a temporary one")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "length of the load")
	f.Var(config.Size(&cfg.Rate), "rate", "log bytes a second")
	f.BoolVar(&cfg.Failing, "failing", false, "let snapshots fail during the load")
	f.DurationVar(&cfg.Heal, "heal", cfg.Heal, "how long the load goes on after failing snapshots")
	f.DurationVar(&cfg.Sample, "sample", cfg.Sample, "time between lines")
	program.BindLog(f, &logs)
	return cmd
}

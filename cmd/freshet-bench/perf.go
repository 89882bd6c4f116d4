package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/bench/perf"
	"github.com/freshet-io/freshet/bench/workloads"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

func newPerf(p program.Program) *cobra.Command {
	cfg := perf.DefaultConfig()
	var scale workloads.Scale
	cmd := &cobra.Command{
		Use:   "perf",
		Short: "Run AutoMQ's performance test against any Kafka endpoint",
		Long: `Produces and consumes as AutoMQ's automq-perf-test.sh does, with its options, its lines, and its JSON file, in the
current directory: warm-up, then a test of some minutes; or, with --backlog-duration, a test of how consumers catch up.
Options that take minutes or seconds also take durations such as 90s.`,
		Example: "  freshet-bench perf -B localhost:9092 -t 10 -n 128 -s 52224 -r 1600 -P batch.size=0 -C fetch.max.wait.ms=1000\n" +
			"  freshet-bench perf $(freshet-bench workloads show automq-perf-catch-up | grep -v '^#') --scale 0.02 --duration 1m",
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = p.Streams.Out
			if scale != (workloads.Scale{}) {
				cfg, _ = scale.Options(cfg)
			}
			cfg.ApplyDefaults()
			if err := cfg.Validate(); err != nil {
				return &cli.UsageError{Message: err.Error()}
			}
			_, err := perf.Run(cmd.Context(), cfg)
			return err
		},
	}
	f := cmd.Flags()
	perf.BindFlags(f, &cfg)
	f.StringVar(&cfg.ResultDir, "out", cfg.ResultDir, "directory for the JSON file")
	f.BoolVar(&cfg.DeleteTopics, "delete-topics", false, "delete the topics that this test made, and its groups, at its end")
	bindScale(f, &scale)
	return cmd
}

// bindScale adds the flags that make a workload small.
func bindScale(f *pflag.FlagSet, s *workloads.Scale) {
	f.Float64Var(&s.Factor, "scale", s.Factor, "share of the published rates, producers and consumers, as 0.02; 0 keeps them")
	f.DurationVar(&s.Duration, "duration", s.Duration, "length of warm-up, backlog and test together; 0 keeps the published lengths")
}

// spreadLists lets options of `freshet-bench perf` be followed by several name=value, as those of AutoMQ's tool.
func spreadLists(args []string) []string {
	if len(args) == 0 || args[0] != "perf" {
		return args
	}
	return perf.SpreadLists(args)
}

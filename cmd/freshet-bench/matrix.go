package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/matrix"
	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newMatrix(p program.Program) *cobra.Command {
	cfg := matrix.Config{}
	cfg.ApplyDefaults()
	var commonFile string
	var watched []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "matrix",
		Short: "Run all published workloads, scaled, and write one report",
		Long: `Runs the workloads of public benchmarks (see freshet-bench workloads list) one after the other against a Kafka
endpoint and writes their results, logs and one report with charts into a directory. A workload that fails is reported,
the next one runs, and the command fails at the end. Topics and groups are deleted after every workload.`,
		Example: "  freshet-bench matrix --scale 0.02 --duration 1m --bootstrap-server localhost:9092 --observe broker=http://localhost:8080/metrics",
		Args:    program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Common, err = readOptional(commonFile); err != nil {
				return err
			}
			if cfg.Targets, err = observe.ParseTargets(watched); err != nil {
				return &cli.UsageError{Message: err.Error()}
			}
			if err := cfg.Validate(); err != nil {
				return &cli.UsageError{Message: err.Error()}
			}
			cfg.Out, cfg.Progress = p.Streams.Out, terminal(p.Streams.Err)
			if asJSON {
				cfg.Out, cfg.JSON = p.Streams.Err, p.Streams.Out
			}
			return matrix.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&cfg.Bootstrap, "bootstrap-server", "b", cfg.Bootstrap, "Kafka endpoint: host:port, several separated by commas")
	f.StringVar(&commonFile, "common-config-file", "", "file of Java client properties of all clients, for security for example")
	f.Var(config.List(&cfg.Only), "only", "names of workloads to run; all if not given")
	f.Int16Var(&cfg.Replication, "replication-factor", cfg.Replication, "of topics; -1 is the server's default, 0 what the workloads say")
	f.Var(config.List(&watched), "observe", "programs whose CPU and memory are sampled during tests: NAME=PID or NAME=URL of their metrics")
	f.StringVarP(&cfg.Dir, "out", "o", cfg.Dir, "directory of results, logs and the report; made if it is not there")
	f.BoolVar(&asJSON, "json", false, "print a summary as JSON, and lines to standard error")
	bindScale(f, &cfg.Scale)
	return cmd
}

func readOptional(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read configuration of clients: %w", err)
	}
	return string(text), nil
}

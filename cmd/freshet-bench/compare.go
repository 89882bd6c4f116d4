package main

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/bench/compare"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

func newCompare(p program.Program) *cobra.Command {
	cfg := compare.Config{}
	cfg.ApplyDefaults()
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Measure Apache Kafka and Freshet with the same workload, in turn",
		Long: `Starts Apache Kafka (one KRaft node, from its official jars) and Freshet (agent, control plane with etcd, and an S3
server that every byte goes through), one after the other with fresh data, runs the same workload against each, and
writes a table of ratios, made pair by pair, and a page with charts. Linux only; needs Java. Apache Kafka is fetched
with Maven and the S3 server with Go unless they are named.`,
		Example: "  freshet-bench compare --scale 0.02 --duration 2m --rounds 5 --output compare-vanity",
		Args:    program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Validate(); err != nil {
				return &cli.UsageError{Message: err.Error()}
			}
			cfg.Progress = terminal(p.Streams.Err)
			cfg.Out, cfg.Version, cfg.Command = p.Streams.Out, p.Version, p.Name+" "+strings.Join(os.Args[1:], " ")
			if asJSON {
				cfg.Out, cfg.JSON = p.Streams.Err, p.Streams.Out
			}
			return compare.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Workload, "workload", "", "workload file of the OpenMessaging Benchmark; if not given, "+compare.DefaultWorkload+", which is built in")
	f.StringVar(&cfg.Driver, "driver", "", "driver file with the clients' settings; if not given, that of "+compare.DefaultWorkload)
	f.Float64Var(&cfg.Scale, "scale", cfg.Scale, "factor of the workload's rates and clients")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration.Round(time.Second), "measured length of each run")
	f.DurationVar(&cfg.Warmup, "warmup", cfg.Warmup, "length of each run before it is measured")
	f.IntVar(&cfg.Rounds, "rounds", cfg.Rounds, "pairs of runs; the order alternates from pair to pair")
	f.StringVarP(&cfg.Dir, "output", "o", cfg.Dir, "directory for results, table and page")
	f.StringVar(&cfg.Work, "work-dir", "", "directory for the systems' data, which is removed after each run; if not given, that for temporary files")
	f.StringVar(&cfg.KafkaHome, "kafka-home", "", "directory of an unpacked release of Apache Kafka; if not given, "+compare.KafkaVersion+" is fetched from Maven Central")
	f.StringVar(&cfg.Java, "java", cfg.Java, "Java program")
	f.StringVar(&cfg.S3Server, "s3-server", "", "versitygw program; if not given, it is looked for in the search path, else "+compare.S3ServerVersion+" is fetched")
	f.Var(config.Choice(&cfg.Latency, compare.NoLatency, "s3-standard", "s3-express"), "s3-latency", "object store whose latency is added to the S3 server's, by a model")
	f.Var(config.Size(&cfg.Memory), "memory", "Kafka's heap, and the memory limit of Freshet's agent")
	f.BoolVar(&asJSON, "json", false, "print a summary as JSON, and the table to standard error")
	return cmd
}

// newCompareRole is how the benchmark starts its helper process; not for people.
func newCompareRole(p program.Program) *cobra.Command {
	return &cobra.Command{
		Use: "compare-role NAME SPEC", Hidden: true, Args: program.Takes(2, 2, "NAME and SPEC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return compare.RunRole(cmd.Context(), args[0], args[1], p.Streams.Out)
		},
	}
}

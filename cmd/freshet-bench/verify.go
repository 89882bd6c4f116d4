package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/bench/verify"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

// exitNotRun is the exit code of a verification that could not be made: nothing is known of the cluster.
const exitNotRun = 2

func newVerify(p program.Program) *cobra.Command {
	cfg, client, user := verify.Config{}, cli.ClientConfig{ClientID: "freshet-verify"}, cli.SASL{}
	cfg.ApplyDefaults()
	client.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check any Kafka endpoint for lost, duplicate, reordered and otherwise wrong records and answers",
		Long: `Produces numbered records to topics of its own and reads them back in every way there is: at the end, from the
start again and again, and in groups whose members come and go; asks brokers for ends, offsets and assignments
meanwhile. Kill brokers as you like: what a client cannot know after a lost answer counts as unknown, not as a fault.
Each fault is printed with its evidence as it is found: lost, duplicate, reordered, phantom, aborted-read, torn,
stale-read, offset-gap, offset-reuse, wrong-offset, lost-commit, two-owners, no-owner, not-finished.
Its memory grows by about 10 MiB an hour at the default rate, as records that were read at their offsets are
forgotten; SIGINT ends producing early; what was written is read, and the verdict given, all the same.

Exit status: 0 clean; 1 faults; 2 it could not run. A run in which some part checked nothing is not clean.`,
		Example: `  freshet-bench verify --bootstrap-server localhost:9092 --duration 2h --rate 5000 --transactions`,
		Args:    program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := client.Locate(cmd.Context()); err != nil {
				return &program.ExitError{Err: err, Code: exitNotRun}
			}
			cfg.Bootstrap, cfg.Out, cfg.Err = client.Bootstrap, p.Streams.Out, p.Streams.Err
			tlsConfig, err := client.Files.Client(client.TLS, zap.NewNop())
			if err != nil {
				return &program.ExitError{Err: err, Code: exitNotRun}
			}
			if _, err := user.Options(); err != nil {
				return &program.ExitError{Err: err, Code: exitNotRun}
			}
			cfg.Options = func() []kgo.Opt {
				opts, _ := user.Options() // which was tried
				if tlsConfig != nil {
					opts = append(opts, kgo.DialTLSConfig(tlsConfig))
				}
				return opts
			}
			err = verify.Run(cmd.Context(), cfg)
			if err != nil && !errors.Is(err, verify.ErrFindings) {
				err = &program.ExitError{Err: err, Code: exitNotRun}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.VarP(config.List(&client.Bootstrap), "bootstrap-server", "b", "host:port of one or more brokers; if not given, the freshet dev on ./data, or localhost:9092")
	f.BoolVar(&client.TLS, "tls", client.TLS, "use TLS")
	f.StringVar(&client.Files.CA, "tls-ca", "", "PEM file or text of certificates to trust instead of the system's; implies --tls")
	f.StringVar(&client.Files.Cert, "tls-cert", "", "PEM file or text of the client's certificate; implies --tls")
	f.StringVar(&client.Files.Key, "tls-key", "", "PEM file or text of the client's key, of --tls-cert")
	user.Bind(f)
	f.StringVar(&cfg.Prefix, "prefix", cfg.Prefix, "how names of topics, groups and transactional ids begin")
	f.BoolVar(&cfg.Keep, "keep", false, "leave topics and groups behind")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "how long to produce")
	f.DurationVar(&cfg.Patience, "patience", cfg.Patience, "how long reading the rest, and open transactions, may take afterwards")
	f.Float64Var(&cfg.Rate, "rate", cfg.Rate, "records a second, of all producers together")
	f.IntVar(&cfg.Size, "size", cfg.Size, "bytes of a record's value, at least 40")
	f.IntVar(&cfg.Producers, "producers", cfg.Producers, "producers of each topic")
	f.IntVar(&cfg.Keys, "keys", cfg.Keys, "keys that each producer uses in each partition")
	f.IntVar(&cfg.Partitions, "partitions", cfg.Partitions, "partitions of each topic")
	f.IntVar(&cfg.Replication, "replication", cfg.Replication, "replicas of each topic; -1 is what the cluster does by default")
	f.IntVar(&cfg.Groups, "groups", cfg.Groups, "groups for each topic, every other one with cooperative rebalancing")
	f.IntVar(&cfg.Members, "members", cfg.Members, "members of each group")
	f.BoolVar(&cfg.NextGen, "consumer-protocol", false, "one more group for each topic, of the consumer protocol (KIP-848)")
	f.DurationVar(&cfg.Churn, "churn", cfg.Churn, "how long a member stays, on average, before it leaves and comes back")
	f.BoolVar(&cfg.Transactions, "transactions", false, "a second topic with transactional producers, which takes half of the rate")
	f.Float64Var(&cfg.Aborts, "aborts", cfg.Aborts, "share of transactions that are aborted, 0 to 1")
	f.BoolVar(&cfg.Plain, "plain", false, "producers without idempotence: records that are there again after a retry are counted, not faults")
	f.Uint64Var(&cfg.Seed, "seed", 0, "what random choices follow from; 0 is by the clock, and printed")
	f.DurationVar(&cfg.Progress, "progress", cfg.Progress, "time between two lines of progress")
	f.BoolVar(&cfg.JSON, "json", false, "the report as JSON on standard output, progress on standard error")
	return cmd
}

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/internal/access"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

// bindClient adds the flags of commands that talk to a cluster as a Kafka client.
func bindClient(f *pflag.FlagSet, p *program.Program, c *cli.ClientConfig) {
	c.ApplyDefaults()
	f.VarP(config.List(&c.Bootstrap), "bootstrap-server", "b", "host:port of one or more agents; if not given, the address of the freshet dev on --data-dir, or localhost:9092")
	program.BindFormat(f, p)
	bindDataDir(f, &c.DataDir)
	f.StringVar(&c.ClientID, "client-id", c.ClientID, "client id sent with every request; zone=<zone> in it prefers agents of that zone")
	f.DurationVar(&c.Timeout, "timeout", c.Timeout, timeoutHelp)
	f.BoolVar(&c.TLS, "tls", c.TLS, "use TLS")
	f.StringVar(&c.Files.CA, "tls-ca", c.Files.CA, "PEM file or text of certificates to trust instead of the system's; implies --tls")
	f.StringVar(&c.Files.Cert, "tls-cert", c.Files.Cert, "PEM file or text of the client's certificate; implies --tls")
	f.StringVar(&c.Files.Key, "tls-key", c.Files.Key, "PEM file or text of the client's key")
	config.SetGroups(f, connection)
}

// timeoutHelp is the help of --timeout.
const timeoutHelp = "maximum time from connecting to the last answer; for produce and consume, which run on, of each request"

// bindDataDir adds the flag for the data directory of a freshet dev, for commands that find its addresses there.
func bindDataDir(f *pflag.FlagSet, dir *string) {
	f.StringVar(dir, "data-dir", *dir, "data directory of a freshet dev on this machine, for commands without an address; if not given, "+access.DefaultDir)
}

func newProduce(p program.Program) *cobra.Command {
	c := cli.ProduceConfig{Partition: -1, Idempotent: true}
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send each line of standard input as a record",
		Example: `  seq 10 | freshet produce lines
  printf 'k1\tv1\nk2\tv2\n' | freshet produce lines --key-separator $'\t' --compression zstd`,
		Args: program.Takes(1, 1, "one topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Topic = args[0]
			if c.Acks != "all" && !cmd.Flags().Changed("idempotent") {
				c.Idempotent = false // as the Java producer does when acks is all that was asked for
			}
			return cli.Produce(cmd.Context(), c, p.Streams)
		},
	}
	f := cmd.Flags()
	bindClient(f, &p, &c.ClientConfig)
	c.ApplyDefaults()
	f.StringVarP(&c.KeySeparator, "key-separator", "K", c.KeySeparator, "split lines into key and value where this first stands; without it records have no key")
	f.StringVar(&c.NullMarker, "null-marker", c.NullMarker, "a key or value equal to this is sent as null")
	f.StringArrayVarP(&c.Headers, "header", "H", nil, "name=value header for every record; may be repeated")
	f.Int32VarP(&c.Partition, "partition", "p", c.Partition, "send to this partition only; -1 chooses by key, or per batch without a key")
	f.VarP(config.Choice(&c.Compression, "none", "gzip", "snappy", "lz4", "zstd"), "compression", "z", "how batches are compressed")
	f.Var(config.Choice(&c.Acks, "all", "1", "0"), "acks", "all and 1 wait until records are durable; 0 does not wait at all")
	f.BoolVar(&c.Idempotent, "idempotent", c.Idempotent, "never write a record twice when retrying; needs --acks all")
	f.DurationVar(&c.Linger, "linger", c.Linger, "time that a line waits for more lines to fill its batch")
	f.Var(config.Size(&c.MaxLine), "max-line", "longest line taken")
	f.BoolVarP(&c.Verbose, "verbose", "v", c.Verbose, "write the number of acknowledged records to standard error")
	cmd.ValidArgsFunction = names(&p, 1, topicsOf(&c.ClientConfig))
	return cmd
}

func newConsume(p program.Program) *cobra.Command {
	c := cli.ConsumeConfig{}
	c.ClientConfig.ApplyDefaults()
	c.From, c.KeySeparator = "latest", "\t"
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Write a topic's records to standard output",
		Example: `  freshet consume lines --from earliest --exit-at-end
  freshet consume lines --from 2026-01-31T12:00:00Z --partition 0,2 --count 100
  freshet consume lines --group readers --from earliest
  freshet consume lines --format '%t/%p/%o %d{strftime[%F %T]} %k=%v\n'`,
		Args: program.Takes(1, 1, "one topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Topic = args[0]
			return cli.Consume(cmd.Context(), c, p.Streams)
		},
	}
	f := cmd.Flags()
	bindClient(f, &p, &c.ClientConfig)
	f.StringVarP(&c.Group, "group", "G", c.Group, "join this consumer group: read the partitions that it assigns, from its committed offsets on, and commit the offsets of written records, also on exit")
	f.StringVar(&c.From, "from", c.From, "where to start: earliest, latest, an offset, a time (RFC 3339, or @ and milliseconds since the epoch), or how long ago, as 90m; "+
		"with --group, in partitions without a committed offset")
	f.Int32SliceVarP(&c.Partitions, "partition", "p", nil, "partitions to read, comma-separated; all if none are given")
	f.IntVarP(&c.Count, "count", "n", c.Count, "maximum number of records; 0 means no limit")
	f.BoolVarP(&c.ExitAtEnd, "exit-at-end", "e", c.ExitAtEnd, "stop at the end offsets at the start of the command; "+
		"with --group, at the end offsets of each partition at its assignment, once the group assigns no more")
	f.BoolVarP(&c.PrintKey, "print-key", "k", c.PrintKey, "write the key before the value")
	f.StringVarP(&c.KeySeparator, "key-separator", "K", c.KeySeparator, "stands between key and value")
	f.StringVarP(&c.Format, "format", "f", c.Format,
		"how to write a record: %k key, %v value, %t topic, %p partition, %o offset, %d timestamp, %h{%k=%v } headers, \\n newline")
	f.BoolVar(&c.ReadCommitted, "read-committed", c.ReadCommitted, "leave out records of open and aborted transactions")
	f.BoolVarP(&c.Verbose, "verbose", "v", c.Verbose, "write the number of records read to standard error")
	cmd.ValidArgsFunction = names(&p, 1, topicsOf(&c.ClientConfig))
	completeFlag(cmd, "group", names(&p, -1, groupsOf(&c.ClientConfig)))
	return cmd
}

func newTopic(p program.Program) *cobra.Command {
	return program.Parent("topic", "Create, list, describe, alter, delete, undelete and purge topics",
		newTopicCreate(p), newTopicList(p), newTopicDescribe(p), newTopicAlter(p), newTopicDelete(p), newTopicUndelete(p), newTopicPurge(p))
}

func newTopicCreate(p program.Program) *cobra.Command {
	c := cli.TopicConfig{Partitions: -1, Replicas: -1}
	cmd := &cobra.Command{
		Use: "create TOPIC...", Short: "Create topics", Args: program.Takes(1, -1, "one or more topics"),
		Example: "  freshet topic create lines --partitions 12 -c retention.ms=86400000",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Topics = args
			return cli.CreateTopics(cmd.Context(), c, p.Streams)
		},
	}
	f := cmd.Flags()
	bindClient(f, &p, &c.ClientConfig)
	f.Int32VarP(&c.Partitions, "partitions", "p", c.Partitions, "number of partitions; -1 takes the cluster's default")
	f.Int16Var(&c.Replicas, "replication-factor", c.Replicas, "replication factor that tools read back; the object store replicates. -1 takes the default, 3")
	f.StringArrayVarP(&c.Configs, "topic-config", "c", nil, "name=value topic config; may be repeated")
	f.BoolVar(&c.IfNotExists, "if-not-exists", c.IfNotExists, "an existing topic is no error")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func newTopicList(p program.Program) *cobra.Command {
	var c cli.TopicConfig
	var o cli.OperatorConfig
	var deleted bool
	cmd := &cobra.Command{
		Use: "list", Short: "List topics with their partitions, their size and the age of their newest record", Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Timeout, o.DataDir = c.Timeout, c.DataDir; deleted {
				return cli.ListDeletedTopics(cmd.Context(), o, p.Streams)
			}
			return cli.ListTopics(cmd.Context(), c, p.Streams)
		},
	}
	bindClient(cmd.Flags(), &p, &c.ClientConfig)
	bindOperated(cmd.Flags(), &o)
	config.SetGroups(cmd.Flags(), connection)
	cmd.Flags().BoolVar(&deleted, "deleted", deleted, "list deleted topics that can be restored; asks the control plane, not an agent")
	cmd.Flags().BoolVar(&c.Internal, "internal", c.Internal, "list internal topics too")
	return cmd
}

func newTopicDescribe(p program.Program) *cobra.Command {
	var c cli.TopicConfig
	cmd := &cobra.Command{
		Use: "describe TOPIC...", Short: "Show configs, partitions, offsets, size and age of topics", Args: program.Takes(1, -1, "one or more topics"),
		Long: "Show configs, partitions, offsets, size and age of topics.\n\n" +
			"\"records (at most)\" is the end offset less the first offset. A partition has fewer records if compaction removed some, or if\n" +
			"transactions wrote to it: their markers take offsets too.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Topics = args
			return cli.DescribeTopics(cmd.Context(), c, p.Streams)
		},
	}
	bindClient(cmd.Flags(), &p, &c.ClientConfig)
	cmd.Flags().BoolVarP(&c.AllConfigs, "all-configs", "a", c.AllConfigs, "show configs that have their default, too")
	cmd.ValidArgsFunction = names(&p, -1, topicsOf(&c.ClientConfig))
	return cmd
}

func newTopicAlter(p program.Program) *cobra.Command {
	var c cli.TopicConfig
	cmd := &cobra.Command{
		Use: "alter TOPIC...", Short: "Raise the number of partitions, change configs", Args: program.Takes(1, -1, "one or more topics"),
		Example: "  freshet topic alter lines --partitions 24 -c cleanup.policy=delete --delete-topic-config retention.ms",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Topics = args
			return cli.AlterTopics(cmd.Context(), c, p.Streams)
		},
	}
	f := cmd.Flags()
	bindClient(f, &p, &c.ClientConfig)
	f.Int32VarP(&c.Partitions, "partitions", "p", c.Partitions, "new number of partitions, more than there are; 0 leaves it")
	f.StringArrayVarP(&c.Configs, "topic-config", "c", nil, "name=value topic config to set; may be repeated")
	f.StringArrayVar(&c.DeleteConfigs, "delete-topic-config", nil, "name of a topic config to return to its default; may be repeated")
	cmd.ValidArgsFunction = names(&p, -1, topicsOf(&c.ClientConfig))
	return cmd
}

func newTopicDelete(p program.Program) *cobra.Command {
	var c cli.TopicConfig
	cmd := &cobra.Command{
		Use: "delete TOPIC...", Short: "Delete topics", Args: program.Takes(1, -1, "one or more topics"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Topics = args
			return cli.DeleteTopics(cmd.Context(), c, p.Streams)
		},
	}
	bindClient(cmd.Flags(), &p, &c.ClientConfig)
	cmd.Flags().BoolVar(&c.IfExists, "if-exists", c.IfExists, "an absent topic is no error")
	cmd.ValidArgsFunction = names(&p, -1, topicsOf(&c.ClientConfig))
	return cmd
}

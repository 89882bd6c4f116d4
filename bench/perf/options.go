package perf

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// BindFlags adds the tool's options to f, with its letters. Values that f already carries are the defaults.
func BindFlags(f *pflag.FlagSet, c *Config) {
	f.StringVarP(&c.Bootstrap, "bootstrap-server", "B", c.Bootstrap, "Kafka endpoint: host:port, several separated by commas")
	f.VarP(&properties{&c.Common}, "common-configs", "A", "client properties of producers, consumers and admin: name=value ...")
	f.StringVarP(&c.CommonFile, "common-config-file", "F", c.CommonFile, "file of client properties of producers, consumers and admin")
	f.VarP(&properties{&c.TopicConfigs}, "topic-configs", "T", "topic configuration: name=value ...")
	f.VarP(&properties{&c.Producer}, "producer-configs", "P", "Java client properties of producers: name=value ...")
	f.VarP(&properties{&c.Consumer}, "consumer-configs", "C", "Java client properties of consumers: name=value ...")
	bindTopics(f, c)
	bindProducers(f, c)
	bindConsumers(f, c)
	bindPhases(f, c)
}

func bindTopics(f *pflag.FlagSet, c *Config) {
	f.BoolVar(&c.Reset, "reset", c.Reset, "first delete the topics of all earlier tests")
	f.BoolVar(&c.ReuseTopics, "reuse-topics", c.ReuseTopics, "use the topics with --topic-prefix if there are any, instead of new ones")
	f.StringVar(&c.CatchupPrefix, "catchup-topic-prefix", c.CatchupPrefix, "read the topics with this prefix from their start, and produce nothing")
	f.StringVarP(&c.TopicPrefix, "topic-prefix", "X", c.TopicPrefix, "part of topic names after "+commonPrefix+"; if not given, time and random letters")
	f.IntVarP(&c.Topics, "topics", "t", c.Topics, "topics")
	f.IntVarP(&c.Partitions, "partitions-per-topic", "n", c.Partitions, "partitions of each topic")
	f.Var((*trueOrFalse)(&c.AwaitReady), "await-topic-ready", "true or false: wait until a record went through every partition")
}

func bindProducers(f *pflag.FlagSet, c *Config) {
	f.IntVarP(&c.Producers, "producers-per-topic", "p", c.Producers, "producers of each topic")
	f.IntVarP(&c.RecordSize, "record-size", "s", c.RecordSize, "bytes of a record's value")
	f.Float64VarP(&c.RandomRatio, "random-ratio", "R", c.RandomRatio, "share of random bytes in a value, 0 to 1; the rest are zeros")
	f.IntVarP(&c.RandomPoolSize, "random-pool-size", "S", c.RandomPoolSize, "different values, if some of their bytes are random")
	f.IntVarP(&c.SendRate, "send-rate", "r", c.SendRate, "records a second of all producers")
	f.Float64VarP(&c.SendThroughput, "send-throughput", "f", c.SendThroughput, "MiB a second of all producers, instead of --send-rate")
	f.IntVarP(&c.CatchupRate, "send-rate-during-catchup", "a", c.CatchupRate, "records a second while groups catch up; if not given, --send-rate")
	f.StringVar(&c.ValueSchema, "value-schema", c.ValueSchema, "Avro schema of values; --producer-configs then needs schema.registry.url")
	f.StringVar(&c.ValuesFile, "values-file", c.ValuesFile, "file of values of --value-schema as JSON, one a line; if not given, random values")
}

func bindConsumers(f *pflag.FlagSet, c *Config) {
	f.IntVarP(&c.Groups, "groups-per-topic", "g", c.Groups, "consumer groups of each topic; 0 only produces")
	f.IntVarP(&c.Consumers, "consumers-per-group", "c", c.Consumers, "consumers of each group")
	f.IntVarP(&c.MaxConsume, "max-consume-record-rate", "m", c.MaxConsume, "records a second that all consumers take at most")
	f.IntVar(&c.CatchupPercent, "consumers-during-catchup", c.CatchupPercent, "percent of topics that are read during the catch-up; at least one is")
}

func bindPhases(f *pflag.FlagSet, c *Config) {
	f.VarP(&duration{&c.Backlog, unitSecond}, "backlog-duration", "b",
		"seconds for which consumers pause to build a backlog, at least 300; 0 for none")
	f.VarP(&duration{&c.GroupDelay, unitSecond}, "group-start-delay", "G", "seconds of records by which each group starts after the one before")
	f.VarP(&duration{&c.Warmup, unitMinute}, "warmup-duration", "w", "minutes; the rate rises during the first half")
	f.VarP(&duration{&c.Test, unitMinute}, "test-duration", "d", "minutes")
	f.VarP(&duration{&c.CatchupLimit, unitSecond}, "catchup-limit", "", "seconds after which a catch-up has failed")
	f.VarP(&duration{&c.Interval, unitSecond}, "reporting-interval", "i", "seconds between lines")
}

// SpreadLists rewrites arguments so that an option may be followed by several name=value, as in "-T a=1 b=2": each value
// gets the option's name before it. Other arguments stay as they are.
func SpreadLists(args []string) []string {
	lists := map[string]bool{}
	for long, letter := range map[string]string{"common-configs": "A", "topic-configs": "T", "producer-configs": "P", "consumer-configs": "C"} {
		lists["--"+long], lists["-"+letter] = true, true
	}
	var spread []string
	for i := 0; i < len(args); i++ {
		if !lists[args[i]] {
			spread = append(spread, args[i])
			continue
		}
		option := args[i]
		for i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			spread = append(spread, option, args[i])
		}
	}
	return spread
}

// ParseOptions reads a file of options: each line an option with its values as on the command line, or empty, or a
// comment after #.
func ParseOptions(text string) (Config, error) {
	c := DefaultConfig()
	f := pflag.NewFlagSet("perf", pflag.ContinueOnError)
	BindFlags(f, &c)
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if err := f.Parse(SpreadLists(strings.Fields(line))); err != nil {
			return Config{}, fmt.Errorf("line %d: %w", i+1, err)
		}
		if f.NArg() > 0 {
			return Config{}, fmt.Errorf("line %d: want an option before %q", i+1, f.Arg(0))
		}
	}
	return c, nil
}

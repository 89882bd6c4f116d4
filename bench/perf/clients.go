package perf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/javaconfig"
)

// clientOptions are the configurations of the clients, from the Java properties of a test.
type clientOptions struct {
	common                    javaconfig.Properties // as configured
	admin, producer, consumer []kgo.Opt
	maxPoll                   int // most records of one poll of a consumer, 0 for no bound
}

// recordOverhead is what key and header of a record take beside its value, generously.
const recordOverhead = 64

// newClientOptions reads properties; what has no meaning for these clients is a warning. valueBytes is the size of the
// largest value that will be sent.
func newClientOptions(c *Config, valueBytes int) (o clientOptions, warnings []string, err error) {
	o.common = javaconfig.Properties{}
	if c.CommonFile != "" {
		text, err := os.ReadFile(c.CommonFile)
		if err != nil {
			return o, nil, fmt.Errorf("--common-config-file: %w", err)
		}
		if o.common, err = javaconfig.Parse(string(text)); err != nil {
			return o, nil, fmt.Errorf("--common-config-file %s: %w", c.CommonFile, err)
		}
	}
	maps.Copy(o.common, c.Common)
	always := javaconfig.Properties{"bootstrap.servers": c.Bootstrap}

	admin, adminErr := javaconfig.Admin(o.common.With(always))
	sends := o.common.With(c.Producer, always, javaconfig.Properties{"partitioner.ignore.keys": "true"})
	delete(sends, registryProperty) // is for the values
	producer, producerErr := javaconfig.Producer(sends, valueBytes+recordOverhead)
	consumer, consumerErr := javaconfig.Consumer(
		o.common.With(c.Consumer, always, javaconfig.Properties{"auto.offset.reset": "latest"}))
	if err := errors.Join(
		wrap("client", adminErr), wrap("producer", producerErr), wrap("consumer", consumerErr)); err != nil {
		return o, nil, err
	}
	o.admin, o.producer, o.consumer, o.maxPoll = admin.Options, producer.Options, consumer.Options, consumer.MaxPollRecords
	warnings = slices.Concat(admin.Warnings, producer.Warnings, consumer.Warnings)
	slices.Sort(warnings)
	return o, slices.Compact(warnings), nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("configure %s: %w", what, err)
}

package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/freshet-io/freshet/bench/load"
)

// registryProperty is where Java's Avro serializer finds the schema registry.
const registryProperty = "schema.registry.url"

// registryTimeout bounds the registration of a schema.
const registryTimeout = 30 * time.Second

// confluentHeader is what Confluent's format has before a value: a zero byte, and the schema's id in the registry, 4 bytes,
// big endian.
const confluentHeader = 5

// avroPayloads gives each topic's values in Confluent's format. The schema is registered under <topic>-value.
func (t *test) avroPayloads() (func(topic string) load.Payloads, error) {
	payloads := map[string]load.Payloads{}
	for _, topic := range t.topics {
		id, err := t.register(topic.Name)
		if err != nil {
			return nil, err
		}
		header, err := new(sr.ConfluentHeader).AppendEncode(nil, id, nil)
		if err != nil {
			return nil, fmt.Errorf("encode schema id: %w", err)
		}
		for _, v := range t.values {
			payloads[topic.Name] = append(payloads[topic.Name], append(slices.Clip(header), v...))
		}
	}
	return func(topic string) load.Payloads { return payloads[topic] }, nil
}

func (t *test) register(topic string) (id int, err error) {
	url := t.cfg.Producer[registryProperty]
	if url == "" {
		return 0, errors.New("--value-schema needs --producer-configs " + registryProperty + "=URL")
	}
	client, err := sr.NewClient(sr.URLs(strings.Split(url, ",")...))
	if err != nil {
		return 0, fmt.Errorf("schema registry %s: %w", url, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), registryTimeout)
	defer cancel()
	registered, err := client.CreateSchema(ctx, topic+"-value", sr.Schema{Schema: t.cfg.ValueSchema, Type: sr.TypeAvro})
	if err != nil {
		return 0, fmt.Errorf("register the schema of %s at %s: %w", topic, url, err)
	}
	return registered.ID, nil
}

// avroValues encodes the lines of the values file, or as many random values as the pool is to have; none without a schema.
func avroValues(c *Config) ([][]byte, error) {
	if c.ValueSchema == "" {
		return nil, nil
	}
	schema, err := avro.Parse(c.ValueSchema)
	if err != nil {
		return nil, fmt.Errorf("--value-schema: %w", err)
	}
	if c.ValuesFile != "" {
		return fileValues(schema, c.ValuesFile)
	}
	values := make([][]byte, c.RandomPoolSize)
	random := randomAvro{named: map[string]*avro.SchemaNode{}}
	root := schema.Root()
	for i := range values {
		v, err := random.value(root, 0)
		if err == nil {
			values[i], err = schema.Encode(v)
		}
		if err != nil {
			return nil, fmt.Errorf("random value of --value-schema: %w", err)
		}
	}
	return values, nil
}

func fileValues(schema *avro.Schema, path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	var values [][]byte
	for i, line := range bytes.Split(text, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var v any
		if err := schema.DecodeJSON(line, &v); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, i+1, err)
		}
		encoded, err := schema.Encode(v)
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, i+1, err)
		}
		values = append(values, encoded)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%s has no values", path)
	}
	return values, nil
}

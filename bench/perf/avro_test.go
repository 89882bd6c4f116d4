package perf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

const everyType = `{"type":"record","name":"a.b.All","fields":[
	{"name":"nothing","type":"null"},{"name":"yes","type":"boolean"},{"name":"i","type":"int"},{"name":"l","type":"long"},
	{"name":"f","type":"float"},{"name":"d","type":"double"},{"name":"s","type":"string"},{"name":"b","type":"bytes"},
	{"name":"e","type":{"type":"enum","name":"Suit","symbols":["HEARTS","SPADES"]}},{"name":"e2","type":"a.b.Suit"},
	{"name":"x","type":{"type":"fixed","name":"Four","size":4}},
	{"name":"list","type":{"type":"array","items":"long"}},{"name":"map","type":{"type":"map","values":"string"}},
	{"name":"maybe","type":["null","string"]},{"name":"next","type":["null","a.b.All"]}]}`

func TestAvroValues_RandomOfEveryType(t *testing.T) {
	values, err := avroValues(&Config{ValueSchema: everyType, RandomPoolSize: 20})
	require.NoError(t, err)
	require.Len(t, values, 20)
	schema := avro.MustParse(everyType)
	for _, v := range values {
		var decoded any
		rest, err := schema.Decode(v, &decoded)
		require.NoError(t, err)
		require.Empty(t, rest)
	}
}

func TestAvroValues_Faults(t *testing.T) {
	_, err := avroValues(&Config{ValueSchema: "{"})
	require.ErrorContains(t, err, "--value-schema")
	file := filepath.Join(t.TempDir(), "values")
	require.NoError(t, os.WriteFile(file, []byte("1\n\n\"two\"\n"), 0o600))
	_, err = avroValues(&Config{ValueSchema: `"int"`, ValuesFile: file})
	require.ErrorContains(t, err, "values line 3")
	require.NoError(t, os.WriteFile(file, []byte("\n"), 0o600))
	_, err = avroValues(&Config{ValueSchema: `"int"`, ValuesFile: file})
	require.ErrorContains(t, err, "has no values")
}

// TestRun_ValuesFile: records carry the file's values in Confluent's format, under a schema that is registered for the topic.
func TestRun_ValuesFile(t *testing.T) {
	addresses, _ := cluster(t)
	registry := srfake.New()
	t.Cleanup(registry.Close)
	var out bytes.Buffer
	cfg := small(t, addresses, &out)
	file := filepath.Join(t.TempDir(), "values")
	require.NoError(t, os.WriteFile(file, []byte(`{"f1":"value1"}`+"\n"), 0o600))
	cfg.ValueSchema, cfg.ValuesFile = `{"type":"record","name":"r","fields":[{"name":"f1","type":"string"}]}`, file
	cfg.Test, cfg.Warmup = 200*time.Millisecond, 0
	ctx := within(t, time.Minute)
	_, err := Run(ctx, cfg)
	require.ErrorContains(t, err, "schema.registry.url")
	cfg.Producer = map[string]string{"schema.registry.url": registry.URL()}
	outcome, err := Run(ctx, cfg)
	require.NoError(t, err, out.String())
	require.Empty(t, outcome.Warnings)

	subject, found := registry.GetSchema("__automq_perf_small_0003_0000001-value", 1)
	require.True(t, found)
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses), kgo.ConsumeTopics("__automq_perf_small_0003_0000001"))
	require.NoError(t, err)
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		for _, r := range fetches.Records() {
			if string(r.Key) == "probe" {
				continue
			}
			id, value, err := new(sr.ConfluentHeader).DecodeID(r.Value)
			require.NoError(t, err)
			require.Equal(t, subject.ID, id)
			require.Equal(t, "\x0cvalue1", string(value))
			return
		}
	}
}

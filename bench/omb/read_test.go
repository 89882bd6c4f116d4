package omb

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/load"
)

func TestReadWorkload_EveryField(t *testing.T) {
	w, warnings, err := ReadWorkload("testdata/all-fields.yaml")
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, Workload{
		Name: "every field", Topics: 2, PartitionsPerTopic: 3, PartitionsPerTopicList: []int{1, 4}, RandomTopicNames: false,
		KeyDistributor: load.RoundRobin, MessageSize: 1024, UseRandomizedPayloads: true, RandomBytesRatio: 0.5,
		RandomizedPayloadPoolSize: 1000, PayloadFile: "payload/payload-1Kb.data", SubscriptionsPerTopic: 4, ProducersPerTopic: 5,
		ProducersPerTopicList: []int{4, 1}, ConsumerPerSubscription: 6, ProducerRate: 7000,
		ProducerRateList: [][]float64{{0, 1000}, {10, 2000}}, ConsumerBacklogSizeGB: 8, BacklogDrainRatio: 0.99,
		TestDurationMinutes: 9, WarmupDurationMinutes: 10, LogIntervalMillis: 11000, Path: "testdata/all-fields.yaml",
	}, w)
	all := reflect.ValueOf(w)
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		require.True(t, !all.Field(i).IsZero() || name == "RandomTopicNames", "the file sets %s to what it is anyway", name)
	}
}

func TestReadWorkload_Defaults(t *testing.T) {
	w, warnings, err := ReadWorkload("testdata/stock.yaml")
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, load.NoKey, w.KeyDistributor)
	require.True(t, w.RandomTopicNames)
	require.InDelta(t, 1, w.BacklogDrainRatio, 0)
	require.Equal(t, time.Minute, w.Warmup())
	require.Equal(t, 15*time.Minute, w.Test())
	require.Equal(t, 10*time.Second, w.Interval())
}

func TestReadDriver_EveryField(t *testing.T) {
	d, warnings, err := ReadDriver("testdata/driver.yaml")
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, Driver{
		Name: "Kafka", DriverClass: kafkaDriver, ReplicationFactor: 3, Reset: true,
		TopicConfig: "min.insync.replicas=2\nflush.ms=0\n", CommonConfig: "bootstrap.servers=localhost:9092\nclient.id=bench-{zone.id}\n",
		ProducerConfig: "acks=all\nlinger.ms=1\nbatch.size=1048576\n", ConsumerConfig: "auto.offset.reset=earliest\nenable.auto.commit=false\n",
	}, d)
	configs, err := d.topicConfigs()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"min.insync.replicas": "2", "flush.ms": "0"}, configs)
}

func TestDecode_UnknownFieldsAreWarnings(t *testing.T) {
	_, warnings, err := DecodeDriver(strings.NewReader("name: x\nreplicationFactor: 1\ncolour: red\ndriverClass: my.Driver\n"), "d.yaml")
	require.NoError(t, err)
	require.Equal(t, []string{
		`d.yaml: line 3: unknown field "colour" is ignored`,
		"d.yaml: driverClass my.Driver is not io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver; the file is read as if it were",
	}, warnings)
}

func TestDecode_BadFilesNameFileAndField(t *testing.T) {
	stock, err := os.ReadFile("testdata/stock.yaml")
	require.NoError(t, err)
	for change, want := range map[string]string{
		"topics: many":                                "w.yaml: yaml: unmarshal errors:\n  line 11: cannot unmarshal !!str `many` into int",
		"topics: 0":                                   "topics is 0, at least 1 is needed",
		"messageSize: 0":                              "messageSize is 0",
		"keyDistributor: SOME":                        `unknown key distributor "SOME", allowed are NO_KEY, KEY_ROUND_ROBIN, RANDOM_NANO`,
		"producersPerTopicList: [1, 2]":               "producersPerTopicList has 2 entries, topics is 1",
		"partitionsPerTopicList: [0]":                 "partitionsPerTopicList has 0, at least 1 is needed",
		"payloadFile: ''":                             "neither useRandomizedPayloads nor payloadFile is given",
		"useRandomizedPayloads: true":                 "randomizedPayloadPoolSize is 0",
		"producerRateList: [[0, 1], [1]]":             "producerRateList: entry 2 has 1 numbers",
		"producerRateList: [[24, 0, 1]]":              "producerRateList: entry 1 is no time of day",
		"producerRateList: []":                        "producerRateList: no points",
		"backlogDrainRatio: 1.5":                      "backlogDrainRatio is 1.5, allowed is 0 to 1",
		"{producerRate: 0, consumerBacklogSizeGB: 1}": "a backlog cannot be built while looking for the highest rate",
		"{producerRate: 0, subscriptionsPerTopic: 0}": "the search compares sent with received",
		"testDurationMinutes: .nan":                   "testDurationMinutes is NaN",
		"- 1":                                         "w.yaml: ",
	} {
		text := replaceFields(string(stock), change)
		_, _, err := DecodeWorkload(strings.NewReader(text), "w.yaml")
		require.ErrorContains(t, err, want, change)
		require.ErrorContains(t, err, "w.yaml", change)
	}
	_, _, err = DecodeDriver(strings.NewReader("replicationFactor: 0"), "d.yaml")
	require.ErrorContains(t, err, "d.yaml: driver: name is missing")
	require.ErrorContains(t, err, "replicationFactor is 0, allowed are -1")
	_, _, err = ReadWorkload(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// replaceFields gives the text with other values of some fields, which come last.
func replaceFields(text, change string) string {
	if strings.HasPrefix(change, "-") {
		return change
	}
	changes := strings.Split(strings.Trim(change, "{}"), ", ")
	if !strings.HasPrefix(change, "{") {
		changes = []string{change}
	}
	for _, c := range changes {
		name, _, _ := strings.Cut(c, ":")
		var kept []string
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, name+":") {
				kept = append(kept, line)
			}
		}
		text = strings.Join(kept, "") + c + "\n"
	}
	return text
}

func TestReadWorkers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "workers.yaml")
	require.NoError(t, os.WriteFile(file, []byte("workers:\n  - http://1.2.3.4:8080\n  - http://4.5.6.7:8080\n"), 0o600))
	list, err := ReadWorkers(file)
	require.NoError(t, err)
	require.Equal(t, []string{"http://1.2.3.4:8080", "http://4.5.6.7:8080"}, list)
	require.NoError(t, os.WriteFile(file, []byte("servers: []\n"), 0o600))
	_, err = ReadWorkers(file)
	require.ErrorContains(t, err, "no workers in it")
}

func TestWorkload_PayloadFileIsFoundBesideTheWorkload(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "payload"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "workloads"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "payload", "p.data"), []byte("abcd"), 0o600))
	w := Workload{MessageSize: 4, PayloadFile: "payload/p.data", Path: filepath.Join(dir, "workloads", "w.yaml")}
	p, err := w.payload()
	require.NoError(t, err)
	require.Equal(t, "abcd", string(p.Content))
	w.MessageSize = 5
	_, err = w.payload()
	require.ErrorContains(t, err, "has 4 bytes, the message size is 5")
	w.PayloadFile = "other.data"
	_, err = w.payload()
	require.ErrorContains(t, err, "looked for [\"other.data\"")
}

func TestWorkload_Drained(t *testing.T) {
	w := Workload{MessageSize: 1 << 20, ConsumerBacklogSizeGB: 100, BacklogDrainRatio: 1}
	require.EqualValues(t, 1000, w.drained())
	w.BacklogDrainRatio = 0.9
	require.EqualValues(t, 10239, w.drained(), "as in the framework: (1 - 0.9) x 102400 is just below")
}

package clients

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// codecs by the names that clients give them, in the order of partitions that tests use.
var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// header is a record header. A nil value is null.
type header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// record is what was sent or read. A nil key or value is null, an empty one is empty.
type record struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"` // ms; 0 when sending: now
	LogAppend bool     `json:"logAppend"` // whether the timestamp is the time of append
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

// result is what became of a sent record: an offset, -1 if there is none to know (acks 0), or an error.
type result struct {
	Offset    int64
	Timestamp int64
	Error     string
}

// offset is an answer about offsets; -1 is none.
type offset struct {
	Offset, Timestamp int64
}

// offsets is what a client finds in a partition: ends, the records at timestamps, the one of the largest timestamp.
type offsets struct {
	Earliest, Latest int64
	Times            []offset
	Max              offset
}

// job is something for a client to do. Fields that the kind of job does not need are zero.
type job struct {
	Op        string `json:"op"`
	Bootstrap string `json:"bootstrap"`
	Topic     string `json:"topic"`

	Partitions int32             `json:"partitions,omitempty"`
	Configs    map[string]string `json:"configs,omitempty"`

	Codec      string   `json:"codec,omitempty"`
	Acks       string   `json:"acks,omitempty"` // 0, 1, all
	Idempotent bool     `json:"idempotent"`
	BatchBytes int      `json:"batchBytes,omitempty"` // 0: the client's default
	Records    []record `json:"records,omitempty"`
	PauseMs    int      `json:"pauseMs,omitempty"`    // between records
	MetadataMs int      `json:"metadataMs,omitempty"` // how old metadata may be; 0: the client's default

	Partition  int32   `json:"partition"`
	From       string  `json:"from,omitempty"` // earliest, latest, offset, timestamp
	At         int64   `json:"at"`             // offset or timestamp
	Count      int     `json:"count"`
	Timestamps []int64 `json:"timestamps"`
}

// family is one of the client implementations that people use. Its clients live as long as one job.
type family interface {
	create(t testing.TB, j job) error
	produce(t testing.TB, j job) ([]result, error)
	consume(t testing.TB, j job) ([]record, error)
	offsets(t testing.TB, j job) (offsets, error)
}

// families by name. kcat is not one: it cannot say everything a record holds.
func families(t testing.TB) map[string]family {
	t.Helper()
	return map[string]family{
		"Java":       worker{"Java", harness.JavaWorker(t, "Worker")},
		"librdkafka": worker{"librdkafka", harness.PythonWorker(t, "worker.py")},
		"franz-go":   franz{},
		"sarama":     sarama{},
	}
}

// worker is a family in another process.
type worker struct {
	name string
	w    *harness.Worker
}

func (w worker) create(t testing.TB, j job) error {
	t.Helper()
	j.Op = "create"
	return w.w.Call(t, j, nil)
}

func (w worker) produce(t testing.TB, j job) ([]result, error) {
	t.Helper()
	j.Op = "produce"
	var out struct{ Results []result }
	err := w.w.Call(t, j, &out)
	return out.Results, err
}

func (w worker) consume(t testing.TB, j job) ([]record, error) {
	t.Helper()
	j.Op = "consume"
	var out struct{ Records []record }
	err := w.w.Call(t, j, &out)
	return out.Records, err
}

func (w worker) offsets(t testing.TB, j job) (offsets, error) {
	t.Helper()
	j.Op = "offsets"
	var out offsets
	err := w.w.Call(t, j, &out)
	return out, err
}

// told is what a family's offset answers show of a record: sarama has no timestamps, librdkafka has them of the largest
// only.
func told(f family, o offset, largest bool) offset {
	_, isSarama := f.(sarama)
	w, isWorker := f.(worker)
	if isSarama && largest {
		o.Offset = -1
	}
	if isSarama || isWorker && w.name == "librdkafka" && !largest {
		o.Timestamp = 0
	}
	return o
}

// mustCreate, mustProduce and so on fail the test on errors.
func mustCreate(t testing.TB, f family, j job) {
	t.Helper()
	require.NoError(t, f.create(t, j))
}

// mustProduce gives the offsets; every record was taken.
func mustProduce(t testing.TB, f family, j job) []int64 {
	t.Helper()
	results, err := f.produce(t, j)
	require.NoError(t, err)
	require.Len(t, results, len(j.Records))
	at := make([]int64, len(results))
	for i, r := range results {
		require.Empty(t, r.Error, "record %d", i)
		at[i] = r.Offset
	}
	return at
}

func mustConsume(t testing.TB, f family, j job) []record {
	t.Helper()
	records, err := f.consume(t, j)
	require.NoError(t, err)
	return records
}

package elastic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// job is what a family of clients is asked to do. Config has the names that Java and librdkafka share.
type job struct {
	Op         string            `json:"op"`
	Name       string            `json:"name"`
	Topic      string            `json:"topic,omitempty"`
	Partitions int               `json:"partitions,omitempty"` // of join: reads all of them, without a group
	IntervalMs int               `json:"intervalMs,omitempty"`
	Config     map[string]string `json:"config,omitempty"`
}

// marks are what became of a producer's records since it was asked last.
type marks struct {
	Micros   []int64   // from send to acknowledgement
	Failures []string  // all so far
	Oldest   int64     // age of the oldest record that is not acknowledged, in microseconds
	Offsets  [][]int64 // of finish: by partition, in the order of sending; -1: not acknowledged, -2: no offset given
}

// run is a run of one writer's records in one partition, read one after the other without a gap: [First, Next).
type run struct {
	Writer    string
	Partition int32
	First     int
	Next      int
}

// reading is what a reader has read, and what it went through.
type reading struct {
	Assigned   int // partitions that it has
	Changes    int // calls that told it of other partitions
	Losses     int // calls that told it that others had its partitions already
	Generation int // where the client tells
	Faults     []string
	Runs       []run
}

// family is one client library with a producer and any number of readers.
type family interface {
	write(t testing.TB, j job)
	mark(t testing.TB) marks
	finish(t testing.TB) marks // stops the producer, waits for what is in flight
	join(t testing.TB, j job)
	look(t testing.TB, name string) reading
	leave(t testing.TB, name string) reading
}

// foreign is a family in a worker.
type foreign struct{ w *harness.Worker }

func (f foreign) call(t testing.TB, j job, op string, result any) {
	t.Helper()
	j.Op = op
	require.NoError(t, f.w.Call(t, j, result))
}

func (f foreign) write(t testing.TB, j job) { t.Helper(); f.call(t, j, "write", nil) }

func (f foreign) join(t testing.TB, j job) { t.Helper(); f.call(t, j, "join", nil) }

func (f foreign) mark(t testing.TB) (m marks) {
	t.Helper()
	f.call(t, job{}, "mark", &m)
	return m
}

func (f foreign) finish(t testing.TB) (m marks) {
	t.Helper()
	f.call(t, job{}, "finish", &m)
	return m
}

func (f foreign) look(t testing.TB, name string) (r reading) {
	t.Helper()
	f.call(t, job{Name: name}, "look", &r)
	return r
}

func (f foreign) leave(t testing.TB, name string) (r reading) {
	t.Helper()
	f.call(t, job{Name: name}, "leave", &r)
	return r
}

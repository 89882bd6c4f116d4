// Package stock drives stock Kafka clients while a cluster changes beneath them: producers that number their records, members of
// groups that read them, and the comparison of both in the end.
package stock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// Job is what a client is asked to do. Config has the names that Java and librdkafka share.
type Job struct {
	Op         string            `json:"op"`
	Name       string            `json:"name"`
	Topic      string            `json:"topic,omitempty"`
	Partitions int               `json:"partitions,omitempty"` // Write: number of partitions to write to. Join: if set, reads all of them without a group
	IntervalMs int               `json:"intervalMs,omitempty"` // between two records in one partition
	Config     map[string]string `json:"config,omitempty"`
}

// Marks are what became of a producer's records since the last Mark.
type Marks struct {
	Micros   []int64   // from send to acknowledgement
	Failures []string  // all so far
	Oldest   int64     // age of the oldest record that is not acknowledged, in microseconds
	Offsets  [][]int64 // of Finish: by partition, in the order of sending; -1: not acknowledged, -2: no offset given
}

// Run is a run of one writer's records in one partition, read one after the other without a gap: [First, Next).
type Run struct {
	Writer    string
	Partition int32
	First     int
	Next      int
}

// Reading is what a reader has read, and what happened to it.
type Reading struct {
	Assigned   int // partitions that it has
	Changes    int // rebalance callbacks that changed the assignment
	Losses     int // callbacks that told it that others had its partitions already
	Generation int // 0 if the client does not report it
	Faults     []string
	Runs       []Run
}

// Client is one client library with a producer and any number of readers.
type Client interface {
	Write(t testing.TB, j Job)
	Mark(t testing.TB) Marks
	Finish(t testing.TB) Marks // stops the producer and waits for what is in flight
	Join(t testing.TB, j Job)
	Look(t testing.TB, name string) Reading
	Leave(t testing.TB, name string) Reading
}

// Foreign is a client library of another language, in a worker: Elastic of test/java, elastic.py of test/python.
type Foreign struct{ Worker *harness.Worker }

func (f Foreign) call(t testing.TB, j Job, op string, result any) {
	t.Helper()
	j.Op = op
	require.NoError(t, f.Worker.Call(t, j, result))
}

// Write starts the producer.
func (f Foreign) Write(t testing.TB, j Job) { t.Helper(); f.call(t, j, "write", nil) }

// Join starts a reader.
func (f Foreign) Join(t testing.TB, j Job) { t.Helper(); f.call(t, j, "join", nil) }

// Mark returns what became of the producer's records.
func (f Foreign) Mark(t testing.TB) (m Marks) {
	t.Helper()
	f.call(t, Job{}, "mark", &m)
	return m
}

// Finish stops the producer.
func (f Foreign) Finish(t testing.TB) (m Marks) {
	t.Helper()
	f.call(t, Job{}, "finish", &m)
	return m
}

// Look returns what a reader has read.
func (f Foreign) Look(t testing.TB, name string) (r Reading) {
	t.Helper()
	f.call(t, Job{Name: name}, "look", &r)
	return r
}

// Leave stops a reader.
func (f Foreign) Leave(t testing.TB, name string) (r Reading) {
	t.Helper()
	f.call(t, Job{Name: name}, "leave", &r)
	return r
}

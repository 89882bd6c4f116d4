package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/report"
	"github.com/freshet-io/freshet/internal/program"
)

// ombFiles returns a workload of a second and a driver, in the framework's file formats.
func ombFiles(t *testing.T) (workload, driver string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	dir := t.TempDir()
	workload, driver = filepath.Join(dir, "short.yaml"), filepath.Join(dir, "kafka.yaml")
	require.NoError(t, os.WriteFile(workload, []byte(`name: a short one
topics: 1
partitionsPerTopic: 2
messageSize: 100
useRandomizedPayloads: true
randomBytesRatio: 0.5
randomizedPayloadPoolSize: 10
subscriptionsPerTopic: 1
consumerPerSubscription: 2
producersPerTopic: 2
producerRate: 400
testDurationMinutes: 0.01
warmupDurationMinutes: 0
logIntervalMillis: 200
colour: red
`), 0o600))
	require.NoError(t, os.WriteFile(driver, []byte(`name: Kafka
driverClass: io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver
replicationFactor: 1
commonConfig: |
  bootstrap.servers=`+strings.Join(c.ListenAddrs(), ",")+`
producerConfig: |
  linger.ms=1
  max.block.ms=1
consumerConfig: |
  auto.offset.reset=earliest
  heartbeat.interval.ms=100
  enable.auto.commit=false
`), 0o600))
	return workload, driver
}

// runLine runs a command line and returns its output.
func runLine(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	p := bench()
	p.Environ = func() []string { return nil }
	p.Streams.In, p.Streams.Out, p.Streams.Err = strings.NewReader(""), &o, &e
	return p.Run(t.Context(), args), o.String(), e.String()
}

func TestRun_FilesToResult(t *testing.T) {
	workload, driver := ombFiles(t)
	dir := filepath.Join(t.TempDir(), "results")
	code, out, errs := runLine(t, "run", "-d", driver, "-o", dir, "--json", "--observe", fmt.Sprintf("self=%d", os.Getpid()), workload)
	require.Equal(t, program.ExitOK, code, errs)
	require.Contains(t, errs, `line 15: unknown field "colour" is ignored`)
	require.Contains(t, errs, "warning: producers: max.block.ms has no counterpart")
	require.Contains(t, errs, "WORKLOAD : a short one --- DRIVER : Kafka-")
	require.Contains(t, errs, "\nPub rate ")
	files, err := filepath.Glob(filepath.Join(dir, "short-Kafka-????-??-??-??-??-??.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	result, err := omb.ReadResult(files[0])
	require.NoError(t, err)
	require.Equal(t, "a short one", result.Workload)
	var printed omb.Result
	require.NoError(t, json.Unmarshal([]byte(out), &printed))
	require.Equal(t, result, printed)
	notes, err := os.ReadFile(report.NotesPath(files[0]))
	require.NoError(t, err)
	require.Contains(t, string(notes), `"period_seconds"`)
	require.Contains(t, string(notes), "max.block.ms has no counterpart")
	seen, err := observe.ReadFile(observe.PathFor(files[0]))
	require.NoError(t, err)
	require.Len(t, seen.Targets, 1)
	require.Equal(t, "self", seen.Targets[0].Name)
	require.GreaterOrEqual(t, len(seen.Targets[0].Samples), 2, "at the beginning and at the end")
	code, _, errs = runLine(t, "run", "-d", driver, "-o", dir, "--observe", "nothing", workload)
	require.Equal(t, program.ExitUsage, code, errs)
}

// Two workers over HTTP, one of which produces and the other one consumes, give one result.
func TestRun_TwoWorkers(t *testing.T) {
	workload, driver := ombFiles(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	addresses := make([]string, 2)
	ended := make(chan int, len(addresses))
	for i := range addresses {
		r, w := io.Pipe()
		p := bench()
		p.Environ = func() []string { return nil }
		p.Streams.In, p.Streams.Out, p.Streams.Err = strings.NewReader(""), w, io.Discard
		go func() { ended <- p.Run(ctx, []string{"worker", "--listen", "127.0.0.1:0"}) }()
		_, err := fmt.Fscanf(r, "worker listens on %s\n", &addresses[i])
		require.NoError(t, err)
	}
	dir := t.TempDir()
	code, out, errs := runLine(t, "run", "-d", driver, "-o", dir, "-w", strings.Join(addresses, ","), workload)
	require.Equal(t, program.ExitOK, code, "%s%s", out, errs)
	var sent, failed, received int
	_, err := fmt.Sscanf(out[strings.LastIndex(out, "Sent "):], "Sent %d messages, %d failed, %d received", &sent, &failed, &received)
	require.NoError(t, err, out)
	require.Greater(t, sent, 100)
	require.Zero(t, failed)
	require.Equal(t, sent, received)
	cancel()
	for range addresses {
		require.Equal(t, program.ExitOK, <-ended)
	}
}

func TestRun_Misuse(t *testing.T) {
	workload, driver := ombFiles(t)
	for want, args := range map[string][]string{
		"want workload files or names":                                       {},
		"no driver: give its file with --drivers":                            {workload},
		"no published workload of the OpenMessaging Benchmark has that name": {"-d", driver, "vanity"},
		"exclude each other":                                                 {"-d", driver, "-w", "http://a:1", "--workers-file", "x", workload},
		"want http://host:port":                                              {"-d", driver, "-w", "a:1", workload},
		"no such file or directory":                                          {"-d", driver + "x", workload},
	} {
		code, _, errs := runLine(t, append([]string{"run"}, args...)...)
		require.Equal(t, program.ExitUsage, code, want)
		require.Contains(t, errs, want)
	}
}

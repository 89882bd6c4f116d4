package ecosystem

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// ending is how long a worker may take to end when it is asked to.
const ending = 30 * time.Second

// properties are the contents of a .properties file.
type properties map[string]string

// write gives the path of a file that holds them, with others laid over them.
func (p properties) write(t *testing.T, name string) string {
	t.Helper()
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&text, "%s=%s\n", key, p[key])
	}
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// workerProperties are those of every Connect worker: strings as they are, offsets kept often.
func workerProperties(b broker, rest string) properties {
	return properties{
		"bootstrap.servers": b.bootstrap, "listeners": rest, "plugin.discovery": "service_load",
		"key.converter":   "org.apache.kafka.connect.storage.StringConverter",
		"value.converter": "org.apache.kafka.connect.storage.StringConverter", "offset.flush.interval.ms": "500",
	}
}

// answers gives a function that returns nil when a worker's REST server does.
func answers(rest string) func() error {
	return func() error {
		resp, err := http.Get(rest)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}

// terminate ends a JVM in good order.
func terminate(t *testing.T, p *testservers.Process) {
	t.Helper()
	_, err := p.Terminate(ending)
	require.ErrorContains(t, err, "exit code 143", "what a JVM says that ended in good order upon SIGTERM")
}

// appendLines appends the numbers from, from+1, ... to a file, a line each.
func appendLines(t *testing.T, file string, from, n int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer f.Close()
	for i := from; i < from+n; i++ {
		_, err := f.WriteString(strconv.Itoa(i) + "\n")
		require.NoError(t, err)
	}
}

// linesOf gives a file's lines, none if it is not there.
func linesOf(file string) []string {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(content))
}

// values are the values of all committed records of a topic.
func (b broker) values(t *testing.T, topic string) []string {
	t.Helper()
	var all []string
	for _, r := range b.committed(t, topic) {
		all = append(all, string(r.Value))
	}
	return all
}

// TestConnect_Standalone: lines of a file go through a topic into another file; after a restart both connectors go on
// where they were, so nothing is doubled and nothing is lost.
func TestConnect_Standalone(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.create(t, "piped", 1)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	rest := "http://" + testservers.Place{}.FreeAddress(t)
	worker := workerProperties(b, rest)
	worker["offset.storage.file.filename"] = filepath.Join(dir, "offsets")
	source := properties{"name": "source", "connector.class": "FileStreamSource", "tasks.max": "1", "file": in, "topic": "piped"}
	sink := properties{"name": "sink", "connector.class": "FileStreamSink", "tasks.max": "1", "file": out, "topics": "piped"}
	p := harness.ConnectProcess(t, "connect", answers(rest), "org.apache.kafka.connect.cli.ConnectStandalone",
		worker.write(t, "worker.properties"), source.write(t, "source.properties"), sink.write(t, "sink.properties"))

	appendLines(t, in, 0, 100)
	p.Launch()
	awaitLong(t, "the first lines arrive", func() bool { return len(linesOf(out)) >= 100 })
	terminate(t, p)
	appendLines(t, in, 100, 100)
	p.Launch()
	awaitLong(t, "lines of the pause arrive", func() bool { return len(linesOf(out)) >= 200 })
	appendLines(t, in, 200, 50)
	awaitLong(t, "the last lines arrive", func() bool { return len(linesOf(out)) >= 250 })
	terminate(t, p)
	require.Equal(t, numbers(250), linesOf(out))
	require.Equal(t, numbers(250), b.values(t, "piped"))
	committed, err := b.admin(t).FetchOffsets(within(t), "connect-sink")
	require.NoError(t, err)
	at, _ := committed.Lookup("piped", 0)
	require.EqualValues(t, 250, at.At)
}

// TestConnect_DistributedExactlyOnce: a distributed worker, whose configs, offsets and states are in compacted topics,
// runs a source that writes records and its offsets in one transaction. It is killed in the middle, and every line is
// there once.
func TestConnect_DistributedExactlyOnce(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.create(t, "piped", 1)
	in := filepath.Join(t.TempDir(), "in")
	rest := "http://" + testservers.Place{}.FreeAddress(t)
	worker := workerProperties(b, rest)
	maps.Copy(worker, properties{
		"group.id": "workers", "exactly.once.source.support": "enabled", "scheduled.rebalance.max.delay.ms": "0",
		"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "rebalance.timeout.ms": "10000",
		"config.storage.topic": "connect-configs", "offset.storage.topic": "connect-offsets", "status.storage.topic": "connect-status",
		"config.storage.replication.factor": "1", "offset.storage.replication.factor": "1", "status.storage.replication.factor": "1",
		"offset.storage.partitions": "3", "status.storage.partitions": "1",
		// A worker starts by reading the offsets to their end, past the transaction that the killed one left open.
		"producer.transaction.timeout.ms": "5000",
	})
	p := harness.ConnectProcess(t, "connect", answers(rest), "org.apache.kafka.connect.cli.ConnectDistributed", worker.write(t, "worker.properties"))
	p.Launch()
	appendLines(t, in, 0, 1)
	awaitLong(t, "the worker takes a connector", func() bool {
		return put(rest+"/connectors/source/config", properties{
			"connector.class": "FileStreamSource", "tasks.max": "1", "file": in, "topic": "piped", "exactly.once.support": "required",
		})
	})
	admin := b.admin(t)
	written := 1
	// writing appends lines, a few at a time so that there are many transactions, until so many offsets are committed.
	writing := func(until int64) {
		awaitLong(t, fmt.Sprintf("%d offsets are committed", until), func() bool {
			appendLines(t, in, written, 5)
			written += 5
			ends, err := admin.ListCommittedOffsets(within(t), "piped")
			end, ok := ends.Lookup("piped", 0)
			return err == nil && ok && end.Offset >= until
		})
	}
	writing(100)
	p.Kill()
	p.Launch()
	writing(200)
	writing(int64(written) + 200)
	awaitLong(t, "all lines arrive", func() bool { return slices.Contains(b.values(t, "piped"), strconv.Itoa(written-1)) })
	p.Kill()
	require.Equal(t, numbers(written), b.values(t, "piped"))
}

// put gives a worker the config of a connector and tells whether it took it.
func put(url string, config properties) bool {
	body, err := json.Marshal(config)
	if err != nil {
		return false
	}
	req, err := http.NewRequest(http.MethodPut, url, bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode < http.StatusBadRequest
}

package ecosystem

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

const (
	vocabulary    = 40
	wordsPerLine  = 5
	lineInterval  = 10 * time.Millisecond
	countsBetween = 1500 // further counts to see before something else happens
)

// TestStreams_ExactlyOnce counts words by Kafka Streams with exactly_once_v2 while the application is restarted, killed,
// and the brokers are killed under it. Every count goes to the output, so of each word a reader of committed records
// must see 1, 2, 3 and so on up to the number written, each once.
func TestStreams_ExactlyOnce(t *testing.T) {
	t.Parallel()
	b := startCluster(t)
	b.create(t, "lines", 4)
	b.create(t, "counts", 3)
	app := application{b: b, stateDir: t.TempDir()}
	lines := writeLines(t, b, "lines")
	seen := watchCounts(t, b, "counts")

	worker := app.start(t, harness.JavaWorker)
	seen.more(t, worker)
	worker.Close(t)
	worker = app.start(t, harness.LoneJavaWorker)
	seen.more(t, worker)
	worker.Kill()
	worker = app.start(t, harness.JavaWorker)
	seen.more(t, worker)
	for _, f := range b.faults {
		began := time.Now()
		f.strike(t, func() { seen.more(t, worker) })
		t.Logf("%s: %d further counts after %s", f.what, countsBetween, time.Since(began).Round(time.Millisecond))
		seen.more(t, worker)
	}

	written := lines.finish(t)
	total := 0
	for _, n := range written {
		total += n
	}
	awaitLong(t, "all words are counted", func() bool { return seen.records.Load() >= int64(total) })
	worker.Close(t)
	checkCounts(t, b.committed(t, "counts"), written)
	checkChangelog(t, b, "wordcount-counts-changelog", written)
}

// application is the Java program that counts.
type application struct {
	b        broker
	stateDir string
}

// start gives one that has begun to count, by JavaWorker or LoneJavaWorker.
func (a application) start(t *testing.T, run func(testing.TB, string) *harness.Worker) *harness.Worker {
	t.Helper()
	w := run(t, "WordCount")
	require.NoError(t, w.Call(t, map[string]string{
		"op": "start", "bootstrap": a.b.bootstrap, "application": "wordcount", "input": "lines", "output": "counts",
		"stateDir": a.stateDir,
	}, nil))
	return w
}

// lines is a producer that writes lines of words until it is told to end.
type lines struct {
	client *kgo.Client
	stop   context.CancelFunc
	ended  chan struct{}
	words  map[string]int // written; after ended
	failed atomic.Pointer[error]
}

func writeLines(t *testing.T, b broker, topic string) *lines {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &lines{client: b.client(t, kgo.DefaultProduceTopic(topic)), stop: stop, ended: make(chan struct{}), words: make(map[string]int)}
	t.Cleanup(stop)
	go func() {
		defer close(l.ended)
		tick := time.NewTicker(lineInterval)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.write(i)
			}
		}
	}()
	return l
}

// write writes line number i.
func (l *lines) write(i int) {
	words := make([]string, wordsPerLine)
	for w := range words {
		words[w] = fmt.Sprintf("w%d", (i*wordsPerLine+w*w+i/vocabulary)%vocabulary)
		l.words[words[w]]++
	}
	record := &kgo.Record{Key: []byte(strconv.Itoa(i)), Value: []byte(strings.Join(words, " "))}
	l.client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
		if err != nil {
			l.failed.Store(&err)
		}
	})
}

// finish ends the producer and gives how often each word was written.
func (l *lines) finish(t *testing.T) map[string]int {
	t.Helper()
	l.stop()
	<-l.ended
	require.NoError(t, l.client.Flush(within(t)))
	require.Nil(t, l.failed.Load())
	return l.words
}

// counts is a reader of committed counts, which tells how many there are.
type counts struct{ records atomic.Int64 }

func watchCounts(t *testing.T, b broker, topic string) *counts {
	t.Helper()
	c := &counts{}
	client := b.client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			c.records.Add(int64(client.PollFetches(ctx).NumRecords()))
		}
	})
	t.Cleanup(func() {
		stop()
		reading.Wait()
	})
	return c
}

// more waits until further counts were committed, and checks that the application is well.
func (c *counts) more(t *testing.T, application *harness.Worker) {
	t.Helper()
	want := c.records.Load() + countsBetween
	awaitLong(t, "further counts", func() bool {
		var is struct{ State, Failure string }
		require.NoError(t, application.Call(t, map[string]string{"op": "look"}, &is))
		require.Empty(t, is.Failure)
		require.NotContains(t, []string{"ERROR", "PENDING_ERROR", "NOT_RUNNING"}, is.State)
		return c.records.Load() >= want
	})
}

// checkCounts: of each word every count was written once, in order.
func checkCounts(t *testing.T, records []*kgo.Record, written map[string]int) {
	t.Helper()
	counted := make(map[string]int)
	for _, r := range records {
		count, err := strconv.Atoi(string(r.Value))
		require.NoError(t, err)
		word := string(r.Key)
		require.Equal(t, counted[word]+1, count, "%s at %d/%d", word, r.Partition, r.Offset)
		counted[word] = count
	}
	require.Equal(t, written, counted)
	t.Logf("%d words counted", len(records))
}

// checkChangelog: the store's changelog is a compacted topic whose last values are the counts.
func checkChangelog(t *testing.T, b broker, topic string, written map[string]int) {
	t.Helper()
	configs, err := b.admin(t).DescribeTopicConfigs(within(t), topic)
	require.NoError(t, err)
	config, err := configs.On(topic, nil)
	require.NoError(t, err)
	require.Equal(t, "compact", configValue(config, "cleanup.policy"))
	last := make(map[string]int)
	for _, r := range b.committed(t, topic) {
		last[string(r.Key)] = int(binary.BigEndian.Uint64(r.Value))
	}
	require.Equal(t, written, last)
}

func configValue(r kadm.ResourceConfig, key string) string {
	for _, c := range r.Configs {
		if c.Key == key && c.Value != nil {
			return *c.Value
		}
	}
	return ""
}

// awaitLong polls until the condition holds, for as long as the limit.
func awaitLong(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(limit); !holds(); <-poll.C {
		require.True(t, time.Now().Before(deadline), "not within %s: %s", limit, what)
	}
}

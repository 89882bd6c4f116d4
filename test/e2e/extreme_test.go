package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	extremePartitions = 3
	extremeNeighbours = 50
	// extremeSenders is how many connections send extreme batches at the same time.
	extremeSenders = 4
)

// extremeTopics are the topics of the test, by what they do with a batch. Nothing expires in them, and nothing is compacted away.
var extremeTopics = map[string]map[string]string{
	"plain":     {},
	"open":      {"message.timestamp.before.max.ms": "9223372036854775807", "message.timestamp.after.max.ms": "9223372036854775807"},
	"stamped":   {"message.timestamp.type": "LogAppendTime"},
	"packed":    {"compression.type": "zstd"},
	"compacted": {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"},
	"unopened":  {}, // where batches are accepted that clients cannot read
}

// place is where a record is.
type place struct {
	topic     string
	partition int32
	offset    int64
}

// extremeWorld is `freshet dev`, well-behaved clients and what they were answered.
type extremeWorld struct {
	t         *testing.T
	bootstrap string
	kafka     bool // the server is Apache Kafka

	mu struct {
		sync.Mutex
		acked   map[place]string
		aborted map[place]string
		extreme map[place]string // accepted extreme batches, by base offset
		answers map[string][4]string
	}
}

func newExtremeWorld(t *testing.T, bootstrap string) *extremeWorld {
	t.Helper()
	w := &extremeWorld{t: t, bootstrap: bootstrap}
	w.mu.acked, w.mu.aborted, w.mu.extreme, w.mu.answers = map[place]string{}, map[place]string{}, map[place]string{}, map[string][4]string{}
	return w
}

func (w *extremeWorld) createTopics() {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.bootstrap))
	require.NoError(w.t, err)
	defer client.Close()
	for topic, configs := range extremeTopics {
		all := map[string]*string{"retention.ms": kadm.StringPtr("-1")}
		for k, v := range configs {
			all[k] = &v
		}
		_, err := kadm.NewClient(client).CreateTopic(w.t.Context(), extremePartitions, 1, all, topic)
		require.NoError(w.t, err)
	}
}

// TestDev_ExtremeBatchesBesideOthers sends one batch of each extreme kind among 50 clients that produce all the time without
// retries. The clients see success alone, and read each of their records back once and in order, also after kill -9.
func TestDev_ExtremeBatchesBesideOthers(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	w := newExtremeWorld(t, d.Bootstrap)
	w.createTopics()
	rows := extremeBatches(t)

	stop := make(chan struct{})
	var neighbours sync.WaitGroup
	var rounds [extremeNeighbours]atomic.Int64
	for n := range extremeNeighbours {
		neighbours.Go(func() { w.neighbour(n, &rounds[n], stop) })
	}
	everyone := func(least int64) {
		harness.Await(t, "every client's records to be acknowledged", func() bool {
			return leastOf(&rounds) >= least || t.Failed()
		})
	}
	everyone(1)
	w.sendAll(rows)
	everyone(leastOf(&rounds) + 2)
	close(stop)
	neighbours.Wait()
	w.logAnswers()
	require.False(t, t.Failed())
	w.checkErrors(d.HTTP, rows)

	w.check()
	d.Kill()
	d.Restart()
	w.check()
}

func leastOf(rounds *[extremeNeighbours]atomic.Int64) int64 {
	least := rounds[0].Load()
	for i := range rounds {
		least = min(least, rounds[i].Load())
	}
	return least
}

// neighbour is a well-behaved client: it writes a record to each partition of a topic, waits for all, and begins anew. Any
// error fails the test. A fifth of the clients write in transactions, of which every third is aborted.
func (w *extremeWorld) neighbour(n int, rounds *atomic.Int64, stop <-chan struct{}) {
	topic := slices.Sorted(maps.Keys(extremeTopics))[n%len(extremeTopics)]
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(w.bootstrap), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordRetries(0),
		kgo.ProducerBatchCompression(codecs[n/2%len(codecs)]),
	}
	transactional := false
	switch n / 10 {
	case 0:
		options = append(options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	case 1:
		options = append(options, kgo.DisableIdempotentWrite())
	case 2:
		transactional = true
		options = append(options, kgo.TransactionalID(fmt.Sprintf("neighbour-%d", n)))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		w.t.Errorf("neighbour %d: %v", n, err)
		return
	}
	defer client.Close()
	for ; ; rounds.Add(1) {
		select {
		case <-stop:
			return
		default:
		}
		if err := w.round(client, n, rounds.Load(), transactional); err != nil {
			w.t.Errorf("neighbour %d of %s, round %d: %v", n, topic, rounds.Load(), err)
			return
		}
	}
}

// round is what a neighbour writes at once.
func (w *extremeWorld) round(client *kgo.Client, n int, round int64, transactional bool) error {
	abort := transactional && round%3 == 2
	if transactional {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
	}
	var records []*kgo.Record
	for p := range int32(extremePartitions) {
		value := fmt.Sprintf("neighbour/%d/%d", n, round)
		records = append(records, &kgo.Record{Partition: p, Key: fmt.Appendf(nil, "%s/%d", value, p), Value: []byte(value)})
	}
	if err := client.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		return err
	}
	if transactional {
		if err := client.EndTransaction(w.t.Context(), kgo.TransactionEndTry(!abort)); err != nil {
			return fmt.Errorf("end transaction: %w", err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	into := w.mu.acked
	if abort {
		into = w.mu.aborted
	}
	for _, r := range records {
		into[place{r.Topic, r.Partition, r.Offset}] = string(r.Value)
	}
	return nil
}

// sendAll sends the extreme batches from a few connections.
func (w *extremeWorld) sendAll(rows [][]extremeBatch) {
	next := make(chan []extremeBatch)
	var senders sync.WaitGroup
	for range extremeSenders {
		senders.Go(func() {
			c := &rawConn{address: w.bootstrap}
			defer c.close()
			for row := range next {
				for i := range row {
					w.send(c, &row[i])
				}
			}
		})
	}
	for _, row := range rows {
		next <- row
	}
	close(next)
	senders.Wait()
}

// send sends an extreme batch, with a good one beside it unless the whole request is refused, and compares the answers.
func (w *extremeWorld) send(c *rawConn, e *extremeBatch) {
	in := kmsg.NewPtrProduceRequest()
	in.SetVersion(11)
	in.Acks, in.TimeoutMillis, in.TransactionID = -1, 30_000, e.txn
	appendPart := func(topic string, partition int32, records []byte) {
		t := kmsg.NewProduceRequestTopic()
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = partition, records
		t.Topic, t.Partitions = topic, append(t.Partitions, p)
		in.Topics = append(in.Topics, t)
	}
	appendPart(e.topic, e.partition, e.records)
	besideTopic, besidePartition := "open", max(e.partition, 0)%extremePartitions
	if e.topic == besideTopic {
		besideTopic = "plain"
	}
	beside := "beside/" + e.topic + "/" + e.name
	alone := e.silent || w.kafka || kafkaproto.IsTransactional(e.records)
	if !alone {
		appendPart(besideTopic, besidePartition, batchOf(beside))
	}
	if e.silent {
		in.Acks = 0
		w.answered(e, c.sendOnly(in))
		return
	}
	resp, err := c.do(in)
	if err != nil {
		w.answered(e, fmt.Errorf("connection: %w", err))
		return
	}
	answers := map[string]kmsg.ProduceResponseTopicPartition{} // by topic; Kafka's brokers answer them in any order
	for _, t := range resp.(*kmsg.ProduceResponse).Topics {
		answers[t.Topic] = t.Partitions[0]
	}
	first, answered := answers[e.topic]
	if !answered {
		w.answered(e, errors.New("no answer for the partition"))
		return
	}
	w.mu.Lock()
	if first.ErrorCode == 0 {
		w.mu.extreme[place{e.topic, e.partition, first.BaseOffset}] = e.name
	}
	if !alone {
		good := answers[besideTopic]
		if good.ErrorCode != 0 {
			w.t.Errorf("%s: the good batch in the same request: %v", e.name, kerr.ErrorForCode(good.ErrorCode))
		}
		w.mu.acked[place{besideTopic, besidePartition, good.BaseOffset}] = beside
	}
	w.mu.Unlock()
	w.answered(e, kerr.ErrorForCode(first.ErrorCode))
}

// answered compares an answer with the expected one. A connection that was closed is right after acks=0 alone.
func (w *extremeWorld) answered(e *extremeBatch, got error) {
	said := "accepted"
	var code *kerr.Error
	switch {
	case errors.As(got, &code):
		said = code.Message
	case got != nil:
		said = got.Error()
	}
	want := e.answer()
	if w.kafka {
		want = cmp.Or(e.kafka, want)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.answers[e.topic+" "+e.name] = [4]string{e.topic, e.name, said, cmp.Or(e.kafka, "same")}
	if said != want {
		w.t.Errorf("%s, %s: answer %q, want %q", e.topic, e.name, said, want)
	}
}

func (w *extremeWorld) logAnswers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "topic\tbatch\tanswer\tApache Kafka")
	for _, key := range slices.Sorted(maps.Keys(w.mu.answers)) {
		row := w.mu.answers[key]
		fmt.Fprintln(table, strings.Join(row[:], "\t"))
	}
	require.NoError(w.t, table.Flush())
	w.t.Logf("%d kinds of batches, %d of them accepted; %d records acknowledged beside them\n%s",
		len(w.mu.answers), len(w.mu.extreme), len(w.mu.acked)+len(w.mu.aborted), b.String())
}

// check reads all partitions in three ways: batch by batch, and with consumers of both isolation levels where they can read
// all batches.
func (w *extremeWorld) check() {
	w.t.Helper()
	w.inOrder()
	for _, isolation := range []int8{0, 1} {
		w.checkRaw(isolation)
	}
	w.checkConsumer(kgo.ReadUncommitted(), true)
	w.checkConsumer(kgo.ReadCommitted(), false)
	w.checkListOffsets()
}

// checkErrors checks that no error was answered but those to extreme batches: clients try again by themselves after some. Bundles
// must have been shared, without which the test would show nothing.
func (w *extremeWorld) checkErrors(address string, rows [][]extremeBatch) {
	w.t.Helper()
	refused := 0.0
	for _, row := range rows {
		for i := range row {
			if row[i].want != nil {
				refused++
			}
		}
	}
	metric := func(name string, labels ...string) float64 {
		n, err := harness.Metric(address, name, labels...)
		require.NoError(w.t, err)
		return n
	}
	harness.Await(w.t, "the last answers to be counted", func() bool { return metric("freshet_kafka_errors_total", `api="Produce"`) >= refused })
	require.InDelta(w.t, refused, metric("freshet_kafka_errors_total", `api="Produce"`), 0, "errors answered to Produce")
	batches, bundles := len(w.mu.acked)+len(w.mu.aborted)+len(w.mu.extreme), metric("freshet_writer_bundle_bytes_count")
	w.t.Logf("%d batches in %.0f bundles", batches, bundles)
	require.Less(w.t, 4*bundles, float64(batches))
}

// inOrder checks that the answered offsets of each client rise in each partition.
func (w *extremeWorld) inOrder() {
	w.t.Helper()
	type writer struct {
		topic     string
		partition int32
		client    int
	}
	rounds := map[writer]map[int]int64{}
	for _, values := range []map[place]string{w.mu.acked, w.mu.aborted} {
		for at, value := range values {
			var n, round int
			if _, err := fmt.Sscanf(value, "neighbour/%d/%d", &n, &round); err != nil {
				continue
			}
			key := writer{at.topic, at.partition, n}
			if rounds[key] == nil {
				rounds[key] = map[int]int64{}
			}
			rounds[key][round] = at.offset
		}
	}
	for key, offsets := range rounds {
		for round := range len(offsets) {
			require.Contains(w.t, offsets, round, "%v", key)
			if round > 0 {
				require.Greater(w.t, offsets[round], offsets[round-1], "%v", key)
			}
		}
	}
}

// checkConsumer reads what a client of the isolation level shows, up to a last record in each partition.
func (w *extremeWorld) checkConsumer(isolation kgo.IsolationLevel, aborted bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	topics := slices.DeleteFunc(slices.Sorted(maps.Keys(extremeTopics)), func(topic string) bool { return topic == "unopened" })
	client, err := kgo.NewClient(kgo.SeedBrokers(w.bootstrap), kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(isolation),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(w.t, err)
	defer client.Close()
	var ends []*kgo.Record
	for _, topic := range topics {
		for p := range int32(extremePartitions) {
			ends = append(ends, &kgo.Record{Topic: topic, Partition: p, Key: []byte("end"), Value: []byte("end")})
		}
	}
	require.NoError(w.t, client.ProduceSync(ctx, ends...).FirstErr())
	left := map[place]bool{}
	for _, r := range ends {
		left[place{r.Topic, r.Partition, r.Offset}] = true
	}
	got := map[place]string{}
	extreme := 0
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		require.NoError(w.t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			at := place{r.Topic, r.Partition, r.Offset}
			delete(left, at)
			switch {
			case string(r.Value) == "end":
			case wellBehaved(string(r.Value)):
				require.NotContains(w.t, got, at)
				got[at] = string(r.Value)
			default:
				extreme++
			}
		})
	}
	require.Positive(w.t, extreme)
	require.Equal(w.t, w.expected(aborted, "unopened"), got)
}

func wellBehaved(value string) bool {
	return strings.HasPrefix(value, "neighbour/") || strings.HasPrefix(value, "beside/")
}

// expected returns what the well-behaved clients wrote.
func (w *extremeWorld) expected(aborted bool, without string) map[place]string {
	all := maps.Clone(w.mu.acked)
	if aborted {
		maps.Copy(all, w.mu.aborted)
	}
	maps.DeleteFunc(all, func(at place, _ string) bool { return at.topic == without })
	return all
}

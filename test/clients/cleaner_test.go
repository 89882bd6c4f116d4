package clients

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/job/clean"
	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	background "github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	cleanerRounds = 4
	cleanerSteps  = 40 // batches and ends of transactions in a round
	// shortRetention is a delete.retention.ms that is over between two rounds.
	shortRetention = 1500 * time.Millisecond
	cleanerLimit   = 3 * time.Minute
)

// compareCleaners lets Apache Kafka's own log cleaner and ours clean the same batches, round by round, each from
// what it left the time before: what stays must be the same records at the same offsets.
func compareCleaners(t *testing.T, kafka *harness.Kafka) {
	t.Helper()
	topics := []*cleanedTopic{
		newCleanedTopic(t, kafka.Bootstrap, kafka.LogDir, "short", shortRetention),
		newCleanedTopic(t, kafka.Bootstrap, kafka.LogDir, "long", 24*time.Hour),
		newCleanedTopic(t, kafka.Bootstrap, kafka.LogDir, "recompressed", shortRetention, "compression.type", "zstd"),
		newCleanedTopic(t, kafka.Bootstrap, kafka.LogDir, "both", shortRetention, "cleanup.policy", "compact,delete"),
		newCleanedTopic(t, kafka.Bootstrap, kafka.LogDir, "stamped", shortRetention, "message.timestamp.type", "LogAppendTime"),
	}
	for round := range cleanerRounds {
		for _, c := range topics {
			c.write(t)
		}
		for _, c := range topics {
			upTo := c.awaitCleaned(t)
			c.compare(t, round, upTo)
		}
		for cleaned := time.Now(); time.Since(cleaned) < shortRetention+time.Second; { // from the last cleaning to the next
			time.Sleep(100 * time.Millisecond) // sleeps: what Kafka's clock says of horizons can only be waited for
		}
	}
	for _, c := range topics {
		require.Positive(t, c.removed, "of %s", c.name)
		require.Positive(t, c.log.CleanedTo)
	}
}

// cleanedTopic is a topic of one partition, in Kafka and as it would be stored here.
type cleanedTopic struct {
	name      string
	conn      *wire
	admin     *kadm.Client
	dir       string // Kafka's log directory
	retention time.Duration

	plain   []*kgo.Client
	tellers []*kgo.Client
	open    []bool // of each teller
	rand    *rand.Rand
	at      time.Time // the next record's timestamp

	log     *cleantest.Log // cleaned at once
	bounded *cleantest.Log // cleaned by parts, with memory for few keys
	removed int
}

func newCleanedTopic(t *testing.T, bootstrap, dir, name string, retention time.Duration, configs ...string) *cleanedTopic {
	t.Helper()
	c := &cleanedTopic{
		name: name, conn: dial(t, bootstrap), dir: dir, retention: retention, log: cleantest.New(), bounded: cleantest.New(),
		rand: rand.New(rand.NewPCG(uint64(len(name)), 1)), at: time.Now().Add(-10 * time.Minute),
	}
	client := func(more ...kgo.Opt) *kgo.Client {
		client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(name)}, more...)...)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		return client
	}
	c.admin = kadm.NewClient(client())
	settings := map[string]*string{
		"cleanup.policy": kadm.StringPtr("compact"), "segment.ms": kadm.StringPtr("400"),
		"min.cleanable.dirty.ratio": kadm.StringPtr("1"), "delete.retention.ms": kadm.StringPtr(fmt.Sprint(retention.Milliseconds())),
	}
	for i := 0; i < len(configs); i += 2 {
		settings[configs[i]] = &configs[i+1]
	}
	created, err := c.admin.CreateTopic(t.Context(), 1, 1, settings, name)
	require.NoError(t, err)
	require.NoError(t, created.Err)
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for i, codec := range codecs {
		opts := []kgo.Opt{kgo.ProducerBatchCompression(codec)}
		if i%2 == 0 {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		c.plain = append(c.plain, client(opts...))
		c.tellers = append(c.tellers, client(kgo.ProducerBatchCompression(codec), kgo.TransactionalID(name+"-"+fmt.Sprint(i))))
	}
	c.open = make([]bool, len(c.tellers))
	return c
}

// write appends a round's history while the cleaner is kept from it, and lets it clean.
func (c *cleanedTopic) write(t *testing.T) {
	t.Helper()
	c.configure(t, "1")
	c.history(t)
	// Enough later that the segment ends: Kafka never cleans the last one.
	c.at = c.at.Add(time.Second)
	if c.name == "stamped" {
		time.Sleep(500 * time.Millisecond) // sleeps: segment.ms by the broker's clock
	}
	c.produce(t, c.plain[0], 1)
	c.mirror(t)
	c.configure(t, "0")
}

// history appends batches, plain and of transactions, all of which have ended then.
func (c *cleanedTopic) history(t *testing.T) {
	t.Helper()
	for range cleanerSteps {
		i := c.rand.IntN(len(c.tellers))
		switch c.rand.IntN(3) {
		case 0:
			c.produce(t, c.plain[i], 1+c.rand.IntN(6))
		case 1:
			c.tell(t, i)
		default:
			c.end(t, i)
		}
	}
	for i := range c.tellers { // what is open keeps Kafka from cleaning what comes after
		c.end(t, i)
	}
}

// last appends a record of a key of its own, which no cleaning removes, whether it gets there or not.
func (c *cleanedTopic) last(t *testing.T) {
	t.Helper()
	r := &kgo.Record{Key: []byte("last"), Value: []byte("last"), Timestamp: c.at}
	require.NoError(t, c.plain[0].ProduceSync(t.Context(), r).FirstErr())
}

// high gives the partition's high watermark.
func (c *cleanedTopic) high(t *testing.T) int64 {
	t.Helper()
	resp := ask[*kmsg.ListOffsetsResponse](t, c.conn, listOffset(c.name, 0, -1), 7)
	require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
	return resp.Topics[0].Partitions[0].Offset
}

func (c *cleanedTopic) configure(t *testing.T, ratio string) {
	t.Helper()
	answers, err := c.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "min.cleanable.dirty.ratio", Value: &ratio}}, c.name)
	require.NoError(t, err)
	require.NoError(t, answers[0].Err)
}

// tell writes a batch of a transaction, which it begins if need be.
func (c *cleanedTopic) tell(t *testing.T, i int) {
	t.Helper()
	if !c.open[i] {
		require.NoError(t, c.tellers[i].BeginTransaction())
		c.open[i] = true
	}
	c.produce(t, c.tellers[i], 1+c.rand.IntN(4))
}

func (c *cleanedTopic) end(t *testing.T, i int) {
	t.Helper()
	if !c.open[i] {
		return
	}
	before := c.high(t)
	require.NoError(t, c.tellers[i].EndTransaction(t.Context(), kgo.TransactionEndTry(c.rand.IntN(2) == 0)))
	c.open[i] = false
	for end := time.Now().Add(cleanerLimit); c.high(t) == before; { // Kafka writes the marker after it has answered
		require.True(t, time.Now().Before(end), "marker in %s", c.name)
	}
}

func (c *cleanedTopic) produce(t *testing.T, client *kgo.Client, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		c.at = c.at.Add(40 * time.Millisecond)
		r := &kgo.Record{
			Key: fmt.Append(nil, "key-", c.rand.IntN(25)), Value: fmt.Append(nil, strings.Repeat("v", c.rand.IntN(200)), c.rand.Int()), Timestamp: c.at,
		}
		switch c.rand.IntN(8) {
		case 0, 1:
			r.Value = nil
		case 2:
			r.Headers = []kgo.RecordHeader{{Key: "h", Value: r.Key}, {Key: "null"}}
		}
		records[i] = r
	}
	require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())
}

// mirror takes over the batches that Kafka got since the last time.
func (c *cleanedTopic) mirror(t *testing.T) {
	t.Helper()
	stored := fetchAll(t, c.conn, c.name, c.log.High)
	for _, l := range []*cleantest.Log{c.log, c.bounded} {
		for _, b := range stored.batches {
			l.AppendAbsolute(t, b)
		}
		for _, a := range stored.aborted {
			if a.Last >= l.CleanedTo {
				l.Aborted = append(l.Aborted, a)
			}
		}
	}
}

// awaitCleaned waits until Kafka has cleaned all but its last segment, and gives where that begins.
func (c *cleanedTopic) awaitCleaned(t *testing.T) (upTo int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, c.name+"-0", "*.log"))
	require.NoError(t, err)
	for _, f := range files {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(f), ".log"), 10, 64)
		require.NoError(t, err)
		upTo = max(upTo, base)
	}
	require.Greater(t, upTo, c.log.CleanedTo, "%s has a segment to clean", c.name)
	end := time.Now().Add(cleanerLimit)
	for c.checkpoint() < upTo {
		require.True(t, time.Now().Before(end), "%s is not clean up to %d", c.name, upTo)
		time.Sleep(50 * time.Millisecond) // sleeps: Kafka's cleaner says it in a file
	}
	require.Equal(t, upTo, c.checkpoint())
	return upTo
}

// checkpoint reads up to where Kafka has cleaned the partition: a version, a count, and lines of topic, partition, offset.
func (c *cleanedTopic) checkpoint() int64 {
	text, _ := os.ReadFile(filepath.Join(c.dir, "cleaner-offset-checkpoint"))
	for line := range strings.Lines(string(text)) {
		var offset int64
		if n, _ := fmt.Sscanf(line, c.name+" 0 %d", &offset); n == 1 {
			return offset
		}
	}
	return 0
}

// compare cleans as far as Kafka did and compares what is left.
func (c *cleanedTopic) compare(t *testing.T, round int, upTo int64) {
	t.Helper()
	before := len(c.log.Batches(t))
	spec := background.CleanSpec{NowMs: time.Now().UnixMilli(), DeleteRetentionMs: c.retention.Milliseconds(), MaxBatchBytes: 1 << 20}
	c.run(t, c.log, upTo, spec, c.log.Env())
	for c.bounded.CleanedTo < upTo {
		env := c.bounded.Env()
		env.MapBytes = 24 * 12
		c.run(t, c.bounded, upTo, spec, env)
	}
	kafka := fetchAll(t, c.conn, c.name, 0)
	want := list(t, kafka.batches, records)
	require.Equal(t, want, list(t, c.log.Batches(t), records), "%s, round %d", c.name, round)
	require.Equal(t, want, list(t, c.bounded.Batches(t), records), "%s, round %d, by parts", c.name, round)
	// Kafka keeps a producer's last batch for its sequence, without records, and with it the marker; we need neither.
	require.Subset(t, list(t, kafka.batches, markers), list(t, c.log.Batches(t), markers), "%s, round %d", c.name, round)
	// And it forgets an aborted transaction with its data, where we do with its marker.
	require.Subset(t, c.log.Aborted, kafka.aborted, "%s, round %d", c.name, round)
	after := len(c.log.Batches(t))
	t.Logf("%s, round %d: %d records left, %d of %d batches", c.name, round, len(want), after, before)
	c.removed += before - after
}

func (c *cleanedTopic) run(t *testing.T, l *cleantest.Log, upTo int64, spec background.CleanSpec, env clean.Env) {
	t.Helper()
	o, err := clean.Run(t.Context(), l.Plan(upTo, spec), func(int64) {}, env)
	require.NoError(t, err)
	l.Apply(t, &o)
}

// line tells a record from every other.
func line(r *cleantest.Record) string {
	value := "null"
	if r.Value != nil {
		value = fmt.Sprintf("%x", sha256.Sum256(r.Value))[:12]
	}
	return fmt.Sprintf("%d: %s = %s at %d, headers %q", r.Offset, r.Key, value, r.Timestamp, r.Headers)
}

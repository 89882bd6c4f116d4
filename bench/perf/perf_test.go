package perf

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Tests wait most of the time, so more of them run at once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// cluster starts a fake cluster; its groups do not wait for more members.
func cluster(t *testing.T) (addresses string, admin *kadm.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return c.ListenAddrs()[0], kadm.NewClient(client)
}

// small is a test of 2 x 3 partitions, 2 groups, and 200 records of 100 bytes a second.
func small(t *testing.T, addresses string, out *bytes.Buffer) Config {
	t.Helper()
	c := DefaultConfig()
	c.Bootstrap, c.TopicPrefix, c.Topics, c.Partitions, c.Groups, c.Producers = addresses, "small", 2, 3, 2, 2
	c.RecordSize, c.SendRate, c.Interval, c.ResultDir, c.Out = 100, 200, 250*time.Millisecond, t.TempDir(), out
	c.Warmup, c.Test, c.MinBacklog = 300*time.Millisecond, 500*time.Millisecond, 0
	c.ApplyDefaults()
	require.NoError(t, c.Validate())
	return c
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// stored counts the records in the topics of small tests.
func stored(ctx context.Context, t *testing.T, admin *kadm.Client) (records int64) {
	t.Helper()
	ends, err := admin.ListEndOffsets(ctx, "__automq_perf_small_0003_0000000", "__automq_perf_small_0003_0000001")
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	ends.Each(func(o kadm.ListedOffset) { records += o.Offset })
	return records
}

// TestTest_CountsAreExact: when sending has ended, every group has every record that was acknowledged, and none twice.
func TestTest_CountsAreExact(t *testing.T) {
	t.Parallel()
	addresses, admin := cluster(t)
	ctx := within(t, time.Minute)
	var out bytes.Buffer
	run, err := newTest(ctx, small(t, addresses, &out))
	require.NoError(t, err)
	result, err := run.run(ctx)
	require.NoError(t, err, out.String())
	require.NoError(t, run.stopProducers(ctx))
	run.producers = nil
	require.Eventually(t, func() bool { return run.backlogAt(run.stats.Counters()) == 0 }, time.Minute, 10*time.Millisecond)
	c := run.stats.Counters()
	require.Zero(t, c.Failed)
	beforeTest := run.base // after the probes and the warm-up
	require.Equal(t, run.behind+2*(c.Sent-beforeTest.Sent), c.Received-beforeTest.Received)
	require.Equal(t, 100*c.Sent, c.BytesSent)
	require.Zero(t, (stored(ctx, t, admin)-c.Sent)%6, "besides rounds of probes, topics hold what was acknowledged")
	require.NoError(t, run.close(ctx))

	elapsed := result.TimeSecs[len(result.TimeSecs)-1]
	require.GreaterOrEqual(t, elapsed, 0.5)
	require.InEpsilon(t, result.ProduceRateTotal*elapsed, result.Produced, 0.001)
	require.InEpsilon(t, result.ConsumeBpsTotal*elapsed, result.ConsumedBytes, 0.001)
	require.InDelta(t, result.Produced*100, result.ProducedBytes, 0)
	require.Len(t, result.ProduceP9999, len(result.TimeSecs))
	require.Positive(t, result.EndToEndP50Total)
}

func TestRun_LinesFileAndCleanup(t *testing.T) {
	addresses, admin := cluster(t)
	ctx := within(t, time.Minute)
	var out bytes.Buffer
	cfg := small(t, addresses, &out)
	cfg.DeleteTopics = true
	cfg.Producer = map[string]string{"interceptor.classes": "x"}
	outcome, err := Run(ctx, cfg)
	require.NoError(t, err)
	for _, want := range []string{
		`Created 2 topics, took \d+ ms`, `Created 4 consumers, took`, `Created 4 producers, took`, `Topics are ready, took \d+ ms`,
		`Warming up for 300ms\.\.\.`, `\n +\d+\.\ds \| Prod rate +[\d.]+ msg/s / `, `\nSummary \| Prod rate`, `Running test for 500ms\.\.\.`,
		`Saving results to .*/perf-[\d-]{19}\.json\n$`, `warning: .*interceptor\.classes`,
	} {
		require.Regexp(t, regexp.MustCompile(want), out.String())
	}
	require.Len(t, outcome.Warnings, 1)
	require.FileExists(t, outcome.Path)
	topics, err := admin.ListTopics(ctx)
	require.NoError(t, err)
	require.Empty(t, topics.Names())
	groups, err := admin.ListGroups(ctx)
	require.NoError(t, err)
	require.Empty(t, groups.Groups())
}

// TestRun_CatchUp: groups receive what was sent while they paused, and the test ends when they have come to what was sent
// later.
func TestRun_CatchUp(t *testing.T) {
	t.Parallel()
	addresses, admin := cluster(t)
	var out bytes.Buffer
	cfg := small(t, addresses, &out)
	cfg.Backlog, cfg.GroupDelay, cfg.Warmup, cfg.CatchupRate = time.Second, 400*time.Millisecond, 0, 50
	require.NoError(t, cfg.Validate())
	ctx := within(t, time.Minute)
	run, err := newTest(ctx, cfg)
	require.NoError(t, err)
	r, err := run.run(ctx)
	require.NoError(t, err, out.String())
	require.NoError(t, run.close(ctx))
	require.Positive(t, run.behind)
	require.Greater(t, r.Consumed, float64(run.behind)/4, "of what both groups missed, the first one's share is the larger")
	require.LessOrEqual(t, int64(r.Consumed), 2*stored(t.Context(), t, admin), "no group gets a record twice")
	require.Greater(t, r.EndToEndMaxTotal, 500_000.0, "of records that waited for the end of the pause")
	require.Equal(t, 50, r.Config.SendRateDuringCatchup)
	require.Regexp(t, `Pausing consumers for 1s to build up backlog\.\.\.\n(.*\n)+Resetting consumer offsets and resuming\.\.\.\n`+
		`Resuming the consumers of 2 topics out of 2\n`, out.String())
}

// TestTest_SetBack: each group starts at the first record of its own time, in every partition.
func TestTest_SetBack(t *testing.T) {
	t.Parallel()
	addresses, admin := cluster(t)
	ctx := within(t, time.Minute)
	run, err := newTest(ctx, small(t, addresses, new(bytes.Buffer)))
	require.NoError(t, err)
	require.NoError(t, run.createTopics(ctx))
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	base := time.Now().Add(-time.Minute).Truncate(time.Second)
	for _, topic := range run.topics {
		for i := range 30 {
			r := &kgo.Record{Topic: topic.Name, Partition: int32(i % 3), Timestamp: base.Add(time.Duration(i/3) * time.Second)}
			require.NoError(t, client.ProduceSync(ctx, r).FirstErr())
		}
	}
	behind, err := run.setBack(ctx, base.Add(5*time.Second), 2*time.Second)
	require.NoError(t, err)
	require.EqualValues(t, 6*5+6*3, behind, "six partitions of ten records, of which groups skip five and seven")
	for group, want := range map[int]int64{0: 5, 1: 7} {
		offsets, err := admin.FetchOffsets(ctx, groupName(run.topics[1].Name, group))
		require.NoError(t, err)
		for partition := range int32(3) {
			o, found := offsets.Lookup(run.topics[1].Name, partition)
			require.True(t, found)
			require.Equal(t, want, o.At)
		}
	}
	require.NoError(t, run.close(ctx))
}

func TestRun_CatchUpThatTakesTooLong(t *testing.T) {
	t.Parallel()
	addresses, _ := cluster(t)
	var out bytes.Buffer
	cfg := small(t, addresses, &out)
	cfg.Backlog, cfg.Warmup, cfg.CatchupLimit, cfg.MaxConsume = 500*time.Millisecond, 0, 300*time.Millisecond, 10
	cfg.Consumer = map[string]string{"max.poll.records": "1"} // so that 10 records a second it is
	_, err := Run(within(t, time.Minute), cfg)
	require.ErrorIs(t, err, ErrCatchup)
}

// TestRun_OldTopics: what an earlier test left is read from its start; a prefix nobody used is an error.
func TestRun_OldTopics(t *testing.T) {
	t.Parallel()
	addresses, admin := cluster(t)
	ctx := within(t, time.Minute)
	var out bytes.Buffer
	cfg := small(t, addresses, &out)
	_, err := Run(ctx, cfg)
	require.NoError(t, err)
	cfg.CatchupPrefix, cfg.Test, cfg.Groups = "small", 2*time.Second, 1
	outcome, err := Run(ctx, cfg)
	require.NoError(t, err, out.String())
	require.Zero(t, outcome.Result.Produced)
	require.InDelta(t, stored(ctx, t, admin), outcome.Result.Consumed, 0)
	require.Zero(t, outcome.Result.Backlog[len(outcome.Result.Backlog)-1])

	cfg.CatchupPrefix = "other"
	_, err = Run(ctx, cfg)
	require.ErrorContains(t, err, "no topics begin with __automq_perf_other")

	cfg.CatchupPrefix, cfg.ReuseTopics, cfg.Test = "", true, 200*time.Millisecond
	out.Reset()
	_, err = Run(ctx, cfg)
	require.NoError(t, err)
	require.Contains(t, out.String(), "Found 2 topics that begin with __automq_perf_small")

	cfg.Reset, cfg.ReuseTopics, cfg.DeleteTopics = true, false, true
	out.Reset()
	_, err = Run(ctx, cfg)
	require.NoError(t, err)
	require.Contains(t, out.String(), "Deleted all test topics (2 in total)")
}

func TestRun_Interrupted(t *testing.T) {
	t.Parallel()
	addresses, admin := cluster(t)
	ctx, cancel := context.WithCancelCause(within(t, time.Minute))
	stopped := errors.New("stopped")
	var out bytes.Buffer
	cfg := small(t, addresses, &out)
	cfg.Test, cfg.DeleteTopics = time.Hour, true
	time.AfterFunc(2*time.Second, func() { cancel(stopped) })
	_, err := Run(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	topics, err := admin.ListTopics(t.Context())
	require.NoError(t, err)
	require.Empty(t, topics.Names())
	left, err := filepath.Glob(filepath.Join(cfg.ResultDir, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRun_CommonConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "common.properties")
	require.NoError(t, os.WriteFile(file, []byte("client.id=me\nlinger.ms=soon\n"), 0o600))
	cfg := DefaultConfig()
	cfg.CommonFile = file
	_, err := Run(t.Context(), cfg)
	require.ErrorContains(t, err, "linger.ms")
	cfg.CommonFile = file + "x"
	_, err = Run(t.Context(), cfg)
	require.ErrorContains(t, err, "--common-config-file")
}

package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster has the group g and the topic t, each partition of which has records 0, 1 and 2, each a batch of its own, which is all
// that a fetch of member brings.
func cluster(t *testing.T, partitions int32) (seeds kgo.Opt) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "t"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	seeds = kgo.SeedBrokers(c.ListenAddrs()...)
	writer, err := kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer writer.Close()
	for i := range 3 * partitions {
		r := &kgo.Record{Topic: "t", Partition: i % partitions, Value: []byte("v")}
		require.NoError(t, writer.ProduceSync(t.Context(), r).FirstErr())
	}
	start := kadm.OffsetsFromRecords(kgo.Record{Topic: "t", Offset: -1})
	require.NoError(t, kadm.NewClient(writer).CommitAllOffsets(t.Context(), "g", start), "so that kfake knows the group")
	return seeds
}

// member is a consumer of group g that reads topic t.
func member(t *testing.T, seeds kgo.Opt, opts ...kgo.Opt) *consumer {
	t.Helper()
	k := &consumer{
		contact: &contact{},
		config:  ConsumeConfig{Topic: "t", Group: "g", ExitAtEnd: true}, from: position{kind: atEarliest},
		out: bufio.NewWriter(io.Discard), errs: io.Discard, ends: ends{topic: "t", open: make(map[int32]*end)},
	}
	k.config.ApplyDefaults()
	var err error
	k.format, err = kgo.NewRecordFormatter("%p/%o\n")
	require.NoError(t, err)
	opts = append(append(k.groupOptions(k.from), seeds, kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1)), opts...)
	k.client, err = kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(k.client.CloseAllowingRebalance)
	return k
}

// TestConsumer_IsNotDoneInRebalance: a member that has given up all of its partitions may be given them again.
func TestConsumer_IsNotDoneInRebalance(t *testing.T) {
	k := member(t, cluster(t, 1))
	given := func(partitions ...int32) {
		k.given(t.Context(), k.client, map[string][]int32{"t": partitions})
		require.NoError(t, k.failed)
	}
	require.False(t, k.done(), "nothing was given yet")
	given(0)
	require.False(t, k.done(), "there are records")
	k.lost(t.Context(), k.client, map[string][]int32{"t": {0}})
	require.False(t, k.done(), "others have not joined yet")
	given(0)
	require.False(t, k.done(), "it has them again")
	k.lost(t.Context(), k.client, map[string][]int32{"t": {0}})
	given()
	require.True(t, k.done(), "others have them")
	k.lost(t.Context(), k.client, nil)
	require.False(t, k.done(), "a cooperative member keeps what it has, and may be given more")
}

// atPolls is called before each poll.
type atPolls func()

func (f atPolls) OnPollStart(context.Context) { f() }

// atWrites is called before each write.
type atWrites struct {
	io.Writer
	do func()
}

func (w atWrites) Write(p []byte) (int, error) {
	w.do()
	return w.Writer.Write(p)
}

// TestConsumer_RebalancesAsItReads: partitions come and go right after they are allowed to. Under the race detector it shows that
// nobody looks at them then; for that the hook only waits, so that it orders nothing that comes before it.
func TestConsumer_RebalancesAsItReads(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	assigned := make(chan struct{}, 1)
	rebalancing := true // it joins, to begin with
	var k *consumer
	k = member(t, cluster(t, 1),
		kgo.OnPartitionsAssigned(func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			k.given(ctx, client, partitions)
			select {
			case assigned <- struct{}{}:
			default:
			}
		}),
		kgo.WithHooks(atPolls(func() {
			if !rebalancing {
				return
			}
			rebalancing = false
			select {
			case <-assigned:
			case <-ctx.Done():
			}
		})),
	)
	var out bytes.Buffer
	k.out = bufio.NewWriter(atWrites{&out, func() {
		if out.Len() == 0 {
			rebalancing = true
			k.client.ForceRebalance()
		}
	}})
	k.client.AddConsumeTopics("t")
	require.NoError(t, k.run(ctx))
	require.NoError(t, ctx.Err(), "it ends by itself")
	require.Equal(t, []string{"0/0", "0/1", "0/2"}, strings.Fields(out.String()), "each once")
	require.NoError(t, k.commit(ctx))
}

// other joins group g as a cooperative member that keeps reading, and waits until it has all of topic t's partitions. It gives
// some up once it may.
func other(t *testing.T, seeds kgo.Opt, partitions int, may <-chan struct{}) {
	t.Helper()
	given := make(chan int, 10)
	client, err := kgo.NewClient(seeds, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(), kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			select {
			case given <- len(assigned["t"]):
			default:
			}
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
			if len(revoked) == 0 {
				return // a rebalance begins
			}
			select {
			case <-may:
			case <-t.Context().Done():
			}
		}))
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			client.PollFetches(t.Context())
		}
	}()
	t.Cleanup(func() {
		<-ended
		client.Close()
	})
	for has := 0; has < partitions; {
		select {
		case n := <-given:
			has += n
		case <-time.After(time.Minute):
			require.FailNow(t, "the other member is given nothing")
		}
	}
}

// atRequests is called when a request of a kind has been written.
type atRequests struct {
	key int16
	do  func()
}

func (r atRequests) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == r.key {
		r.do()
	}
}

// TestConsumer_JoinsCooperativeGroup: what it is given at first is nothing, since others have it all; it reads what they give up,
// which they do only when it has asked for the first time whether that was all.
func TestConsumer_JoinsCooperativeGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seeds := cluster(t, 2)
	asked := make(chan struct{})
	other(t, seeds, 2, asked)
	var gave [][]int32
	var k *consumer
	k = member(t, seeds, kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.WithHooks(atRequests{int16(kmsg.DescribeGroups), sync.OnceFunc(func() { close(asked) })}),
		kgo.OnPartitionsAssigned(func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			gave = append(gave, partitions["t"])
			k.given(ctx, client, partitions)
		}))
	var out bytes.Buffer
	k.out = bufio.NewWriter(&out)
	k.client.AddConsumeTopics("t")
	require.NoError(t, k.run(ctx))
	require.NoError(t, ctx.Err(), "it ends by itself")
	require.Len(t, strings.Fields(out.String()), 3, "one of the partitions: %v", gave)
	require.Empty(t, gave[0], "else this shows nothing")
}

// TestConsumer_NothingLeftForIt: where others have all partitions, and keep them, it ends.
func TestConsumer_NothingLeftForIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seeds := cluster(t, 1)
	other(t, seeds, 1, nil)
	k := member(t, seeds)
	var told bytes.Buffer
	k.errs = &told
	k.client.AddConsumeTopics("t")
	require.NoError(t, k.run(ctx))
	require.NoError(t, ctx.Err(), "it ends by itself")
	require.Zero(t, k.written)
	require.Empty(t, told.String())
}

// TestConsumer_GroupComesToNoRest: it waits for the rest of the partitions for a bounded time, and says that it gave up.
func TestConsumer_GroupComesToNoRest(t *testing.T) {
	k := member(t, cluster(t, 1)) // of which it is not a member yet: no partition has one
	var told bytes.Buffer
	k.errs = &told
	over, err := k.over(t.Context())
	require.NoError(t, err)
	require.False(t, over)
	k.ended = k.ended.Add(-k.config.Timeout)
	over, err = k.over(t.Context())
	require.NoError(t, err)
	require.True(t, over)
	require.Equal(t, "freshet: group g has not come to rest for 15 s, perhaps not all was read\n", told.String())
}

// TestConsumer_KeepsTheFirstError: a rebalance that goes well does not make up for one that did not, whose partitions would be
// left out in silence.
func TestConsumer_KeepsTheFirstError(t *testing.T) {
	k := member(t, cluster(t, 1))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	k.given(ended, k.client, map[string][]int32{"t": {0}})
	require.ErrorIs(t, k.failed, context.Canceled)
	k.given(t.Context(), k.client, nil)
	require.ErrorIs(t, k.take(t.Context(), nil), context.Canceled)
}

// TestConsumer_BeginsWhereItBegan: the records that come to a partition after its end was all that a member saw are the next
// one's.
func TestConsumer_BeginsWhereItBegan(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seeds := cluster(t, 2)
	read := func() string {
		from := position{kind: atLatest}
		k := member(t, seeds, kgo.ConsumeStartOffset(from.offset()), kgo.FetchMaxWait(100*time.Millisecond))
		var out bytes.Buffer
		k.from, k.out = from, bufio.NewWriter(&out)
		k.client.AddConsumeTopics("t")
		require.NoError(t, k.run(ctx))
		require.NoError(t, ctx.Err(), "it ends by itself")
		require.NoError(t, k.commit(ctx))
		k.client.CloseAllowingRebalance()
		return out.String()
	}
	require.Equal(t, "0/0\n0/1\n0/2\n", read(), "what it has committed of partition 0 is its begin")
	writer, err := kgo.NewClient(seeds, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer writer.Close()
	require.NoError(t, writer.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: 1, Value: []byte("v")}).FirstErr())
	require.Equal(t, "1/3\n", read())
	require.Empty(t, read())
}

// TestConsumer_ToldToStopAtItsEnd: who is told to stop while it asks whether there is more stops as at any other time, without
// an error, so that what it wrote is committed.
func TestConsumer_ToldToStopAtItsEnd(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	k := member(t, cluster(t, 1), kgo.WithHooks(atRequests{int16(kmsg.ListGroups), stop}))
	k.client.AddConsumeTopics("t")
	require.NoError(t, k.run(ctx))
	require.ErrorIs(t, ctx.Err(), context.Canceled, "it was asked")
	require.Equal(t, 3, k.written)
	require.NoError(t, k.commit(ctx))
}

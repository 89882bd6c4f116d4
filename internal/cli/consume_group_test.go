package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member is a consumer of group g that reads partition 0 of topic t, in which are records 0, 1 and 2, each a batch of its own,
// which is all that a fetch brings.
func member(t *testing.T, opts ...kgo.Opt) *consumer {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	seeds := kgo.SeedBrokers(cluster.ListenAddrs()...)
	writer, err := kgo.NewClient(seeds)
	require.NoError(t, err)
	defer writer.Close()
	for range 3 {
		require.NoError(t, writer.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr())
	}
	start := kadm.OffsetsFromRecords(kgo.Record{Topic: "t", Offset: -1})
	require.NoError(t, kadm.NewClient(writer).CommitAllOffsets(t.Context(), "g", start), "so that kfake knows the group")
	k := &consumer{
		config: ConsumeConfig{Topic: "t", Group: "g", ExitAtEnd: true}, from: position{kind: atEarliest},
		out: bufio.NewWriter(io.Discard), ends: ends{topic: "t", open: make(map[int32]*end)},
	}
	k.config.ApplyDefaults()
	k.format, err = kgo.NewRecordFormatter("%o\n")
	require.NoError(t, err)
	opts = append(append(k.groupOptions(k.from), seeds, kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1)), opts...)
	k.client, err = kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(k.client.CloseAllowingRebalance)
	return k
}

// TestConsumer_IsNotDoneInRebalance: a member that has given up all of its partitions may be given them again.
func TestConsumer_IsNotDoneInRebalance(t *testing.T) {
	k := member(t)
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
	k = member(t,
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
	require.Equal(t, []string{"0", "1", "2"}, strings.Fields(out.String()), "each once")
	require.NoError(t, k.commit(ctx))
}

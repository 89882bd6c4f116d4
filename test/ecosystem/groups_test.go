package ecosystem

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// sessionTimeout is that of franz-go's members of classic groups. A member that a busy machine holds up must not cause a
	// rebalance; the default is 45 s.
	sessionTimeout = time.Minute
	commitInterval = 200 * time.Millisecond // of members
	recordInterval = 20 * time.Millisecond
	recordsBetween = 200 // further records for every group to commit before something else happens
)

// TestGroups_Failures: groups of three client libraries, of the classic and of the consumer protocol, read while an
// agent is killed and while the owner is killed. No member sees a rebalance, none loses or repeats a record, and offsets
// go on from where they were.
func TestGroups_Failures(t *testing.T) {
	t.Parallel()
	b := startCluster(t)
	b.create(t, "read", groupPartitions)
	written := writeRecords(t, b, "read")
	var all []*crew
	for c, l := range crews(b, "read", libraries(t)) {
		c.join(t, l, "one")
		c.join(t, l, "two")
		all = append(all, c)
	}
	settle(t, all)
	commit(t, b, "idle", "read", 1, 2, 3, 4)
	follow(t, b, all, written)
	for _, f := range b.faults {
		t.Run(f.what, func(t *testing.T) {
			f.strike(t, func() { follow(t, b, all, written) })
			follow(t, b, all, written)
			require.Equal(t, map[int32]int64{0: 1, 1: 2, 2: 3, 3: 4}, committedAt(t, b, "idle", "read"))
		})
	}
}

// follow waits until further records were written and every group has committed all that was written by then, without
// a rebalance. That members keep their partitions and read every record once shows in what they say.
func follow(t *testing.T, b broker, crews []*crew, written *atomic.Int64) {
	t.Helper()
	want := written.Load() + recordsBetween
	awaitLong(t, "further records are written", func() bool { return written.Load() >= want })
	for _, c := range crews {
		awaitLong(t, c.group.Group+" reads and commits", func() bool {
			if !b.shaken {
				require.Equal(t, c.before, c.look(t), "%s: a rebalance", c.group.Group)
			}
			sum := int64(0)
			for _, at := range committedAt(t, b, c.group.Group, "read") {
				sum += at
			}
			return sum >= want
		})
	}
}

// committedAt gives a group's offsets by partition; none if the coordinator is said to be at an agent that is away. The
// client is a new one each time: franz-go goes on asking a coordinator that it once found and cannot reach any more.
func committedAt(t *testing.T, b broker, group, topic string) map[int32]int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.bootstrap, ",")...))
	require.NoError(t, err)
	defer client.Close()
	committed, err := kadm.NewClient(client).FetchOffsets(within(t), group)
	if err != nil {
		return nil
	}
	at := make(map[int32]int64)
	for p, o := range committed[topic] {
		require.NoError(t, o.Err)
		at[p] = o.At
	}
	return at
}

// writeRecords writes to all partitions until the test ends, and counts what was acknowledged.
func writeRecords(t *testing.T, b broker, topic string) *atomic.Int64 {
	t.Helper()
	client := b.client(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	var acked atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(recordInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				client.Produce(ctx, &kgo.Record{Value: []byte("record")}, func(_ *kgo.Record, err error) {
					if err == nil {
						acked.Add(1)
					}
				})
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return &acked
}

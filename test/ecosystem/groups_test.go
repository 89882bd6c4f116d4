package ecosystem

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

const (
	commitInterval  = 200 * time.Millisecond // of members
	groupPartitions = 4
	membersEach     = 2 // of a group
	recordInterval  = 20 * time.Millisecond
	joined          = 2 * time.Second // without a change
	recordsBetween  = 200             // further records for every group to read and commit before something else happens
)

// crew is one group of two members.
type crew struct {
	group   group
	library library
	members []string
	shaken  bool            // rebalances are no fault
	before  map[string]view // when all had joined
}

// TestGroups_Failures: groups of three client libraries, of the classic and of the consumer protocol, read while an
// agent is killed and while the owner is killed. No member sees a rebalance, none loses or repeats a record, and offsets
// go on from where they were.
func TestGroups_Failures(t *testing.T) {
	b := startCluster(t)
	b.create(t, "read", groupPartitions)
	written := writeRecords(t, b, "read")
	libraries := map[string]library{
		"java":       foreign{harness.JavaWorker(t, "Members")},
		"librdkafka": foreign{harness.PythonWorker(t, "members.py")},
		"franz-go":   franz{members: make(map[string]*franzMember)},
	}
	var crews []*crew
	for name, l := range libraries {
		for _, protocol := range []string{"classic", "consumer"} {
			g := group{Group: name + "-" + protocol, Topic: "read", Protocol: protocol, Bootstrap: b.bootstrap}
			c := &crew{group: g, library: l, shaken: b.shaken}
			for i := range membersEach {
				c.members = append(c.members, fmt.Sprintf("%s-%d", g.Group, i))
				l.join(t, c.members[i], g)
			}
			crews = append(crews, c)
		}
	}
	for _, c := range crews {
		c.awaitJoined(t)
	}
	commit(t, b, "idle", "read", 1, 2, 3, 4)
	follow(t, b, crews, written)
	for _, f := range b.faults {
		t.Run(f.what, func(t *testing.T) {
			f.strike(t, func() { follow(t, b, crews, written) })
			follow(t, b, crews, written)
			for p := range int64(groupPartitions) {
				require.Equal(t, p+1, committedAt(t, b, "idle", "read")[int32(p)])
			}
		})
	}
}

// awaitJoined waits until the partitions are shared evenly and nothing changes any more, and remembers what the members
// say then.
func (c *crew) awaitJoined(t *testing.T) {
	t.Helper()
	var since time.Time
	awaitLong(t, c.group.Group+" shares the partitions", func() bool {
		views, even := make(map[string]view), true
		for _, m := range c.members {
			v := c.library.look(t, m)
			require.Empty(t, v.Failure, m)
			views[m] = v.rebalances()
			even = even && v.Assigned == groupPartitions/membersEach && v.Records > 0
		}
		if !even || !maps.Equal(views, c.before) {
			since, c.before = time.Now(), views
		}
		return time.Since(since) > joined
	})
}

// read gives how many records the group read, and checks that its members are as they were.
func (c *crew) read(t *testing.T) int {
	t.Helper()
	records := 0
	for _, m := range c.members {
		v := c.library.look(t, m)
		require.Empty(t, v.Failure, m)
		if !c.shaken {
			require.Equal(t, c.before[m], v.rebalances(), "%s: a rebalance", m)
		}
		records += v.Records
	}
	return records
}

// follow waits until further records were written, and every group has read and committed all that was written by then.
func follow(t *testing.T, b broker, crews []*crew, written *atomic.Int64) {
	t.Helper()
	want := written.Load() + recordsBetween
	awaitLong(t, "further records are written", func() bool { return written.Load() >= want })
	for _, c := range crews {
		awaitLong(t, c.group.Group+" reads them", func() bool { return int64(c.read(t)) >= want })
		awaitLong(t, c.group.Group+" commits them", func() bool {
			sum := int64(0)
			for _, at := range committedAt(t, b, c.group.Group, "read") {
				sum += at
			}
			return sum >= want
		})
	}
}

// committedAt gives a group's offsets by partition.
func committedAt(t *testing.T, b broker, group, topic string) map[int32]int64 {
	t.Helper()
	client := b.client(t)
	defer client.Close()
	committed, err := b.admin(t).FetchOffsets(within(t), group)
	require.NoError(t, err)
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

package ecosystem

import (
	"context"
	"flag"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

var against = flag.String("against", "freshet", "what to test: freshet, or kafka to see that the tests are right")

// limit bounds any one thing that a test waits for, with several JVMs at work beside it.
const limit = 4 * time.Minute

// broker is what a test talks to.
type broker struct {
	bootstrap string
	// What can happen to it. Each ends with everything running again.
	faults      []fault
	shaken      bool    // whether groups may rebalance then: one Kafka broker that restarts takes its topics away
	ownerFaults []fault // to the owner of the virtual cluster
}

// fault is a thing that happens to a broker. meanwhile is called while the broken part is away.
type fault struct {
	what   string
	strike func(t *testing.T, meanwhile func())
}

// startBroker starts one process that is all of a broker.
func startBroker(t *testing.T) broker {
	t.Helper()
	if *against == "kafka" {
		return startKafka(t)
	}
	return broker{bootstrap: harness.StartDev(t, "--auto-create-topics=false", "--group-initial-rebalance-delay-ms=0").Bootstrap}
}

// startCluster starts two agents and two control planes, which can be killed one by one. Of Kafka there is one process,
// which is gone while it is away.
func startCluster(t *testing.T) broker {
	t.Helper()
	if *against == "kafka" {
		return startKafka(t)
	}
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 2})
	agent := func(t *testing.T, meanwhile func()) {
		t.Helper()
		c.Agents[1].Kill()
		meanwhile()
		c.Agents[1].Restart()
	}
	killed := func(t *testing.T, meanwhile func()) {
		t.Helper()
		owner := c.Owner(t)
		owner.Kill()
		c.Owner(t)
		meanwhile()
		owner.Restart()
	}
	paused := func(t *testing.T, meanwhile func()) {
		t.Helper()
		owner := c.Owner(t)
		owner.Stop()
		c.Owner(t, owner)
		meanwhile()
		owner.Cont()
	}
	return broker{
		bootstrap:   c.Bootstrap(),
		faults:      []fault{{"an agent is killed", agent}, {"the owner is killed", killed}},
		ownerFaults: []fault{{"the owner is killed", killed}, {"the owner is paused past its lease", paused}},
	}
}

func startKafka(t *testing.T) broker {
	t.Helper()
	k := harness.StartKafka(t, "group.initial.rebalance.delay.ms=0", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000")
	restart := func(t *testing.T, meanwhile func()) {
		t.Helper()
		k.Kill()
		k.Launch()
		awaitLong(t, "the broker takes connections", func() bool {
			conn, err := net.DialTimeout("tcp", k.Bootstrap, time.Second)
			if err != nil {
				return false
			}
			return conn.Close() == nil
		})
		meanwhile()
	}
	faults := []fault{{"the broker is killed", restart}}
	return broker{bootstrap: k.Bootstrap, faults: faults, ownerFaults: faults, shaken: true}
}

// admin gives an admin client that ends with the test.
func (b broker) admin(t *testing.T) *kadm.Client {
	t.Helper()
	return kadm.NewClient(b.client(t))
}

// client gives a client that ends with the test.
func (b broker) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(b.bootstrap, ",")...)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// create creates a topic and waits until it is served: Kafka's broker begins a moment after the topic was created.
func (b broker) create(t *testing.T, topic string, partitions int32) {
	t.Helper()
	admin := b.admin(t)
	_, err := admin.CreateTopic(within(t), partitions, 1, nil, topic)
	require.NoError(t, err)
	harness.Await(t, topic+" is served", func() bool {
		ends, err := admin.ListEndOffsets(within(t), topic)
		return err == nil && ends.Error() == nil && len(ends[topic]) == int(partitions)
	})
}

// produce writes values to one partition.
func (b broker) produce(t *testing.T, topic string, partition int32, values ...string) {
	t.Helper()
	client := b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	require.NoError(t, client.ProduceSync(within(t), records...).FirstErr())
}

// committed reads all committed records of a topic up to the end it has now.
func (b broker) committed(t *testing.T, topic string) []*kgo.Record {
	t.Helper()
	ends, err := b.admin(t).ListCommittedOffsets(within(t), topic)
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	missing := make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			missing[o.Partition] = o.Offset
		}
	})
	// The last offset of a transaction is a control record, which tells how far reading has come.
	client := b.client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	var all []*kgo.Record
	for ctx := within(t); len(missing) > 0; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err(), "%s: missing up to %v", topic, missing)
		fetches.EachRecord(func(r *kgo.Record) {
			if end, ok := missing[r.Partition]; ok && r.Offset >= end-1 {
				delete(missing, r.Partition)
			}
			if !r.Attrs.IsControl() {
				all = append(all, r)
			}
		})
	}
	return all
}

// awaitCommitted reads a topic from its start until it has so many committed records.
func (b broker) awaitCommitted(t *testing.T, topic string, records int) {
	t.Helper()
	client := b.client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	for ctx, seen := within(t), 0; seen < records; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err(), "%s: %d of %d records", topic, seen, records)
		seen += fetches.NumRecords()
	}
}

// within gives a context that ends after the limit.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

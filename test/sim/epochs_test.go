package sim

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shownPartition is what Metadata says of one partition.
type shownPartition struct{ leader, epoch int32 }

// shown is what Metadata says of all partitions.
type shown map[string]shownPartition

// metadataAt asks an agent.
func (c *cluster) metadataAt(a *node) shown {
	c.t.Helper()
	w := c.dialWire(a)
	defer w.conn.Close()
	in := kmsg.NewPtrMetadataRequest()
	in.SetVersion(12)
	all := shown{}
	for _, t := range ask[*kmsg.MetadataResponse](w, in, patience).Topics {
		if t.IsInternal {
			continue // the epoch of all is the membership version
		}
		for _, p := range t.Partitions {
			all[fmt.Sprintf("%s/%d", *t.Topic, p.Partition)] = shownPartition{p.Leader, p.LeaderEpoch}
		}
	}
	return all
}

// agreed gives what all agents say, once they know all members.
func (c *cluster) agreed() shown {
	c.t.Helper()
	c.awaitMembers()
	var all shown
	c.await("all agents to say the same", func() bool { // of the newest change some hear later than others
		all = c.metadataAt(c.agents[0])
		for _, a := range c.agents[1:] {
			if !maps.Equal(all, c.metadataAt(a)) {
				return false
			}
		}
		return true
	})
	return all
}

// since compares with what was shown before, after a change of the membership: the epochs of all partitions rise. It returns
// the share of the partitions that moved.
func (s shown) since(t *testing.T, before shown) float64 {
	t.Helper()
	moved := 0
	for name, was := range before {
		is, ok := s[name]
		require.True(t, ok)
		require.Greater(t, is.epoch, was.epoch, name)
		if is.leader != was.leader {
			moved++
		}
	}
	return float64(moved) / float64(len(before))
}

// TestEpochs_OverEverything: a cluster of six agents gets a seventh and loses it, changes its owner, starts anew from
// snapshots, loses all its agents and gets others. All agents show the same epochs at any time, these rise with the membership
// and with nothing else, and a stock client that knows them goes on producing and reading.
func TestEpochs_OverEverything(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 11, succession: true, agents: 6, zones: 1, replica: smallSnapshots})
	for i, partitions := range []int32{1, 1, 1, 12, 50, 100} {
		c.createTopic(fmt.Sprint("t", i), partitions)
	}
	roam := c.roam("t4", 50)
	defer roam.close()
	before := c.agreed()
	roam.round()

	seventh := c.startAgent()
	after := c.agreed()
	share := after.since(t, before)
	t.Logf("a seventh agent moves %.1f %%", 100*share)
	require.Less(t, share, 1./7+0.1)
	require.NotZero(t, share)
	roam.round()

	c.succeeded(c.dethrone())
	require.Equal(t, after, c.agreed(), "of another owner")

	before = after
	seventh.stop()
	after = c.agreed()
	require.Less(t, after.since(t, before), 1./7+0.1)
	roam.round()

	for name, p := range maps.Clone(c.replicas) {
		p.stop()
		delete(c.replicas, name)
	}
	for _, name := range c.opts.replicaNames {
		c.startReplica(name)
	}
	require.Equal(t, after, c.agreed(), "of a snapshot and the log")
	roam.round()

	before = after
	addresses := []string{}
	for _, a := range c.agentList() {
		addresses = append(addresses, a.address())
		a.stop()
	}
	for _, address := range addresses {
		c.startAgentAt(address)
	}
	require.EqualValues(t, 1, c.agreed().since(t, before), "node ids are not used again")
	roam.round()
}

// roamer is a client that goes where Metadata sends it.
type roamer struct {
	c          *cluster
	topic      string
	partitions int32
	producer   *kgo.Client
	reader     *kgo.Client
	rounds     int64
}

func (c *cluster) roam(topic string, partitions int32) *roamer {
	c.t.Helper()
	r := &roamer{c: c, topic: topic, partitions: partitions}
	var err error
	r.producer, err = kgo.NewClient(c.clientOptions(kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	require.NoError(c.t, err)
	from := map[int32]kgo.Offset{}
	for p := range partitions {
		from[p] = kgo.NewOffset().At(0)
	}
	r.reader, err = kgo.NewClient(c.clientOptions(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))...)
	require.NoError(c.t, err)
	return r
}

func (r *roamer) close() {
	r.producer.Close()
	r.reader.Close()
}

// round writes a record to each partition and reads it.
func (r *roamer) round() {
	t := r.c.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var records []*kgo.Record
	for p := range r.partitions {
		records = append(records, &kgo.Record{Topic: r.topic, Partition: p, Value: []byte("v")})
	}
	require.NoError(t, r.producer.ProduceSync(ctx, records...).FirstErr())
	read := map[int32]bool{}
	for len(read) < int(r.partitions) {
		fetches := r.reader.PollFetches(ctx)
		require.NoError(t, ctx.Err(), "%d of %d partitions read", len(read), r.partitions)
		fetches.EachRecord(func(record *kgo.Record) {
			require.Equal(t, r.rounds, record.Offset)
			read[record.Partition] = true
		})
	}
	r.rounds++
}

package sim

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/agent/peer"
	"github.com/freshet-io/freshet/controlplane/session"
)

// patientPeers do not take a busy machine for a hanging agent.
func patientPeers(p *peer.Config) {
	p.DialTimeout, p.SilenceTimeout, p.UnitTimeout, p.StallTimeout = patience, patience, patience, patience
}

// groups are consumers at the live edge, one group per zone and one member per agent, so that all agents of a zone read
// parts of every bundle.
type groups struct {
	c        *cluster
	read     []atomic.Int64 // by zone
	assigned atomic.Int64   // partitions, of all groups
	cancel   context.CancelFunc
	all      sync.WaitGroup
}

func (c *cluster) startGroups(topic string, zones int) *groups {
	ctx, cancel := context.WithCancel(context.Background())
	g := &groups{c: c, read: make([]atomic.Int64, zones), cancel: cancel}
	for i, a := range c.agentList() {
		g.join(ctx, topic, i%zones, a)
	}
	return g
}

// join adds a member that talks to one agent alone.
func (g *groups) join(ctx context.Context, topic string, zone int, a *node) {
	g.c.t.Helper()
	count := func(sign int64) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			g.assigned.Add(sign * int64(len(partitions[topic])))
		}
	}
	client, err := kgo.NewClient(g.c.pinnedOptions(a, kgo.ConsumerGroup(fmt.Sprintf("group-%d", zone)), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)),
		kgo.OnPartitionsLost(count(-1)), kgo.FetchMaxWait(2*time.Second),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))...)
	require.NoError(g.c.t, err)
	g.all.Go(func() {
		defer client.CloseAllowingRebalance()
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			g.read[zone].Add(int64(fetches.NumRecords()))
		}
	})
}

func (g *groups) stop() {
	g.cancel()
	g.all.Wait()
}

// await waits until each group has read so many records.
func (g *groups) await(records int64) {
	g.c.t.Helper()
	g.c.await(fmt.Sprintf("%d records in each zone", records), func() bool {
		for i := range g.read {
			if g.read[i].Load() < records {
				return false
			}
		}
		return true
	})
}

// total sums a metric of all agents that ever ran.
func total(agents []*node, name string) int {
	sum := 0.0
	for _, a := range agents {
		sum += a.metric(name)
	}
	return int(sum)
}

// TestZones_LiveEdge: groups in all zones read everything as it is written, by all agents. Each bundle is read from the
// object store at most once in each zone but its writer's (I7), and each other agent of a zone asks for it once.
func TestZones_LiveEdge(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct{ zones, agents int }{{3, 2}, {1, 3}} {
		t.Run(fmt.Sprintf("%d zones of %d agents", shape.zones, shape.agents), func(t *testing.T) {
			t.Parallel()
			const partitions, rounds = 12, 25
			c := newCluster(t, options{agents: shape.zones * shape.agents, zones: shape.zones, patient: true})
			c.createTopic("t", partitions)
			g := c.startGroups("t", shape.zones)
			defer g.stop()
			c.await("assignments", func() bool { return g.assigned.Load() == int64(partitions*shape.zones) })
			var producers []*kgo.Client
			for _, a := range c.agents {
				producer := c.pinned(a, kgo.RecordPartitioner(kgo.ManualPartitioner()))
				defer producer.Close()
				producers = append(producers, producer)
			}
			written := int64(0)
			for range rounds {
				for _, producer := range producers {
					written += partitions
					c.writeEach(producer, partitions)
				}
				g.await(written)
			}
			bundles, gets, requests := int(c.audit.puts.Load()), int(c.audit.gets.Load()), total(c.agents, "freshet_peer_requests_total")
			t.Logf("%d bundles: %d GETs (%.2f each), %d requests between agents (%.2f each)", bundles, gets,
				float64(gets)/float64(bundles), requests, float64(requests)/float64(bundles))
			require.GreaterOrEqual(t, bundles, rounds*len(producers))
			require.LessOrEqual(t, gets, bundles*(shape.zones-1))
			require.LessOrEqual(t, requests, bundles*(shape.agents-1)*shape.zones)
			require.Positive(t, requests)
			require.Zero(t, total(c.agents, "freshet_peer_fallbacks_total"))
		})
	}
}

// writeEach writes a record to each partition by one agent.
func (c *cluster) writeEach(producer *kgo.Client, partitions int32) {
	c.t.Helper()
	var records []*kgo.Record
	for p := range partitions {
		records = append(records, &kgo.Record{Topic: "t", Partition: p, Value: make([]byte, 5000)})
	}
	require.NoError(c.t, producer.ProduceSync(c.t.Context(), records...).FirstErr())
}

// TestZones_AgentsComeAndGo: while groups read, agents of a zone crash and others join. Everything is read, and an agent
// more or less costs some GETs, not one for each agent and bundle.
func TestZones_AgentsComeAndGo(t *testing.T) {
	t.Parallel()
	const partitions, zones, rounds = 6, 2, 30
	c := newCluster(t, options{agents: 6, zones: zones, patient: true, limits: session.Limits{SessionTimeout: 5 * time.Second}})
	c.createTopic("t", partitions)
	g := c.startGroups("t", zones)
	defer g.stop()
	producer := c.pinned(c.agents[0], kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	all := c.agentList()
	written := int64(0)
	for round := range rounds {
		switch round {
		case 8: // not the one that writes
			c.agents[3].crash() // of the other zone
		case 14:
			c.agents[2].crash()
		case 20:
			c.startAgent() // both join
			all = append(all, c.startAgent())
			all = append(all, c.agents[len(c.agents)-2])
		}
		written += partitions
		c.writeEach(producer, partitions)
	}
	g.await(written)
	bundles, gets, fallbacks := int(c.audit.puts.Load()), int(c.audit.gets.Load()), total(all, "freshet_peer_fallbacks_total")
	t.Logf("%d bundles, %d GETs, %d of them because an agent did not answer", bundles, gets, fallbacks)
	require.LessOrEqual(t, gets, bundles*zones+fallbacks)
}

package verify

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/freshet-io/freshet/bench/verify/oracle"
	"github.com/freshet-io/freshet/internal/wait"
)

const (
	probeEvery   = 100 * time.Millisecond
	groupEvery   = 2 * time.Second
	probeLimit   = 10 * time.Second
	refreshEvery = 20 // probes between two looks at who the brokers are
	probeWait    = 500
	probeBytes   = 64 << 10
)

// probe asks brokers at random for ends and for the last record known to be there, until ctx ends. A broker that is
// away, or not the partition's leader, gives no answer to check.
func (t *topic) probe(ctx context.Context, rng *rand.Rand) error {
	client, err := t.client(kgo.MaxVersions(kversion.V2_8_0())) // versions that name topics
	if err != nil {
		return err
	}
	defer client.Close()
	var ids []int32
	for n := 0; wait.For(ctx, probeEvery) == nil; n++ {
		if n%refreshEvery == 0 || len(ids) == 0 {
			t.bounded(ctx, func(ctx context.Context) error {
				m, err := kadm.NewClient(client).BrokerMetadata(ctx)
				ids = m.Brokers.NodeIDs()
				return err
			})
		}
		if len(ids) == 0 {
			continue
		}
		id := ids[rng.IntN(len(ids))]
		broker := peer{client.Broker(int(id)), id}
		partition := rng.Int32N(int32(t.cfg.Partitions))
		t.bounded(ctx, func(ctx context.Context) error {
			if rng.IntN(2) == 0 {
				return t.probeEnd(ctx, broker, partition, oracle.View(rng.IntN(2)))
			}
			return t.probeFetch(ctx, broker, partition)
		})
	}
	return nil
}

// peer is one broker, whichever partitions it leads.
type peer struct {
	*kgo.Broker
	id int32
}

// bounded runs one probe; what it fails with is counted.
func (t *topic) bounded(ctx context.Context, do func(context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := do(limited); err != nil && ctx.Err() == nil {
		t.failed("probe", err)
	}
}

func (t *topic) probeEnd(ctx context.Context, broker peer, partition int32, view oracle.View) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, int8(view)
	rt, rp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = partition, -1, -1
	rt.Topic, rt.Partitions = t.name, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	known, asked := t.history.Known(partition, view), time.Now()
	answer, err := broker.Request(ctx, req)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errShape
	}
	p := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return err
	}
	t.history.Told(partition, known, p.Offset, fmt.Sprintf("ListOffsets by broker %d", broker.id), asked)
	return nil
}

// probeFetch asks for the last record known to be there.
func (t *topic) probeFetch(ctx context.Context, broker peer, partition int32) error {
	known, asked := t.history.Known(partition, oracle.Uncommitted), time.Now()
	if known.End() == 0 {
		return nil
	}
	from := known.End() - 1
	answer, err := broker.Request(ctx, fetchRequest(t.name, partition, from))
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errShape
	}
	p, who := resp.Topics[0].Partitions[0], fmt.Sprintf("Fetch by broker %d", broker.id)
	switch err := kerr.ErrorForCode(p.ErrorCode); {
	case p.ErrorCode == kerr.OffsetOutOfRange.Code:
		t.history.OutOfRange(partition, known, from, who, asked)
		return nil
	case err != nil:
		return err
	case len(p.RecordBatches) == 0:
		t.history.Empty(partition, known, from, who, asked)
		return nil
	}
	t.history.Told(partition, known, p.HighWatermark, who, asked)
	return nil
}

func fetchRequest(topic string, partition int32, from int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes = -1, probeWait, 1
	req.MaxBytes, req.SessionEpoch = probeBytes, -1
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = partition, from, probeBytes, -1
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// watch asks where a group stands and who has which partitions, until ctx ends.
func (g *group) watch(ctx context.Context) error {
	for wait.For(ctx, groupEvery) == nil {
		g.bounded(ctx, g.askCommits)
		g.bounded(ctx, g.askAssignment)
	}
	return nil
}

func (g *group) askCommits(ctx context.Context) error {
	known, asked := g.Known(), time.Now()
	offsets, err := g.admin.FetchOffsetsForTopics(ctx, g.Name, g.name)
	if err != nil {
		return err
	}
	for p, at := range known {
		told := int64(-1)
		if o, ok := offsets.Lookup(g.name, int32(p)); ok {
			if o.Err != nil {
				return o.Err
			}
			told = o.At
		}
		g.Told(int32(p), at, told, "OffsetFetch", asked)
	}
	return nil
}

// askAssignment has the group described. While it is rebalancing there is nothing to check.
func (g *group) askAssignment(ctx context.Context) error {
	describe := g.describeClassic
	if g.balancing == byCoordinator {
		describe = g.describeConsumer
	}
	assignment, stable, err := describe(ctx)
	if err != nil || !stable {
		return err
	}
	g.Described(assignment)
	g.described.Add(1)
	return nil
}

func (g *group) describeClassic(ctx context.Context) (assignment map[string][]int32, stable bool, err error) {
	all, err := g.admin.DescribeGroups(ctx, g.Name)
	if err != nil {
		return nil, false, err
	}
	d := all[g.Name]
	assignment = make(map[string][]int32)
	for _, m := range d.Members {
		given := []int32{}
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				if t.Topic == g.name {
					given = append(given, t.Partitions...)
				}
			}
		}
		assignment[m.MemberID] = given
	}
	return assignment, d.State == "Stable", d.Err
}

func (g *group) describeConsumer(ctx context.Context) (assignment map[string][]int32, stable bool, err error) {
	all, err := g.admin.DescribeConsumerGroups(ctx, g.Name)
	if err != nil {
		return nil, false, err
	}
	d := all[g.Name]
	assignment = make(map[string][]int32)
	for _, m := range d.Members {
		assignment[m.MemberID] = slices.Sorted(maps.Keys(m.Assignment[g.name]))
	}
	return assignment, d.State == "Stable", d.Err
}

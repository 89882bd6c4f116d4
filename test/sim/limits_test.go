package sim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
)

// TestLimits_Seed runs random clients at limits that differ between the replicas, while owners change and replicas restart from
// snapshots. The use of no limit exceeds the largest that an owner had. Each replica compares hashes at each snapshot and ends if they differ.
func TestLimits_Seed(t *testing.T) {
	t.Parallel()
	seeds := uint64(20)
	var all limitRefusals
	t.Run("seeds", func(t *testing.T) {
		for s := range seeds {
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				t.Parallel()
				runLimits(t, seed(t, s+1), &all)
			})
		}
	})
	for kind := range len(metadata.Limits{}) {
		require.Positive(t, all.counts[kind], "refusals at the limit of %s", metadata.LimitKind(kind))
	}
}

// limitRefusals counts the refusals of all seeds by the limit that a request can reach.
type limitRefusals struct {
	sync.Mutex
	counts metadata.Limits
}

func (r *limitRefusals) add(kind metadata.LimitKind) {
	r.Lock()
	defer r.Unlock()
	r.counts[kind]++
}

func runLimits(t *testing.T, seed uint64, refused *limitRefusals) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 20))
	least := metadata.Limits{3, 8, 3, 2, 2, 1500, 50}
	limits, largest := map[string]metadata.Limits{}, metadata.Limits{}
	for i := range 2 {
		own := least
		for kind := range own {
			own[kind] += rng.Int64N(least[kind])
			largest[kind] = max(largest[kind], own[kind])
		}
		limits[fmt.Sprintf("replica-%d", i)] = own
	}
	c := newCluster(t, options{seed: seed, agents: 1, succession: true, replica: func(cfg *replica.Config) {
		smallSnapshots(cfg)
		own := limits[cfg.Replica]
		cfg.Limits = func() metadata.Limits { return own }
	}})
	var clients sync.WaitGroup
	for n := range 2 {
		x := &limitClient{cluster: c, client: c.pinned(c.agents[0], kgo.MaxVersions(kversion.V4_0_0())), rng: rand.New(rand.NewPCG(seed, uint64(n))), refused: refused}
		clients.Go(func() {
			defer x.client.Close()
			for range 100 {
				x.act()
			}
		})
	}
	for change := range 3 {
		if seed%5 == 0 && change == 1 { // it takes two seconds
			c.succeeded(c.dethrone())
			continue
		}
		old := c.owner()
		old.stop()
		c.succeeded(old)
		c.startReplica(old.name)
	}
	clients.Wait()
	before := c.checkLimits(largest)
	c.owner().stop()
	c.owner()
	require.Equal(t, before, c.checkLimits(largest), "what the successor has")
}

// checkLimits compares the owner's state with the limits and with its restored snapshot, and returns its content without the limits.
func (c *cluster) checkLimits(largest metadata.Limits) (content []string) {
	c.t.Helper()
	var s *metadata.State
	for s == nil {
		if own := c.owner().replica.Owner(); own != nil {
			_, _ = own.ReadFrozen(func(frozen *metadata.State) { s = frozen }) // fails while the owner changes
		}
	}
	var snapshot bytes.Buffer
	require.NoError(c.t, s.Encode(&snapshot))
	restored, err := metadata.Decode(&snapshot)
	require.NoError(c.t, err)
	require.Equal(c.t, s.Hash(), restored.Snapshot().Hash())
	_, used := s.Limits()
	_, again := restored.Limits()
	require.Equal(c.t, used, again)
	for kind := range used {
		require.LessOrEqual(c.t, used[kind], largest[kind], metadata.LimitKind(kind).String())
	}
	content = []string{fmt.Sprint(used)}
	for topic := range s.Topics() {
		content = append(content, fmt.Sprint(*topic))
	}
	for g := range s.Groups() {
		members := int64(0)
		for member := range g.Members {
			members++
			content = append(content, member)
		}
		require.LessOrEqual(c.t, members, largest[metadata.LimitGroupMembers], g.Name)
		for tp, offset := range s.Offsets(g.Name) {
			content = append(content, fmt.Sprint(g.Name, tp, offset))
		}
	}
	for x := range s.Transactions() {
		content = append(content, x.TransactionalID)
	}
	return content
}

// limitClient sends random requests that make the state grow and shrink.
type limitClient struct {
	*cluster
	client  *kgo.Client
	rng     *rand.Rand
	refused *limitRefusals
}

func (x *limitClient) name(kind string) string { return fmt.Sprint(kind, x.rng.IntN(6)) }

// act sends one request. Its answer is a success, the refusal of a limit, an error that other clients cause, or no answer while there is
// no owner.
func (x *limitClient) act() {
	switch x.rng.IntN(10) {
	case 0, 1:
		in := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = x.name("t"), 1+x.rng.Int32N(4), 1
		in.Topics = append(in.Topics, topic)
		if out := answered[*kmsg.CreateTopicsResponse](x, in); out != nil {
			x.policy(out.Topics[0].ErrorCode, out.Topics[0].ErrorMessage, kerr.TopicAlreadyExists)
		}
	case 2:
		in := kmsg.NewPtrCreatePartitionsRequest()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = x.name("t"), 1+x.rng.Int32N(6)
		in.Topics = append(in.Topics, topic)
		if out := answered[*kmsg.CreatePartitionsResponse](x, in); out != nil {
			x.policy(out.Topics[0].ErrorCode, out.Topics[0].ErrorMessage, kerr.UnknownTopicOrPartition, kerr.InvalidPartitions)
		}
	case 3:
		in := kmsg.NewPtrIncrementalAlterConfigsRequest()
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, x.name("t")
		for _, name := range []string{"retention.ms", "segment.ms", "max.message.bytes"} {
			config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			config.Name, config.Value = name, kmsg.StringPtr(fmt.Sprint(1_000_000+x.rng.IntN(8_000_000)))
			if x.rng.IntN(2) == 0 {
				config.Op, config.Value = kmsg.IncrementalAlterConfigOpDelete, nil
			}
			resource.Configs = append(resource.Configs, config)
		}
		in.Resources = append(in.Resources, resource)
		if out := answered[*kmsg.IncrementalAlterConfigsResponse](x, in); out != nil {
			x.policy(out.Resources[0].ErrorCode, out.Resources[0].ErrorMessage, kerr.UnknownTopicOrPartition)
		}
	case 4, 5:
		in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		in.Group, in.MemberID, in.RebalanceTimeoutMillis = x.name("g"), x.name("m"), 60_000
		in.SubscribedTopicNames, in.Topics = []string{"t0"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if out := answered[*kmsg.ConsumerGroupHeartbeatResponse](x, in); out != nil {
			x.limited(metadata.LimitGroups, out.ErrorCode, kerr.CoordinatorLoadInProgress)
			x.limited(metadata.LimitGroupMembers, out.ErrorCode, kerr.GroupMaxSizeReached)
			x.expect(out.ErrorCode, kerr.GroupMaxSizeReached)
		}
	case 6, 7:
		in := kmsg.NewPtrOffsetCommitRequest()
		in.Group, in.Generation = x.name("s"), -1
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = x.name("t")
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Offset = x.rng.Int32N(4), x.rng.Int64N(100)
		partition.Metadata = kmsg.StringPtr(string(make([]byte, x.rng.IntN(300))))
		topic.Partitions = append(topic.Partitions, partition)
		in.Topics = append(in.Topics, topic)
		if out := answered[*kmsg.OffsetCommitResponse](x, in); out != nil {
			code := out.Topics[0].Partitions[0].ErrorCode
			x.limited(metadata.LimitGroups, code, kerr.CoordinatorLoadInProgress)
			x.limited(metadata.LimitOffsetBytes, code, kerr.InvalidCommitOffsetSize)
			x.expect(code, kerr.InvalidCommitOffsetSize, kerr.UnknownTopicOrPartition)
		}
	case 8:
		in := kmsg.NewPtrInitProducerIDRequest()
		in.TransactionalID, in.TransactionTimeoutMillis = kmsg.StringPtr(x.name("x")), 60_000
		if out := answered[*kmsg.InitProducerIDResponse](x, in); out != nil {
			x.limited(metadata.LimitTransactionalIDs, out.ErrorCode, kerr.PolicyViolation)
			x.expect(out.ErrorCode, kerr.PolicyViolation)
		}
	default:
		topics := kmsg.NewPtrDeleteTopicsRequest()
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr(x.name("t"))
		topics.Topics, topics.TopicNames = append(topics.Topics, topic), []string{*topic.Topic}
		answered[*kmsg.DeleteTopicsResponse](x, topics)
		groups := kmsg.NewPtrDeleteGroupsRequest()
		groups.Groups = []string{x.name("s")}
		answered[*kmsg.DeleteGroupsResponse](x, groups)
	}
}

// answered returns the answer to a request that is sent once, or nil if there is none.
func answered[Out kmsg.Response](x *limitClient, in kmsg.Request) (out Out) {
	ctx, cancel := context.WithTimeout(x.t.Context(), 5*time.Second)
	defer cancel()
	if answer, err := x.client.SeedBrokers()[0].Request(ctx, in); err == nil {
		return answer.(Out)
	}
	return out
}

// policy takes the code of a request that a policy may refuse.
func (x *limitClient) policy(code int16, message *string, others ...*kerr.Error) {
	if code == kerr.PolicyViolation.Code {
		found := false
		for _, kind := range []metadata.LimitKind{metadata.LimitTopics, metadata.LimitPartitions, metadata.LimitTextBytes} {
			if message != nil && bytes.Contains([]byte(*message), []byte(kind.Setting()+" ")) {
				x.refused.add(kind)
				found = true
			}
		}
		if !found {
			x.t.Errorf("POLICY_VIOLATION without its limit: %v", message)
		}
		return
	}
	x.expect(code, others...)
}

// limited counts a code that is the refusal of a limit.
func (x *limitClient) limited(kind metadata.LimitKind, code int16, refusal *kerr.Error) {
	if code == refusal.Code {
		x.refused.add(kind)
	}
}

// expect fails the test for a code that is neither a success, nor expected, nor retriable.
func (x *limitClient) expect(code int16, expected ...*kerr.Error) {
	err := kerr.ErrorForCode(code)
	if err == nil || kerr.IsRetriable(err) {
		return
	}
	for _, e := range expected {
		if code == e.Code {
			return
		}
	}
	x.t.Errorf("unexpected answer: %v", err)
}

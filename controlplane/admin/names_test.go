package admin_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
)

// allocated returns the bytes that fn allocates.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// few requires that fn, a request of a few megabytes, allocates below 100 MiB.
func (c *cluster) few(fn func()) {
	c.t.Helper()
	bytes := allocated(fn)
	c.t.Logf("allocated %d MiB", bytes>>20)
	require.Less(c.t, bytes, uint64(100<<20))
}

// refuses sends a request whose answer would be too large. The answer must not be built before the request is refused.
func (c *cluster) refuses(in kmsg.Request, version int16) {
	c.t.Helper()
	in.SetVersion(version)
	body := in.AppendTo(nil)
	c.few(func() {
		_, err := c.apis.Handle(c.t.Context(), &api.Forward{Zone: "a", Node: c.node, ApiKey: int32(in.Key()), ApiVersion: int32(version), Body: body})
		require.ErrorIs(c.t, err, session.ErrBadRequest)
		require.ErrorContains(c.t, err, "the answer is too large")
	})
}

// outpaces requires that fn returns before yardstick, which runs beside fn, has run n times.
func outpaces(t *testing.T, n int, yardstick, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	runs := 0
	for running := true; running; runs++ {
		yardstick()
		select {
		case <-done:
			running = false
		default:
			running = runs < n
		}
	}
	<-done
	t.Logf("returned within %d runs of the yardstick", runs)
	require.LessOrEqual(t, runs, n)
}

// set is a yardstick: a map of the strings.
func set(all []string) {
	m := map[string]bool{}
	for _, s := range all {
		m[s] = true
	}
	if len(m) != len(all) {
		panic("equal strings")
	}
}

func TestDescribeConfigs_NamesATopicOftenInOneRequest(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.create("t", 1)
		in := kmsg.NewPtrDescribeConfigsRequest()
		topic := kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}
		one := topic
		one.ConfigNames = []string{"retention.ms"}
		in.Resources = []kmsg.DescribeConfigsRequestResource{topic, one, topic, one}
		out := ask[*kmsg.DescribeConfigsResponse](c, in, 4)
		require.Len(c.t, out.Resources, 4)
		require.Greater(c.t, len(out.Resources[0].Configs), 20)
		require.Len(c.t, out.Resources[1].Configs, 1)
		require.Equal(c.t, out.Resources[:2], out.Resources[2:])

		in.Resources = slices.Repeat([]kmsg.DescribeConfigsRequestResource{topic}, 100_000)
		in.IncludeSynonyms, in.IncludeDocumentation = true, true
		c.refuses(in, 4)
	})
}

func TestDescribeLogDirs_NamesATopicOftenInOneRequest(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.create("t", 1000)
		in := kmsg.NewPtrDescribeLogDirsRequest()
		topic := kmsg.NewDescribeLogDirsRequestTopic()
		topic.Topic, topic.Partitions = "t", []int32{0, 1, 2, 3, 4, 0}
		in.Topics = slices.Repeat([]kmsg.DescribeLogDirsRequestTopic{topic, {Topic: "none", Partitions: []int32{0}}}, 20_000)
		c.few(func() {
			named := 0
			for c.node = 1; c.node <= 2; c.node++ {
				for _, t := range ask[*kmsg.DescribeLogDirsResponse](c, in, 4).Dirs[0].Topics {
					require.Equal(c.t, "t", t.Topic)
					named += len(t.Partitions)
				}
			}
			require.Equal(c.t, 5, named, "each partition once, by the node that leads it")
		})
	})
}

func TestElectLeaders_LongNameOfManyPartitions(t *testing.T) {
	inCluster(t, func(c *cluster) {
		in := kmsg.NewPtrElectLeadersRequest()
		in.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: strings.Repeat("t", kafkaproto.MaxString), Partitions: make([]int32, 100_000)}}
		c.refuses(in, 2)
	})
}

func TestAlterPartitionReassignments_LongNameOfManyPartitions(t *testing.T) {
	inCluster(t, func(c *cluster) {
		in := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		in.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
			Topic: strings.Repeat("t", kafkaproto.MaxString), Partitions: make([]kmsg.AlterPartitionAssignmentsRequestTopicPartition, 100_000),
		}}
		c.refuses(in, 1)
	})
}

func TestCreateTopics_ManyNames(t *testing.T) {
	inCluster(t, func(c *cluster) {
		in := kmsg.NewPtrCreateTopicsRequest()
		names := make([]string, 30_000)
		for i := range names {
			names[i] = strconv.Itoa(i)
			in.Topics = append(in.Topics, kmsg.CreateTopicsRequestTopic{Topic: names[i], NumPartitions: 1, ReplicationFactor: 1})
		}
		in.ValidateOnly = true
		var out *kmsg.CreateTopicsResponse
		outpaces(c.t, 300, func() { set(names) }, func() { out = ask[*kmsg.CreateTopicsResponse](c, in, 7) })
		require.Len(c.t, out.Topics, len(names))
		require.Zero(c.t, out.Topics[9_999].ErrorCode)
		require.Equal(c.t, kerr.PolicyViolation.Code, out.Topics[10_000].ErrorCode)
	})
}

// TestIncrementalAlterConfigs_ManyElements appends elements to the lists of many topics, and takes them out again.
func TestIncrementalAlterConfigs_ManyElements(t *testing.T) {
	inCluster(t, func(c *cluster) {
		elements := make([]string, 5000)
		for i := range elements {
			elements[i] = strconv.Itoa(i/10) + ":" + strconv.Itoa(i%10)
		}
		value := strings.Join(elements, ",")
		const topics = 40
		in := kmsg.NewPtrIncrementalAlterConfigsRequest()
		for i := range topics {
			c.create(fmt.Sprint("t", i), 1)
			in.Resources = append(in.Resources, kmsg.IncrementalAlterConfigsRequestResource{
				ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: fmt.Sprint("t", i),
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "leader.replication.throttled.replicas", Value: &value}},
			})
		}
		for _, op := range []kmsg.IncrementalAlterConfigOp{kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract} {
			for i := range in.Resources {
				in.Resources[i].Configs[0].Op = op
			}
			outpaces(c.t, 1500, func() { set(elements) }, func() {
				for _, r := range ask[*kmsg.IncrementalAlterConfigsResponse](c, in, 1).Resources {
					require.Zero(c.t, r.ErrorCode, "%v", r.ErrorMessage)
				}
			})
			want := value
			if op == kmsg.IncrementalAlterConfigOpSubtract {
				want = ""
			}
			require.True(c.t, want == c.topic("t39").Configs["leader.replication.throttled.replicas"], "%v", op)
		}
	})
}

func TestIncrementalAlterConfigs_ListGrowsToTheLongestValue(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.create("t", 1)
		appendTo := func(from int) *kmsg.IncrementalAlterConfigsResponseResource {
			var elements []string
			for i := range 4000 {
				elements = append(elements, strconv.Itoa(from+i)+":1")
			}
			in := kmsg.NewPtrIncrementalAlterConfigsRequest()
			in.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
				ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
					{Name: "leader.replication.throttled.replicas", Op: kmsg.IncrementalAlterConfigOpAppend, Value: ptr(strings.Join(elements, ","))},
				},
			}}
			return &ask[*kmsg.IncrementalAlterConfigsResponse](c, in, 1).Resources[0]
		}
		require.Zero(c.t, appendTo(10_000).ErrorCode)
		before := c.topic("t").Configs
		refused := appendTo(20_000)
		require.Equal(c.t, kerr.InvalidConfig.Code, refused.ErrorCode)
		require.Contains(c.t, *refused.ErrorMessage, "exceeds the maximum value size of 32767 bytes")
		require.Equal(c.t, before, c.topic("t").Configs)
		require.Zero(c.t, appendTo(10_000).ErrorCode, "elements that are there")
	})
}

func TestAlterConfigs_TooManyChanges(t *testing.T) {
	inCluster(t, func(c *cluster) {
		in := kmsg.NewPtrIncrementalAlterConfigsRequest()
		for i := range 10_001 {
			in.Resources = append(in.Resources, kmsg.IncrementalAlterConfigsRequestResource{
				ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: strconv.Itoa(i),
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "consumer.session.timeout.ms", Value: ptr("50000")}},
			})
		}
		out := ask[*kmsg.IncrementalAlterConfigsResponse](c, in, 1)
		require.Len(c.t, out.Resources, 10_001)
		for _, r := range out.Resources {
			require.Equal(c.t, kerr.PolicyViolation.Code, r.ErrorCode)
			require.Equal(c.t, "Unable to perform excessively large batch operation.", *r.ErrorMessage)
		}
		_, err := c.owner.Read(func(s *metadata.State) {
			for name := range s.ConfiguredNames(metadata.ConfigGroup) {
				require.Fail(c.t, "changed", name)
			}
		})
		require.NoError(c.t, err)
	})
}

func TestAlterConfigs_TooManySubscriptions(t *testing.T) {
	inCluster(t, func(c *cluster) {
		in := kmsg.NewPtrIncrementalAlterConfigsRequest()
		for i := range 11 {
			in.Resources = append(in.Resources, kmsg.IncrementalAlterConfigsRequestResource{
				ResourceType: kmsg.ConfigResourceTypeClientMetrics, ResourceName: strconv.Itoa(i),
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "match", Value: ptr("client_id=a.*")}},
			})
		}
		refused := ask[*kmsg.IncrementalAlterConfigsResponse](c, in, 1).Resources[10]
		require.Equal(c.t, kerr.PolicyViolation.Code, refused.ErrorCode)
		require.Equal(c.t, "A request changes at most 10 client metrics subscriptions.", *refused.ErrorMessage)
		in.Resources = in.Resources[:10]
		require.Zero(c.t, ask[*kmsg.IncrementalAlterConfigsResponse](c, in, 1).Resources[9].ErrorCode)
	})
}

func TestAlterConfigs_SubscriptionsInAll(t *testing.T) {
	inCluster(t, func(c *cluster) {
		set := func(from, to int) (codes []int16) {
			in := kmsg.NewPtrIncrementalAlterConfigsRequest()
			for i := from; i < to; i++ {
				in.Resources = append(in.Resources, kmsg.IncrementalAlterConfigsRequestResource{
					ResourceType: kmsg.ConfigResourceTypeClientMetrics, ResourceName: strconv.Itoa(i),
					Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "interval.ms", Value: ptr(strconv.Itoa(1000 + from))}},
				})
			}
			for _, r := range ask[*kmsg.IncrementalAlterConfigsResponse](c, in, 1).Resources {
				codes = append(codes, r.ErrorCode)
			}
			return codes
		}
		for i := range 4 {
			require.NotContains(c.t, set(10*i, 10*i+10), kerr.PolicyViolation.Code)
		}
		require.Zero(c.t, set(40, 45)[4])
		codes := set(44, 51) // the first exists
		require.Zero(c.t, codes[5], "the fiftieth")
		require.Equal(c.t, kerr.PolicyViolation.Code, codes[6])
	})
}

func TestCreatePartitions_OfManyTopics(t *testing.T) {
	inCluster(t, func(c *cluster) {
		in := kmsg.NewPtrCreatePartitionsRequest()
		for i := range 3 {
			c.create(fmt.Sprint("t", i), 1)
			in.Topics = append(in.Topics, kmsg.CreatePartitionsRequestTopic{Topic: fmt.Sprint("t", i), Count: 5001})
		}
		out := ask[*kmsg.CreatePartitionsResponse](c, in, 3)
		require.Zero(c.t, out.Topics[0].ErrorCode)
		require.Zero(c.t, out.Topics[1].ErrorCode)
		require.Equal(c.t, kerr.PolicyViolation.Code, out.Topics[2].ErrorCode)
		require.EqualValues(c.t, 1, c.topic("t2").Partitions)
	})
}

// watched counts the reads that hold the owner's lock.
type watched struct {
	*owner.Owner
	reads int
}

func (w *watched) Read(fn func(*metadata.State)) (uint64, error) {
	w.reads++
	return w.Owner.Read(fn)
}

// TestHandle_HoldsNoLock: requests whose work grows with their names, or with the topics, read a frozen state, so that commits go on.
func TestHandle_HoldsNoLock(t *testing.T) {
	bounded := map[int16]bool{ // the work is bounded by the number of agents
		int16(kmsg.DescribeCluster): true, int16(kmsg.DescribeQuorum): true, int16(kmsg.UnregisterBroker): true,
	}
	inCluster(t, func(c *cluster) {
		w := &watched{Owner: c.owner}
		apis := admin.New(admin.Config{}, w)
		for _, key := range apis.Keys() {
			if bounded[key] {
				continue
			}
			w.reads = 0
			in := kmsg.RequestForKey(key)
			in.SetVersion(in.MaxVersion())
			_, err := apis.Handle(context.Background(), &api.Forward{Zone: "a", Node: 1, ApiKey: int32(key), ApiVersion: int32(in.GetVersion()), Body: in.AppendTo(nil)})
			require.NoError(c.t, err)
			require.Zero(c.t, w.reads, kmsg.NameForKey(key))
		}
	})
}

func TestDescribeTopicPartitions_Bound(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.create("many", 2100)
		in := kmsg.NewPtrDescribeTopicPartitionsRequest()
		in.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "many"}}
		in.ResponsePartitionLimit = math.MaxInt32
		out := ask[*kmsg.DescribeTopicPartitionsResponse](c, in, 0)
		require.Len(c.t, out.Topics[0].Partitions, 2000)
		require.EqualValues(c.t, 2000, out.NextCursor.Partition)
	})
}

package txn_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	metadataid "github.com/freshet-io/freshet/metadata/id"
)

// refuses sends a request whose answer would be too large. The answer must not be built before the request is refused.
func (c *cluster) refuses(in kmsg.Request, version int16) {
	c.t.Helper()
	in.SetVersion(version)
	body := in.AppendTo(nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.coord.Handle(c.t.Context(), &api.Forward{ApiKey: int32(in.Key()), ApiVersion: int32(version), Body: body, Node: c.node})
	runtime.ReadMemStats(&after)
	require.ErrorIs(c.t, err, session.ErrBadRequest)
	require.ErrorContains(c.t, err, "the answer is too large")
	bytes := after.TotalAlloc - before.TotalAlloc
	c.t.Logf("%T: allocated %d MiB", in, bytes>>20)
	require.Less(c.t, bytes, uint64(100<<20))
}

func TestDescribeTransactions_NamesATransactionOftenInOneRequest(t *testing.T) {
	run(t, func(c *cluster) {
		c.propose(&metadata.CreateTopic{ID: metadataid.Topic{9}, Name: "many", Partitions: 2000})
		p := c.init("x")
		partitions := make([]int32, 2000)
		for i := range partitions {
			partitions[i] = int32(i)
		}
		for _, code := range c.add(p, 3, "many", partitions...) {
			require.Zero(c.t, code)
		}
		require.Zero(c.t, c.add(p, 3, "t", 0)[0])
		in := kmsg.NewPtrDescribeTransactionsRequest()
		in.TransactionalIDs = slices.Repeat([]string{"x", "none"}, 20)
		out := ask[*kmsg.DescribeTransactionsResponse](c, in, 0)
		require.Len(c.t, out.TransactionStates, 40)
		require.Len(c.t, out.TransactionStates[0].Topics, 2)
		require.Equal(c.t, out.TransactionStates[:2], out.TransactionStates[38:])
		in.TransactionalIDs = slices.Repeat([]string{"x"}, 100_000)
		c.refuses(in, 0)
	})
}

func TestDescribeProducers_NamesAPartitionOftenInOneRequest(t *testing.T) {
	run(t, func(c *cluster) {
		var topic *metadata.Topic
		_, err := c.owner.Read(func(s *metadata.State) { topic, _ = s.TopicByName("t") })
		require.NoError(c.t, err)
		var b commit.Builder
		b.Reset(commit.Header{Submission: metadataid.Submission{Session: 1, N: 1}, Bytes: 1 << 20})
		b.Section(commit.Section{Partition: id(topic, 0)})
		for i := range 1000 {
			c.init(fmt.Sprint(i))
			b.Batch(commit.Batch{Records: 1, Bytes: 100, ProducerID: int64(i)})
		}
		c.propose(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
		in := kmsg.NewPtrDescribeProducersRequest()
		in.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 1, 0, 9}}}
		out := ask[*kmsg.DescribeProducersResponse](c, in, 0).Topics[0].Partitions
		require.Len(c.t, out[0].ActiveProducers, 1000)
		require.Empty(c.t, out[1].ActiveProducers)
		require.Equal(c.t, out[0], out[2])
		require.Equal(c.t, kerr.UnknownTopicOrPartition.Code, out[3].ErrorCode)
		in.Topics[0].Partitions = make([]int32, 100_000)
		c.refuses(in, 0)
	})
}

func TestAddPartitionsToTxn_NamesAPartitionOftenInOneRequest(t *testing.T) {
	test(t, kmsg.AddPartitionsToTxn, func(c *cluster, version int16) {
		p := c.init("x")
		in := kmsg.NewPtrAddPartitionsToTxnRequest()
		in.TransactionalID, in.ProducerID, in.ProducerEpoch = p.name, p.id, p.epoch
		in.Topics = slices.Repeat([]kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{1, 0, 1}}}, 1000)
		topics := slices.Repeat([]kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "t", Partitions: []int32{1, 0, 1}}}, 1000)
		in.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{
			{TransactionalID: p.name, ProducerID: p.id, ProducerEpoch: p.epoch, Topics: topics},
		}
		out := ask[*kmsg.AddPartitionsToTxnResponse](c, in, version)
		named := map[int32]int{}
		for _, t := range out.Topics {
			for _, p := range t.Partitions {
				require.Zero(c.t, p.ErrorCode)
				named[p.Partition]++
			}
		}
		for _, t := range out.Transactions {
			for _, t := range t.Topics {
				for _, p := range t.Partitions {
					require.Zero(c.t, p.ErrorCode)
					named[p.Partition]++
				}
			}
		}
		require.Equal(c.t, map[int32]int{0: 1, 1: 1}, named)
	})
}

func TestListTransactions_NamesAStateOftenInOneRequest(t *testing.T) {
	run(t, func(c *cluster) {
		for i := range 1000 {
			c.init(fmt.Sprint("x", i))
		}
		in := kmsg.NewPtrListTransactionsRequest()
		in.StateFilters = slices.Repeat([]string{"Empty", "unknown", "other"}, 1000)
		out := ask[*kmsg.ListTransactionsResponse](c, in, 2)
		require.Len(c.t, out.TransactionStates, 1000)
		require.Equal(c.t, []string{"unknown", "other"}, out.UnknownStateFilters)
	})
}

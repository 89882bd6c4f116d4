package txn_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/controlplane/txn"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	metadataid "github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a virtual cluster with topic "t" of three partitions and two agents: nodes 1 and 2 in zone a, 3 in zone b.
type cluster struct {
	t     *testing.T
	coord *txn.Coordinator
	owner *owner.Owner
	node  int32  // that requests come by
	zone  string // of the client
	asOf  uint64 // of requests; 0: as new as can be
}

// test runs fn on a fresh cluster in a bubble, once per version served.
func test(t *testing.T, key kmsg.Key, fn func(c *cluster, version int16)) {
	t.Helper()
	entry, ok := kafkaproto.Lookup(int16(key))
	require.True(t, ok)
	for version := entry.Served.Min; version <= entry.Served.Max; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) { run(t, func(c *cluster) { fn(c, version) }) })
	}
}

func run(t *testing.T, fn func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log, _, err := memlog.New().Open("r1", metalog.Config{})
		require.NoError(t, err)
		owned := make(chan *owner.Owner, 1)
		r, err := replica.New(replica.Config{
			Replica: "r1", Address: "r1:1", Log: log, Bucket: mem.New(), SnapshotPrefix: "s/", ClusterID: "the-cluster",
			OnOwner: func(o *owner.Owner) func() {
				owned <- o
				return func() {}
			},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		defer func() {
			cancel()
			require.NoError(t, <-ended)
		}()
		c := &cluster{t: t, owner: <-owned, node: 1, zone: "a"}
		c.coord = txn.New(txn.Config{}, c.owner)
		c.propose(&metadata.OpenSession{Instance: "a", Zone: "a", Endpoints: []metadata.Endpoint{{Host: "a", Port: 1}, {Host: "a", Port: 2}}})
		c.propose(&metadata.OpenSession{Instance: "b", Zone: "b", Endpoints: []metadata.Endpoint{{Host: "b", Port: 3}}})
		c.propose(&metadata.CreateTopic{ID: [16]byte{1}, Name: "t", Partitions: 3})
		fn(c)
	})
}

func (c *cluster) propose(command metadata.Command) metadata.Result {
	c.t.Helper()
	result, _, err := c.owner.Propose(c.t.Context(), command)
	require.NoError(c.t, err)
	require.NoError(c.t, result.Err)
	return result
}

// now is the index of everything so far.
func (c *cluster) now() uint64 {
	index, err := c.owner.Read(func(*metadata.State) {})
	require.NoError(c.t, err)
	return index
}

// ask forwards a request in a version, through its encoding and back.
func ask[Out kmsg.Response](c *cluster, in kmsg.Request, version int16) Out {
	c.t.Helper()
	asOf := c.asOf
	if asOf == 0 {
		asOf = c.now()
	}
	in.SetVersion(version)
	body, err := c.coord.Handle(c.t.Context(), &api.Forward{
		ApiKey: int32(in.Key()), ApiVersion: int32(version), Body: in.AppendTo(nil), Zone: c.zone, Node: c.node, AsOf: asOf,
	})
	require.NoError(c.t, err)
	out := in.ResponseKind()
	out.SetVersion(version)
	require.NoError(c.t, out.ReadFrom(body))
	return out.(Out)
}

// producer is one that was initialized.
type producer struct {
	name  string
	id    int64
	epoch int16
}

func (c *cluster) init(name string) producer {
	c.t.Helper()
	in := kmsg.NewPtrInitProducerIDRequest()
	in.TransactionalID, in.TransactionTimeoutMillis = &name, 60_000
	out := ask[*kmsg.InitProducerIDResponse](c, in, 5)
	require.Zero(c.t, out.ErrorCode)
	return producer{name, out.ProducerID, out.ProducerEpoch}
}

// add adds partitions as clients of the first protocol do and gives the codes.
func (c *cluster) add(p producer, version int16, topic string, partitions ...int32) []int16 {
	c.t.Helper()
	in := kmsg.NewPtrAddPartitionsToTxnRequest()
	in.TransactionalID, in.ProducerID, in.ProducerEpoch = p.name, p.id, p.epoch
	in.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: partitions}}
	var codes []int16
	for _, t := range ask[*kmsg.AddPartitionsToTxnResponse](c, in, version).Topics {
		for i, part := range t.Partitions {
			require.Equal(c.t, partitions[i], part.Partition)
			codes = append(codes, part.ErrorCode)
		}
	}
	return codes
}

func (c *cluster) end(p producer, version int16, commit bool) *kmsg.EndTxnResponse {
	c.t.Helper()
	in := kmsg.NewPtrEndTxnRequest()
	in.TransactionalID, in.ProducerID, in.ProducerEpoch, in.Commit = p.name, p.id, p.epoch, commit
	return ask[*kmsg.EndTxnResponse](c, in, version)
}

// fenced is the code of a fenced producer: versions below since do not know PRODUCER_FENCED.
func fenced(version, since int16) int16 {
	if version < since {
		return kerr.InvalidProducerEpoch.Code
	}
	return kerr.ProducerFenced.Code
}

func TestCoordinator_AnswersWhatTheTableSays(t *testing.T) {
	for _, key := range new(txn.Coordinator).Keys() {
		entry, _ := kafkaproto.Lookup(key)
		require.Equal(t, kafkaproto.ByControlPlane, entry.By, entry.Name)
	}
}

func TestCoordinator_RefusesWhatItCannotRead(t *testing.T) {
	run(t, func(c *cluster) {
		for _, f := range []*api.Forward{
			{ApiKey: 0}, {ApiKey: 26, ApiVersion: 99}, {ApiKey: 26, ApiVersion: -1}, {ApiKey: 26, Body: []byte{0xff, 0xff}},
		} {
			_, err := c.coord.Handle(c.t.Context(), f)
			require.ErrorIs(c.t, err, session.ErrBadRequest)
		}
	})
}

func TestInitProducerID_Idempotent(t *testing.T) {
	test(t, kmsg.InitProducerID, func(c *cluster, version int16) {
		seen := map[int64]bool{}
		in := kmsg.NewPtrInitProducerIDRequest()
		for range 1500 { // more than a block
			out := ask[*kmsg.InitProducerIDResponse](c, in, version)
			require.Zero(c.t, out.ErrorCode)
			require.Zero(c.t, out.ProducerEpoch)
			require.False(c.t, seen[out.ProducerID])
			seen[out.ProducerID] = true
		}
		if version >= 3 {
			in.ProducerID = 5
			require.Equal(c.t, kerr.InvalidRequest.Code, ask[*kmsg.InitProducerIDResponse](c, in, version).ErrorCode, "an id without an epoch")
		}
	})
}

func TestInitProducerID_Transactional(t *testing.T) {
	test(t, kmsg.InitProducerID, func(c *cluster, version int16) {
		name := ""
		in := kmsg.NewPtrInitProducerIDRequest()
		in.TransactionalID, in.TransactionTimeoutMillis = &name, 60_000
		require.Equal(c.t, kerr.InvalidRequest.Code, ask[*kmsg.InitProducerIDResponse](c, in, version).ErrorCode)
		name = "x"
		for _, timeout := range []int32{0, -1, 900_001} {
			in.TransactionTimeoutMillis = timeout
			require.Equal(c.t, kerr.InvalidTransactionTimeout.Code, ask[*kmsg.InitProducerIDResponse](c, in, version).ErrorCode)
		}
		in.TransactionTimeoutMillis = 900_000
		first := ask[*kmsg.InitProducerIDResponse](c, in, version)
		require.Zero(c.t, first.ErrorCode)
		require.Zero(c.t, first.ProducerEpoch)
		second := ask[*kmsg.InitProducerIDResponse](c, in, version)
		require.Equal(c.t, first.ProducerID, second.ProducerID)
		require.EqualValues(c.t, 1, second.ProducerEpoch)
		if version < 3 {
			return
		}
		in.ProducerID, in.ProducerEpoch = first.ProducerID, 1
		require.EqualValues(c.t, 2, ask[*kmsg.InitProducerIDResponse](c, in, version).ProducerEpoch)
		require.EqualValues(c.t, 2, ask[*kmsg.InitProducerIDResponse](c, in, version).ProducerEpoch, "asked again")
		in.ProducerEpoch = 0
		out := ask[*kmsg.InitProducerIDResponse](c, in, version)
		require.Equal(c.t, fenced(version, 4), out.ErrorCode)
		require.EqualValues(c.t, -1, out.ProducerID)
		require.EqualValues(c.t, -1, out.ProducerEpoch)
	})
}

func TestAddPartitionsToTxn(t *testing.T) {
	test(t, kmsg.AddPartitionsToTxn, func(c *cluster, version int16) {
		if version >= 4 {
			return // see the batched one
		}
		p := c.init("x")
		require.Equal(c.t, []int16{0, 0}, c.add(p, version, "t", 0, 2))
		require.Equal(c.t, []int16{0}, c.add(p, version, "t", 0), "again")
		unknown, skipped := kerr.UnknownTopicOrPartition.Code, kerr.OperationNotAttempted.Code
		require.Equal(c.t, []int16{unknown, skipped, unknown}, c.add(p, version, "t", 3, 1, -1))
		require.Equal(c.t, []int16{unknown}, c.add(p, version, "none", 0))
		require.Equal(c.t, []int16{kerr.InvalidProducerIDMapping.Code}, c.add(producer{"y", p.id, 0}, version, "t", 1))
		require.Equal(c.t, []int16{kerr.InvalidProducerIDMapping.Code}, c.add(producer{"x", p.id + 1, 0}, version, "t", 1))
		require.Equal(c.t, []int16{fenced(version, 2)}, c.add(producer{"x", p.id, 1}, version, "t", 1))
		require.Equal(c.t, []int16{kerr.InvalidRequest.Code}, c.add(producer{"", p.id, 0}, version, "t", 1))
	})
}

func TestAddPartitionsToTxn_Batched(t *testing.T) {
	for version := int16(4); version <= 5; version++ {
		run(t, func(c *cluster) {
			p, q := c.init("x"), c.init("y")
			in := kmsg.NewPtrAddPartitionsToTxnRequest()
			of := func(p producer, verify bool, partitions ...int32) {
				in.Transactions = append(in.Transactions, kmsg.AddPartitionsToTxnRequestTransaction{
					TransactionalID: p.name, ProducerID: p.id, ProducerEpoch: p.epoch, VerifyOnly: verify,
					Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "t", Partitions: partitions}},
				})
			}
			of(p, false, 0, 1)
			of(q, true, 0)
			of(p, true, 1, 2)
			of(producer{"x", p.id, 7}, true, 1)
			of(producer{"x", 99, 0}, true, 1)
			of(producer{"", 99, 0}, true, 1)
			of(producer{"x", p.id, 7}, false, 2)
			of(q, true, 9)
			var got [][]int16
			for i, t := range ask[*kmsg.AddPartitionsToTxnResponse](c, in, version).Transactions {
				require.Equal(c.t, in.Transactions[i].TransactionalID, t.TransactionalID)
				var codes []int16
				for _, part := range t.Topics[0].Partitions {
					codes = append(codes, part.ErrorCode)
				}
				got = append(got, codes)
			}
			abortable := kerr.TransactionAbortable.Code
			require.Equal(c.t, [][]int16{
				{0, 0},
				{abortable},
				{0, abortable},
				{kerr.ProducerFenced.Code},
				{kerr.InvalidProducerIDMapping.Code},
				{kerr.InvalidRequest.Code},
				{kerr.ProducerFenced.Code},
				{kerr.UnknownTopicOrPartition.Code},
			}, got)
		})
	}
}

func TestAddOffsetsToTxn(t *testing.T) {
	test(t, kmsg.AddOffsetsToTxn, func(c *cluster, version int16) {
		p := c.init("x")
		in := kmsg.NewPtrAddOffsetsToTxnRequest()
		in.TransactionalID, in.ProducerID, in.ProducerEpoch, in.Group = "x", p.id, p.epoch, "g"
		require.Zero(c.t, ask[*kmsg.AddOffsetsToTxnResponse](c, in, version).ErrorCode)
		require.Zero(c.t, ask[*kmsg.AddOffsetsToTxnResponse](c, in, version).ErrorCode, "again")
		in.ProducerEpoch = 3
		require.Equal(c.t, fenced(version, 2), ask[*kmsg.AddOffsetsToTxnResponse](c, in, version).ErrorCode)
		in.TransactionalID = "y"
		require.Equal(c.t, kerr.InvalidProducerIDMapping.Code, ask[*kmsg.AddOffsetsToTxnResponse](c, in, version).ErrorCode)
		in.TransactionalID = ""
		require.Equal(c.t, kerr.InvalidRequest.Code, ask[*kmsg.AddOffsetsToTxnResponse](c, in, version).ErrorCode)
	})
}

// A transaction has at most metadata.MaxTransactionGroups groups; clients abort one that would have more.
func TestAddOffsetsToTxn_TooManyGroups(t *testing.T) {
	test(t, kmsg.AddOffsetsToTxn, func(c *cluster, version int16) {
		p := c.init("x")
		in := kmsg.NewPtrAddOffsetsToTxnRequest()
		in.TransactionalID, in.ProducerID, in.ProducerEpoch = "x", p.id, p.epoch
		for n := range metadata.MaxTransactionGroupBytes >> 15 {
			in.Group = fmt.Sprint(n) + strings.Repeat("x", 1<<15-1-len(fmt.Sprint(n)))
			require.Zero(c.t, ask[*kmsg.AddOffsetsToTxnResponse](c, in, version).ErrorCode)
		}
		in.Group = strings.Repeat("y", 1<<15-1)
		want := kerr.InvalidTxnState.Code
		if version >= 4 {
			want = kerr.TransactionAbortable.Code
		}
		require.Equal(c.t, want, ask[*kmsg.AddOffsetsToTxnResponse](c, in, version).ErrorCode)
	})
}

func TestEndTxn(t *testing.T) {
	test(t, kmsg.EndTxn, func(c *cluster, version int16) {
		p := c.init("x")
		require.Equal(c.t, kerr.InvalidTxnState.Code, c.end(p, version, true).ErrorCode, "nothing to commit")
		require.Equal(c.t, []int16{0}, c.add(p, 3, "t", 0))
		out := c.end(p, version, true)
		require.Zero(c.t, out.ErrorCode)
		if version < 5 {
			require.EqualValues(c.t, -1, out.ProducerID)
			require.EqualValues(c.t, -1, out.ProducerEpoch)
		} else {
			require.Equal(c.t, p.id, out.ProducerID)
			require.EqualValues(c.t, p.epoch+1, out.ProducerEpoch)
			require.Equal(c.t, out, c.end(p, version, true), "asked again")
		}
		require.Zero(c.t, c.end(p, version, true).ErrorCode, "asked again")
		require.Equal(c.t, kerr.InvalidTxnState.Code, c.end(p, version, false).ErrorCode)
		require.Equal(c.t, fenced(version, 2), c.end(producer{"x", p.id, 9}, version, true).ErrorCode)
		require.Equal(c.t, kerr.InvalidProducerIDMapping.Code, c.end(producer{"x", p.id + 1, 0}, version, true).ErrorCode)
		require.Equal(c.t, kerr.InvalidProducerIDMapping.Code, c.end(producer{"y", p.id, 0}, version, true).ErrorCode)
		require.Equal(c.t, kerr.InvalidRequest.Code, c.end(producer{"", p.id, 0}, version, true).ErrorCode)
	})
}

// TestEndTxn_LateOfTheFirstProtocol: a request that was sent before the transaction that is cannot end it.
func TestEndTxn_LateOfTheFirstProtocol(t *testing.T) {
	run(t, func(c *cluster) {
		p := c.init("x")
		require.Equal(c.t, []int16{0}, c.add(p, 3, "t", 0))
		sent := c.now()
		require.Zero(c.t, c.end(p, 4, false).ErrorCode)
		require.Equal(c.t, []int16{0}, c.add(p, 3, "t", 1))
		c.asOf = sent
		require.Equal(c.t, kerr.InvalidTxnState.Code, c.end(p, 4, false).ErrorCode)
		require.Equal(c.t, kerr.InvalidTxnState.Code, c.add(p, 3, "t", 2)[0])
		c.asOf = 0
		require.Equal(c.t, "Ongoing", c.describe("x").State)
		require.Zero(c.t, c.end(p, 4, true).ErrorCode)
	})
}

func (c *cluster) describe(name string) kmsg.DescribeTransactionsResponseTransactionState {
	c.t.Helper()
	in := kmsg.NewPtrDescribeTransactionsRequest()
	in.TransactionalIDs = []string{name}
	return ask[*kmsg.DescribeTransactionsResponse](c, in, 0).TransactionStates[0]
}

func TestDescribeTransactions(t *testing.T) {
	run(t, func(c *cluster) {
		require.Equal(c.t, kerr.TransactionalIDNotFound.Code, c.describe("x").ErrorCode)
		require.Equal(c.t, kerr.InvalidRequest.Code, c.describe("").ErrorCode)
		p := c.init("x")
		empty := c.describe("x")
		require.Equal(c.t, "Empty", empty.State)
		require.EqualValues(c.t, -1, empty.StartTimestamp)
		require.Empty(c.t, empty.Topics)
		began := time.Now().UnixMilli()
		require.Equal(c.t, []int16{0, 0}, c.add(p, 3, "t", 0, 2))
		in := kmsg.NewPtrAddOffsetsToTxnRequest()
		in.TransactionalID, in.ProducerID, in.ProducerEpoch, in.Group = "x", p.id, p.epoch, "some-group"
		require.Zero(c.t, ask[*kmsg.AddOffsetsToTxnResponse](c, in, 4).ErrorCode)
		open := c.describe("x")
		require.Equal(c.t, "Ongoing", open.State)
		require.EqualValues(c.t, 60_000, open.TimeoutMillis)
		require.Equal(c.t, p.id, open.ProducerID)
		require.Zero(c.t, open.ProducerEpoch)
		require.InDelta(c.t, began, open.StartTimestamp, 1000)
		require.Equal(c.t, []kmsg.DescribeTransactionsResponseTransactionStateTopic{
			{Topic: "t", Partitions: []int32{0, 2}}, {Topic: "__consumer_offsets", Partitions: []int32{22}},
		}, open.Topics)
		require.Zero(c.t, c.end(p, 5, true).ErrorCode)
		require.Equal(c.t, "CompleteCommit", c.describe("x").State)
		require.Empty(c.t, c.describe("x").Topics)

		many := kmsg.NewPtrDescribeTransactionsRequest()
		for i := range 100 {
			many.TransactionalIDs = append(many.TransactionalIDs, fmt.Sprint(i))
		}
		many.TransactionalIDs = append(many.TransactionalIDs, "x")
		out := ask[*kmsg.DescribeTransactionsResponse](c, many, 0)
		require.Len(c.t, out.TransactionStates, 101)
		require.Equal(c.t, kerr.TransactionalIDNotFound.Code, out.TransactionStates[99].ErrorCode)
		require.Equal(c.t, p.id, out.TransactionStates[100].ProducerID)
	})
}

func TestListTransactions(t *testing.T) {
	test(t, kmsg.ListTransactions, func(c *cluster, version int16) {
		for _, name := range []string{"open", "done", "new"} {
			p := c.init(name)
			if name != "new" {
				c.add(p, 3, "t", 0)
			}
			if name == "done" {
				c.end(p, 5, false)
			}
			time.Sleep(10 * time.Second)
		}
		list := func(change func(in *kmsg.ListTransactionsRequest)) []string {
			in := kmsg.NewPtrListTransactionsRequest()
			change(in)
			out := ask[*kmsg.ListTransactionsResponse](c, in, version)
			require.Zero(c.t, out.ErrorCode)
			var names []string
			for _, s := range out.TransactionStates {
				names = append(names, s.TransactionalID+" "+s.TransactionState)
			}
			return names
		}
		require.Equal(c.t, []string{"done CompleteAbort", "new Empty", "open Ongoing"}, list(func(*kmsg.ListTransactionsRequest) {}))
		require.Equal(c.t, []string{"new Empty", "open Ongoing"}, list(func(in *kmsg.ListTransactionsRequest) {
			in.StateFilters = []string{"Empty", "Ongoing", "PrepareCommit"}
		}))
		require.Empty(c.t, list(func(in *kmsg.ListTransactionsRequest) { in.ProducerIDFilters = []int64{1 << 40} }))
		in := kmsg.NewPtrListTransactionsRequest()
		in.StateFilters = []string{"ongoing", "Dead"}
		require.Equal(c.t, []string{"ongoing"}, ask[*kmsg.ListTransactionsResponse](c, in, version).UnknownStateFilters)
		if version >= 1 {
			require.Equal(c.t, []string{"new Empty", "open Ongoing"}, list(func(in *kmsg.ListTransactionsRequest) {
				in.DurationFilterMillis = 25_000 // what never began is as old as can be, as in Kafka
			}))
		}
		if version >= 2 {
			pattern := "o.*|n"
			require.Equal(c.t, []string{"open Ongoing"}, list(func(in *kmsg.ListTransactionsRequest) { in.TransactionalIDPattern = &pattern }))
			in, pattern = kmsg.NewPtrListTransactionsRequest(), "("
			in.TransactionalIDPattern = &pattern
			require.Equal(c.t, kerr.InvalidRegularExpression.Code, ask[*kmsg.ListTransactionsResponse](c, in, version).ErrorCode)
		}
	})
}

// TestListTransactions_CoordinatorLists: the node that FindCoordinator names lists a transaction, and no other node that the client sees.
// Sessions 1 and 2 are in zones a and b.
func TestListTransactions_CoordinatorLists(t *testing.T) {
	run(t, func(c *cluster) {
		var first, second []string
		for i := range 20 {
			name := fmt.Sprint("x", i)
			c.init(name)
			if assign.Key(1, name, []uint32{1, 2}) == 0 {
				first = append(first, name)
			} else {
				second = append(second, name)
			}
		}
		slices.Sort(first)
		slices.Sort(second)
		all := slices.Sorted(slices.Values(slices.Concat(first, second)))
		require.NotEmpty(c.t, first)
		require.NotEmpty(c.t, second)
		for _, tc := range []struct {
			zone string
			node int32
			want []string
		}{
			{"a", 1, all},
			{"a", 2, nil},
			{"a", 3, nil}, // nodes 1 and 2 are of the agent of zone a
			{"b", 1, nil},
			{"b", 2, nil},
			{"b", 3, all},
			{"elsewhere", 1, first},
			{"elsewhere", 2, nil},
			{"elsewhere", 3, second},
			{"a", 77, all}, // clients do not see this node
		} {
			c.zone, c.node = tc.zone, tc.node
			var listed []string
			for _, s := range ask[*kmsg.ListTransactionsResponse](c, kmsg.NewPtrListTransactionsRequest(), 2).TransactionStates {
				listed = append(listed, s.TransactionalID)
			}
			slices.Sort(listed)
			require.Equal(c.t, tc.want, listed, "%+v", tc)
		}
	})
}

// Tools ask every node. So the cost of one answer must not be transactions times agents, or a list of all costs transactions times the
// square of the agents.
func TestListTransactions_OfManyAgents(t *testing.T) {
	run(t, func(c *cluster) {
		for i := range 1000 {
			c.init(fmt.Sprint("x", i))
		}
		cost := func() uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ask[*kmsg.ListTransactionsResponse](c, kmsg.NewPtrListTransactionsRequest(), 2)
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		c.node = 2 // lists none
		cost()
		few := cost()
		for i := range 500 {
			c.propose(&metadata.OpenSession{Instance: fmt.Sprint(i), Zone: "a", Endpoints: []metadata.Endpoint{{Host: "h", Port: int32(i + 10)}}})
		}
		require.Less(c.t, cost(), 5*few+500*1000, "bytes allocated for an empty list, beside %d with two agents", few)
	})
}

func TestDescribeProducersAndWriteTxnMarkers(t *testing.T) {
	test(t, kmsg.WriteTxnMarkers, func(c *cluster, version int16) {
		describe := kmsg.NewPtrDescribeProducersRequest()
		describe.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 3}}, {Topic: "none", Partitions: []int32{0}}}
		out := ask[*kmsg.DescribeProducersResponse](c, describe, 0)
		require.Zero(c.t, out.Topics[0].Partitions[0].ErrorCode)
		require.Empty(c.t, out.Topics[0].Partitions[0].ActiveProducers)
		require.Equal(c.t, kerr.UnknownTopicOrPartition.Code, out.Topics[0].Partitions[1].ErrorCode)
		require.Equal(c.t, kerr.UnknownTopicOrPartition.Code, out.Topics[1].Partitions[0].ErrorCode)
		require.NotNil(c.t, out.Topics[1].Partitions[0].ErrorMessage)

		in := kmsg.NewPtrWriteTxnMarkersRequest()
		require.Empty(c.t, ask[*kmsg.WriteTxnMarkersResponse](c, in, version).Markers)
		marker := func(partitions ...int32) kmsg.WriteTxnMarkersRequestMarker {
			return kmsg.WriteTxnMarkersRequestMarker{
				ProducerID: 7, ProducerEpoch: 1, Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "t", Partitions: partitions}},
			}
		}
		in.Markers = []kmsg.WriteTxnMarkersRequestMarker{marker(0, 5, 0), marker(1)}
		answer := ask[*kmsg.WriteTxnMarkersResponse](c, in, version)
		require.Len(c.t, answer.Markers, 1)
		require.EqualValues(c.t, 7, answer.Markers[0].ProducerID)
		require.Zero(c.t, answer.Markers[0].Topics[0].Partitions[0].ErrorCode)
		require.Equal(c.t, kerr.UnknownTopicOrPartition.Code, answer.Markers[0].Topics[0].Partitions[1].ErrorCode)
		require.Len(c.t, answer.Markers[0].Topics, 1)
		require.Len(c.t, answer.Markers[0].Topics[0].Partitions, 3, "partition 0 is named twice")
		require.EqualValues(c.t, 1, answer.Markers[0].Topics[0].Partitions[2].Partition)
		require.Zero(c.t, answer.Markers[0].Topics[0].Partitions[2].ErrorCode)
		_, err := c.owner.Read(func(s *metadata.State) {
			topic, _ := s.TopicByName("t")
			for partition, high := range []int64{1, 1, 0} {
				marks, _ := s.Watermarks(id(topic, int32(partition)))
				require.Equal(c.t, high, marks.HighWatermark)
			}
		})
		require.NoError(c.t, err)
	})
}

func id(t *metadata.Topic, partition int32) metadataid.TopicPartition {
	return metadataid.TopicPartition{Topic: t.ID, Partition: partition}
}

// A hostile expression holds no processor beyond the end of its request.
func TestListTransactions_SlowExpression(t *testing.T) {
	run(t, func(c *cluster) {
		c.init("x")
		for pattern, want := range map[string]int16{
			strings.Repeat("a", 1025):            kerr.InvalidRegularExpression.Code,
			strings.Repeat("[a-z0-9]{0,900}", 2): 0,
			strings.Repeat("a{1000}", 11):        kerr.InvalidRegularExpression.Code,
		} {
			in := kmsg.NewPtrListTransactionsRequest()
			in.TransactionalIDPattern = &pattern
			require.Equal(t, want, ask[*kmsg.ListTransactionsResponse](c, in, 2).ErrorCode, pattern)
		}
	})
}

// A new transactional ID beyond the limit is refused for good. IDs that are known go on.
func TestInitProducerID_Limit(t *testing.T) {
	test(t, kmsg.InitProducerID, func(c *cluster, version int16) {
		c.init("x")
		c.propose(&metadata.SetLimits{Limits: metadata.Limits{metadata.LimitTransactionalIDs: 1}})
		name := "y"
		in := kmsg.NewPtrInitProducerIDRequest()
		in.TransactionalID, in.TransactionTimeoutMillis = &name, 60_000
		out := ask[*kmsg.InitProducerIDResponse](c, in, version)
		require.Equal(c.t, kerr.PolicyViolation.Code, out.ErrorCode)
		require.EqualValues(c.t, -1, out.ProducerID)
		require.EqualValues(c.t, 1, c.init("x").epoch)
	})
}

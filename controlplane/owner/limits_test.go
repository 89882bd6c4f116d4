package owner_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestOwner_WarnsNearLimits: from 90 % of a limit on, a warning once a minute names it with its setting. Metrics show limits and their use.
func TestOwner_WarnsNearLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged, lines := observer.New(zapcore.WarnLevel)
		registry := prometheus.NewRegistry()
		f := start(t, func(c *owner.Config) {
			c.Logger, c.Registerer = zap.New(logged), registry
			c.First = []metadata.Command{&metadata.SetLimits{Limits: metadata.Limits{metadata.LimitTopics: 10, metadata.LimitPartitions: 100}}}
		})
		end := f.run(t)
		defer func() { require.NoError(t, end()) }()
		create := func(n int) {
			t.Helper()
			_, _, err := f.Propose(t.Context(), &metadata.CreateTopic{ID: id.Topic{byte(n)}, Name: fmt.Sprint(n), Partitions: 9})
			require.NoError(t, err)
		}
		for n := range 8 {
			create(n + 1)
		}
		require.Zero(t, lines.Len())
		create(9)
		create(10)
		require.Equal(t, 1, lines.Len())
		require.Contains(t, lines.All()[0].Message, "near its limits")
		require.Equal(t, []any{"topics: 9 of 10 (--max-topics)"}, lines.All()[0].ContextMap()["limits"])
		time.Sleep(time.Minute)
		create(11)
		require.Equal(t, 2, lines.Len())
		require.Equal(t, []any{"topics: 10 of 10 (--max-topics)", "partitions: 90 of 100 (--max-partitions)"}, lines.All()[1].ContextMap()["limits"])
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP freshet_owner_limit_used Use of a limit of the state, on the owner; growth beyond the limit is refused.
# TYPE freshet_owner_limit_used gauge
freshet_owner_limit_used{kind="groups"} 0
freshet_owner_limit_used{kind="offset_bytes"} 0
freshet_owner_limit_used{kind="partitions"} 90
freshet_owner_limit_used{kind="text_bytes"} 11
freshet_owner_limit_used{kind="topics"} 10
freshet_owner_limit_used{kind="transactional_ids"} 0
`), "freshet_owner_limit_used"))
	})
}

// TestOwner_ShowsTheMemoryOfTopicsAndGroups: a gauge has the memory of topic and group metadata as a share of its bound, and so has the warning
// from 90 % of the bound on.
func TestOwner_ShowsTheMemoryOfTopicsAndGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged, lines := observer.New(zapcore.WarnLevel)
		registry := prometheus.NewRegistry()
		f, end := startBounded(t, func(c *owner.Config) { c.Logger, c.Registerer = zap.New(logged), registry })
		share := func() float64 { return gathered(t, registry, "freshet_owner_topics_and_groups_share") }
		used := func() float64 { return float64(f.topicsAndGroups()) / (memoryBound / 2) }

		groups := 0
		for ; used() < 0.89; groups++ {
			f.must(fill["groups"](groups))
		}
		require.InDelta(t, used(), share(), 1e-9)
		require.Zero(t, lines.Len())
		for ; used() < 0.9; groups++ {
			f.must(fill["groups"](groups))
		}
		require.Equal(t, 1, lines.Len())
		require.Contains(t, lines.All()[0].Message, "near its limits")
		require.InDelta(t, share(), lines.All()[0].ContextMap()["topics_and_groups_share"], 1e-9)

		_, err := f.until(func(n int) metadata.Command { return fill["groups"](groups + n) })
		require.Error(t, err)
		require.InDelta(t, 1, share(), 0.001)
		_, err = f.until(func(n int) metadata.Command {
			member := metadata.GroupMember{ID: fmt.Sprint(n), Value: []byte(longText)}
			return &metadata.UpdateGroup{Group: "group0", Kind: metadata.GroupClassic, Members: []metadata.GroupMember{member}}
		})
		require.Error(t, err)
		require.InDelta(t, 1.125, share(), 0.001)
		for n := range groups {
			f.must(&metadata.DeleteGroup{Group: fmt.Sprint("group", n)})
		}
		require.InDelta(t, used(), share(), 1e-9)
		require.Less(t, share(), 0.2)
		require.NoError(t, end())
		require.Zero(t, share())
	})
}

// TestOwner_RefusedCommandsTakeNoLog repeats commands that a limit of the state refuses 10,000 times. The answers are those of Apply, and the
// log stays as it is.
func TestOwner_RefusedCommandsTakeNoLog(t *testing.T) {
	tp := func(partition int32) id.TopicPartition {
		return id.TopicPartition{Topic: id.Topic{1}, Partition: partition}
	}
	offset := func(partition int32) metadata.OffsetCommit {
		return metadata.OffsetCommit{Partition: tp(partition), Metadata: "text", ExpiresMs: -1}
	}
	for what, x := range map[string]struct {
		kind    metadata.LimitKind
		command func(ref metadata.TransactionRef) metadata.Command
	}{
		"CreateTopic": {metadata.LimitTopics, func(metadata.TransactionRef) metadata.Command {
			return &metadata.CreateTopic{ID: id.Topic{2}, Name: "new", Partitions: 1}
		}},
		"CreatePartitions": {metadata.LimitPartitions, func(metadata.TransactionRef) metadata.Command {
			return &metadata.CreatePartitions{ID: id.Topic{1}, Count: 3}
		}},
		"SetConfigs": {metadata.LimitTextBytes, func(metadata.TransactionRef) metadata.Command {
			return &metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: id.Topic{1}, Set: map[string]string{"k": "v"}}
		}},
		"UpdateGroup": {metadata.LimitGroups, func(metadata.TransactionRef) metadata.Command {
			return &metadata.UpdateGroup{Group: "new", Kind: metadata.GroupClassic, Head: []byte("head")}
		}},
		"CommitOffsets of a new group": {metadata.LimitGroups, func(metadata.TransactionRef) metadata.Command {
			return &metadata.CommitOffsets{Group: "new", Offsets: []metadata.OffsetCommit{offset(0), offset(1)}}
		}},
		"CommitOffsets": {metadata.LimitOffsetBytes, func(metadata.TransactionRef) metadata.Command {
			return &metadata.CommitOffsets{Group: "g", Offsets: []metadata.OffsetCommit{offset(1), offset(9)}}
		}},
		"CommitOffsets of a transaction": {metadata.LimitOffsetBytes, func(ref metadata.TransactionRef) metadata.Command {
			return &metadata.CommitOffsets{Group: "g", Transaction: &ref, Offsets: []metadata.OffsetCommit{offset(1)}}
		}},
		"AddOffsets": {metadata.LimitTextBytes, func(ref metadata.TransactionRef) metadata.Command {
			return &metadata.AddOffsets{TransactionRef: ref, Group: "new"}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, nil)
				end := f.run(t)
				propose := func(c metadata.Command) metadata.Result {
					t.Helper()
					result, _, err := f.Propose(t.Context(), c)
					require.NoError(t, err)
					return result
				}
				require.NoError(t, propose(&metadata.CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: 2}).Err)
				taken := &metadata.CommitOffsets{Group: "g", Offsets: []metadata.OffsetCommit{offset(0)}}
				require.NoError(t, propose(taken).Err)
				init := propose(&metadata.InitTransaction{TransactionalID: "x", TimeoutMs: 1000, ProducerID: -1, ProducerEpoch: -1})
				producer := init.Value.(metadata.InitTransactionResult)
				command := x.command(metadata.TransactionRef{
					TransactionalID: "x", ProducerID: producer.ProducerID, Epoch: producer.Epoch, Version: metadata.ProtocolTwo,
				})
				var limits metadata.Limits
				limits[x.kind] = 1
				require.NoError(t, propose(&metadata.SetLimits{Limits: limits}).Err)
				want := replay(t, f.log).Apply(1<<20, &metadata.Batch{Commands: []metadata.Command{command}}, nil, nil)[0]
				if errs, ok := want.Value.([]error); ok {
					require.Error(t, errs[0])
				} else {
					require.Error(t, want.Err)
				}

				bytes, tail := f.tenure.Bytes(), replay(t, f.log).Index()
				for range 10_000 {
					require.Equal(t, want, propose(command))
				}
				run, err := f.EnqueueRun(t.Context(), []metadata.Command{command, taken, command})
				require.NoError(t, err)
				require.Len(t, run, 3)
				for i := range run {
					result, _, err := run[i].Wait(t.Context())
					require.NoError(t, err)
					require.Equal(t, i != 1, result.Err != nil || result.Value.([]error)[0] != nil)
				}
				require.NoError(t, end())
				require.Equal(t, tail+1, replay(t, f.log).Index(), "the run's command without growth alone")
				require.Less(t, f.tenure.Bytes()-bytes, int64(200))
			})
		})
	}
}

package owner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestOwner_MarkersOfManyRequests: transactions add their partitions 100 at a time. Their markers leave room for commits.
func TestOwner_MarkersOfManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, bound, transactions = 1000, 10_000, 12
		f, end := startBounded(t, func(c *owner.Config) { c.MaxBytes, c.MaxExtents = 1<<30, bound })
		defer func() { require.NoError(t, end()) }()
		f.must(&metadata.CreatePartitions{ID: id.Topic{1}, Count: partitions})
		refs := make([]metadata.TransactionRef, transactions)
		for n := range refs {
			result, _, err := f.Propose(t.Context(), &metadata.InitTransaction{
				TransactionalID: fmt.Sprint("x", n), TimeoutMs: 1 << 30, ProducerID: -1, ProducerEpoch: -1,
			})
			require.NoError(t, errors.Join(err, result.Err))
			refs[n] = metadata.TransactionRef{
				TransactionalID: fmt.Sprint("x", n), ProducerID: result.Value.(metadata.InitTransactionResult).ProducerID, Version: metadata.ProtocolOne, AsOf: 1 << 40,
			}
			for at := 0; at < partitions; at += 100 {
				var some []id.TopicPartition
				for i := range 100 {
					some = append(some, id.TopicPartition{Topic: id.Topic{1}, Partition: int32(at + i)})
				}
				_, _, err := f.Propose(t.Context(), &metadata.AddPartitions{TransactionRef: refs[n], Partitions: some})
				if err != nil {
					require.ErrorIs(t, err, owner.ErrOverloaded)
				}
			}
		}
		for n := range refs {
			result, _, err := f.Propose(t.Context(), &metadata.EndTransaction{TransactionRef: refs[n], Commit: true})
			require.NoError(t, errors.Join(err, result.Err))
		}
		var load metadata.Load
		_, err := f.Read(func(s *metadata.State) { load = s.Load() })
		require.NoError(t, err)
		_, _, err = f.Propose(t.Context(), f.nextCommit())
		require.NoError(t, err, "%d extents of %d: no produce is answered", load.Extents, bound)
	})
}

// TestOwner_ConfigsLeaveRoomForCommits: topics fill their half of the memory. Configs of each below 1 KiB take none of the rest.
func TestOwner_ConfigsLeaveRoomForCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, end := startBounded(t, func(c *owner.Config) { c.MaxBytes = 4 << 20 })
		defer func() { require.NoError(t, end()) }()
		topics, _ := f.until(func(n int) metadata.Command {
			return &metadata.CreateTopic{ID: id.Topic{byte(n), byte(n >> 8), 2}, Name: fmt.Sprint("topic", n), Partitions: 1}
		})
		f.commitAndTrim(1000)
		for _, key := range []string{"follower.replication.throttled.replicas", "leader.replication.throttled.replicas"} {
			for n := range topics {
				err := f.propose(&metadata.SetConfigs{
					Resource: metadata.ConfigTopic, Topic: id.Topic{byte(n), byte(n >> 8), 2}, Set: map[string]string{key: strings.Repeat("1:1,", 190) + "1:1"},
				})
				if err != nil {
					require.ErrorIs(t, err, owner.ErrOverloaded)
				}
			}
		}
		_, _, err := f.Propose(t.Context(), f.nextCommit())
		require.NoError(t, err, "topic and group metadata has %d of %d bytes", f.topicsAndGroups(), 4<<20)
	})
}

// TestOwner_ChangesWithoutGrowth: changes without growth are taken at the bound of topic and group metadata.
func TestOwner_ChangesWithoutGrowth(t *testing.T) {
	for _, what := range []string{"AddPartitions", "AddOffsets", "SetConfigs of a topic", "SetConfigs of a group"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, end := startBounded(t, func(*owner.Config) {})
				defer func() { require.NoError(t, end()) }()
				result, _, err := f.Propose(t.Context(), &metadata.InitTransaction{TransactionalID: "x", TimeoutMs: 1 << 30, ProducerID: -1, ProducerEpoch: -1})
				require.NoError(t, err)
				p := result.Value.(metadata.InitTransactionResult)
				ref := metadata.TransactionRef{TransactionalID: "x", ProducerID: p.ProducerID, Epoch: p.Epoch, Version: metadata.ProtocolTwo}
				command := map[string]metadata.Command{
					"AddPartitions":         &metadata.AddPartitions{TransactionRef: ref, Partitions: []id.TopicPartition{{Topic: id.Topic{1}}}},
					"AddOffsets":            &metadata.AddOffsets{TransactionRef: ref, Group: "g"},
					"SetConfigs of a topic": &metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: id.Topic{1}, Set: map[string]string{"k": longText}},
					"SetConfigs of a group": &metadata.SetConfigs{Resource: metadata.ConfigGroup, Name: "g", Set: map[string]string{"k": longText}},
				}[what]
				f.must(command)
				once := f.topicsAndGroups()
				f.must(command)
				require.Equal(t, once, f.topicsAndGroups())
				f.must(&metadata.UpdateGroup{Group: "filler", Kind: metadata.GroupConsumer, Head: []byte("h")})
				_, _ = f.until(fill["groups"])
				_, _ = f.until(func(n int) metadata.Command {
					return &metadata.UpdateGroup{Group: "filler", Kind: metadata.GroupConsumer, Members: []metadata.GroupMember{{ID: fmt.Sprint(n), Value: []byte(longText)}}}
				})
				_, _ = f.until(func(n int) metadata.Command { // the rest of the bound
					return &metadata.UpdateGroup{Group: "filler", Kind: metadata.GroupConsumer, Members: []metadata.GroupMember{{ID: fmt.Sprint("s", n), Value: []byte("v")}}}
				})
				require.NoError(t, f.propose(command), "the command grows nothing")
			})
		})
	}
}

// TestOwner_ReplacedOffsetsInFlight: offsets lose their metadata and get it back, both in flight, and another group takes the room between the
// two. The applied state still has the metadata when the second commits come, so they are no growth there. Few of them are taken.
func TestOwner_ReplacedOffsetsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const groups = 1000
		var f *boundedFixture
		between := make(chan func(), 1)
		var end func() error
		f = &boundedFixture{t: t}
		f.fixture = start(t, func(c *owner.Config) { c.MaxBytes, c.MaxFresh, c.GroupCommands = memoryBound, 1<<30, groups })
		f.OnApply(func(*metadata.State, uint64, *metadata.Effects) {
			select {
			case fn := <-between:
				fn()
			default:
			}
		})
		end = f.run(t)
		defer func() { require.NoError(t, end()) }()
		f.must(&metadata.CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: 1})
		f.must(&metadata.OpenSession{Instance: "i"})
		f.must(offsetsOf("last", ""))
		for n := range groups {
			f.must(offsetsOf(fmt.Sprint("g", n), longText))
		}
		_, _ = f.until(fill["groups"])
		f.must(&metadata.UpdateGroup{Group: "filler", Kind: metadata.GroupConsumer, Head: []byte{}})
		grow := func(n int) metadata.Command {
			return &metadata.UpdateGroup{Group: "filler", Kind: metadata.GroupConsumer, Members: []metadata.GroupMember{{ID: fmt.Sprint(n), Value: []byte(longText)}}}
		}
		grown, _ := f.until(grow)
		bound := int64(memoryBound) / 16 * 9
		require.LessOrEqual(t, f.topicsAndGroups(), bound)

		var waiting []*owner.Proposal
		enqueue := func(c metadata.Command) error {
			p, err := f.Enqueue(t.Context(), c)
			if err == nil {
				waiting = append(waiting, p)
			}
			return err
		}
		applied := make(chan struct{})
		between <- func() { // after the first of the commands below
			for n := range groups {
				_ = enqueue(offsetsOf(fmt.Sprint("g", n), "")) // a client repeats a refused one
			}
			for n := range groups {
				_ = enqueue(offsetsOf(fmt.Sprint("g", n), longText))
			}
			between <- func() { // after the offsets lost their metadata
				for n := grown; enqueue(grow(n)) == nil; n++ {
				}
				close(applied)
			}
		}
		f.must(&metadata.AllocateProducerIDs{Count: 1})
		<-applied
		for _, p := range waiting {
			_, _, err := p.Wait(t.Context())
			require.NoError(t, err)
		}
		require.LessOrEqual(t, f.topicsAndGroups(), bound+bound/100)
		f.must(offsetsOf("g0", "")) // one is always taken
	})
}

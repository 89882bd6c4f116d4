package owner_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// Commits slow down from three quarters of the bound on and are refused at it, long after the log and a metric said so. All
// else goes on, and once something was trimmed so do they.
func TestOwner_SlowsDownTowardsTheBoundOfMetadata(t *testing.T) {
	for _, bound := range []string{"extents", "bundles"} {
		t.Run(bound, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { slowsDown(t, bound) })
		})
	}
}

func slowsDown(t *testing.T, bound string) {
	t.Helper()
	logged, lines := observer.New(zapcore.WarnLevel)
	registry := prometheus.NewRegistry()
	f := start(t, func(c *owner.Config) {
		if c.MaxExtents, c.MaxFresh = 100, 1<<20; bound == "bundles" {
			c.MaxExtents, c.MaxFresh = 1<<20, 100
		}
		c.Logger, c.Registerer, c.MaxDelay = zap.New(logged), registry, time.Second
	})
	end := f.run(t)
	tp := id.TopicPartition{Topic: id.Topic{1}}
	must := func(c metadata.Command) time.Duration {
		t.Helper()
		began := time.Now()
		result, _, err := f.Propose(t.Context(), c)
		require.NoError(t, err)
		require.NoError(t, result.Err)
		return time.Since(began)
	}
	must(&metadata.CreateTopic{ID: tp.Topic, Name: "t", Partitions: 1})
	must(&metadata.OpenSession{Instance: "i"})
	n := uint32(0)
	commitOne := func() metadata.Command {
		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: n + 1}, Bytes: 100})
		b.Section(commit.Section{Partition: tp})
		b.Batch(commit.Batch{Records: 1, Bytes: 61, ProducerID: -1})
		return &metadata.CommitBundle{Encoded: b.AppendTo(nil)}
	}
	last := time.Duration(0)
	for ; n < 100; n++ {
		took := must(commitOne())
		require.GreaterOrEqual(t, took, last, "delays grow")
		require.Equal(t, n > 75, took > 0, "commit %d took %v", n+1, took)
		require.Equal(t, n+1 >= 75, f.Slows())
		require.Less(t, took, time.Second)
		last = took
	}
	require.Greater(t, last, 900*time.Millisecond)
	_, _, err := f.Propose(t.Context(), commitOne())
	require.ErrorIs(t, err, owner.ErrOverloaded)
	require.ErrorContains(t, err, map[string]string{"extents": "--max-extents", "bundles": "--max-fresh-bundles"}[bound])
	require.Len(t, lines.All(), 2, "at a half and at three quarters")
	require.InDelta(t, 1, gathered(t, registry, "freshet_owner_metadata_share"), 0.001)

	require.Zero(t, must(&metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"k": "v"}}), "no commit")
	must(&metadata.TrimPartitions{Trims: []metadata.Trim{{Partition: tp, Offset: -1}}})
	require.Zero(t, must(&metadata.Tick{}))
	require.Zero(t, must(commitOne()))
	require.NoError(t, end())
	require.Zero(t, gathered(t, registry, "freshet_owner_metadata_share"))
}

func gathered(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue() + f.Metric[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %q", name)
	return 0
}

// TestOwner_RefusesGrowthAtTheBoundOfMemory fills the memory with commits: commits and new topics are refused at the bound, groups and
// offsets at 9/8 of it. Commands that make room are never refused.
func TestOwner_RefusesGrowthAtTheBoundOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 1 << 20
		registry := prometheus.NewRegistry()
		f := start(t, func(c *owner.Config) { c.MaxBytes, c.Registerer = bound, registry })
		end := f.run(t)
		propose := func(c metadata.Command) error {
			t.Helper()
			result, _, err := f.Propose(t.Context(), c)
			require.NoError(t, result.Err)
			return err
		}
		topic := func(n int) metadata.Command {
			return &metadata.CreateTopic{ID: id.Topic{byte(n), 1}, Name: fmt.Sprint("t", n), Partitions: 1}
		}
		require.NoError(t, propose(&metadata.OpenSession{Instance: "i"}))
		for n := range 10 {
			require.NoError(t, propose(topic(n)))
		}
		var err error
		for n := uint32(1); err == nil; n++ {
			var b commit.Builder
			b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: n}, Bytes: 100})
			b.Section(commit.Section{Partition: id.TopicPartition{Topic: id.Topic{byte(n % 10), 1}}})
			b.Batch(commit.Batch{Records: 1, Bytes: 61, ProducerID: -1})
			err = propose(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
		}
		require.ErrorIs(t, err, owner.ErrOverloaded)
		require.ErrorContains(t, err, "--memory-limit")
		require.InDelta(t, 1, gathered(t, registry, "freshet_owner_metadata_share"), 0.001)
		require.InDelta(t, bound, gathered(t, registry, "freshet_owner_metadata_bytes"), 1024)
		require.ErrorIs(t, propose(topic(10)), owner.ErrOverloaded)
		require.ErrorIs(t, propose(&metadata.CreatePartitions{ID: id.Topic{1, 1}, Count: 2}), owner.ErrOverloaded)

		for groups := 0; ; groups++ {
			group := fmt.Sprint("g", groups)
			if err = propose(&metadata.UpdateGroup{Group: group, Kind: metadata.GroupClassic}); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, owner.ErrOverloaded)
		require.InDelta(t, bound/8*9, gathered(t, registry, "freshet_owner_metadata_bytes"), 1024)
		offsets := []metadata.OffsetCommit{{Partition: id.TopicPartition{Topic: id.Topic{1, 1}}, ExpiresMs: -1}}
		require.ErrorIs(t, propose(&metadata.CommitOffsets{Group: "g0", Offsets: offsets}), owner.ErrOverloaded)
		require.ErrorIs(t, propose(&metadata.InitTransaction{TransactionalID: "a transactional id", TimeoutMs: 1, ProducerID: -1, ProducerEpoch: -1}), owner.ErrOverloaded)

		require.NoError(t, propose(&metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"log.retention.ms": "1"}}))
		require.NoError(t, propose(&metadata.UpdateGroup{Group: "g0", Kind: metadata.GroupNone}))
		for n := range 10 {
			require.NoError(t, propose(&metadata.DeleteTopic{ID: id.Topic{byte(n), 1}}))
		}
		require.NoError(t, propose(&metadata.Tick{}))
		require.NoError(t, propose(topic(10)))
		require.NoError(t, propose(&metadata.CommitOffsets{Group: "g0", Offsets: []metadata.OffsetCommit{}}))
		require.NoError(t, end())
	})
}

// TestOwner_CountsTheQueueTowardsTheBound: commits that wait for the log use the bound before they are applied.
func TestOwner_CountsTheQueueTowardsTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(c *owner.Config) { c.MaxBytes = 1 << 20 })
		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 1 << 30})
		for i := range 1000 {
			b.Section(commit.Section{Partition: id.TopicPartition{Topic: id.Topic{1}, Partition: int32(i)}, Position: uint32(i) * 61})
			b.Batch(commit.Batch{Records: 1, Bytes: 61, ProducerID: -1})
		}
		encoded := b.AppendTo(nil)
		var err error
		var queued int
		for err == nil { // the owner does not run: nothing leaves the queue
			if _, err = f.Enqueue(t.Context(), &metadata.CommitBundle{Encoded: encoded}); err == nil {
				queued += len(encoded)
			}
		}
		require.ErrorIs(t, err, owner.ErrOverloaded)
		require.Less(t, queued, 1<<20)
		require.NoError(t, f.run(t)())
	})
}

// TestOwner_ReservesTheGrowthOfQueuedCommits: a section of a commit to a partition without records takes a byte of the log and 448 of the
// state. The log does not answer for a while, and the commits admitted meanwhile stay below the bound once they are applied.
func TestOwner_ReservesTheGrowthOfQueuedCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, sections = 16 << 20, 5000
		f := start(t, func(c *owner.Config) { c.MaxBytes = bound })
		end := f.run(t)
		for _, c := range []metadata.Command{
			&metadata.CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: 1 << 20}, &metadata.OpenSession{Instance: "i"},
		} {
			_, _, err := f.Propose(t.Context(), c)
			require.NoError(t, err)
		}
		f.net.Stop()
		var proposals []*owner.Proposal
		for n := range 200 {
			var b commit.Builder
			b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: uint32(n + 1)}, Bytes: 1 << 30})
			for i := range sections {
				b.Section(commit.Section{Partition: id.TopicPartition{Topic: id.Topic{1}, Partition: int32(n*sections + i)}, Position: uint32(i) * 61})
				b.Batch(commit.Batch{Records: 1, Bytes: 61, ProducerID: -1})
			}
			p, err := f.Enqueue(t.Context(), &metadata.CommitBundle{Encoded: b.AppendTo(nil)})
			if err != nil {
				require.ErrorIs(t, err, owner.ErrOverloaded)
				break
			}
			proposals = append(proposals, p)
		}
		f.net.Release()
		for _, p := range proposals {
			_, _, err := p.Wait(t.Context())
			require.NoError(t, err)
		}
		require.Greater(t, len(proposals), 5)
		_, err := f.Read(func(s *metadata.State) {
			l := s.Load()
			require.LessOrEqual(t, l.MemoryBytes(), int64(bound))
		})
		require.NoError(t, err)
		require.NoError(t, end())
	})
}

// TestOwner_BoundsTheMemoryOfCommands proposes commands of each kind until the owner refuses one. The end of the transaction, which it never
// refuses, stays within the bound too.
func TestOwner_BoundsTheMemoryOfCommands(t *testing.T) {
	const bound, partitions = 1 << 20, 3000
	all := make([]id.TopicPartition, partitions)
	for i := range all {
		all[i] = id.TopicPartition{Topic: id.Topic{1}, Partition: int32(i)}
	}
	ref := metadata.TransactionRef{TransactionalID: "x", Version: metadata.ProtocolOne, AsOf: 1 << 40}
	long := strings.Repeat("n", 32_000)
	for what, command := range map[string]func(n int) metadata.Command{
		"markers": func(int) metadata.Command {
			return &metadata.WriteMarkers{ProducerID: 1, Commit: true, Partitions: all[:100]}
		},
		"partitions of a transaction": func(n int) metadata.Command {
			return &metadata.AddPartitions{TransactionRef: ref, Partitions: all[n*100:][:100]}
		},
		"groups of a transaction": func(n int) metadata.Command {
			return &metadata.AddOffsets{TransactionRef: ref, Group: fmt.Sprint(n, long)}
		},
		"offsets of a transaction": func(n int) metadata.Command {
			ref := ref
			ref.Version = metadata.ProtocolTwo
			offsets := []metadata.OffsetCommit{{Partition: all[n], Metadata: long, ExpiresMs: -1}}
			return &metadata.CommitOffsets{Group: "g", Transaction: &ref, Offsets: offsets}
		},
		"configs of groups": func(n int) metadata.Command {
			return &metadata.SetConfigs{Resource: metadata.ConfigGroup, Name: fmt.Sprint(n, long), Set: map[string]string{"k": "v"}}
		},
		"long configs of a topic": func(n int) metadata.Command {
			return &metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: id.Topic{1}, Set: map[string]string{fmt.Sprint(n): long}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, func(c *owner.Config) { c.MaxBytes = bound })
				end := f.run(t)
				propose := func(c metadata.Command) error {
					result, _, err := f.Propose(t.Context(), c)
					if err == nil {
						require.NoError(t, result.Err)
					}
					return err
				}
				require.NoError(t, propose(&metadata.CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: partitions}))
				require.NoError(t, propose(&metadata.InitTransaction{TransactionalID: "x", TimeoutMs: 1000, ProducerID: -1, ProducerEpoch: -1}))
				var err error
				for n := 0; err == nil; n++ {
					err = propose(command(n))
				}
				require.ErrorIs(t, err, owner.ErrOverloaded)
				require.Greater(t, f.memory(t), int64(bound/5*2))
				_, _, err = f.Propose(t.Context(), &metadata.EndTransaction{TransactionRef: ref, Commit: true})
				require.NoError(t, err)
				require.LessOrEqual(t, f.memory(t), int64(bound/8*9))
				require.NoError(t, end())
			})
		})
	}
}

// TestOwner_BoundsTheMemoryOfRuns proposes commands behind one that is never refused.
func TestOwner_BoundsTheMemoryOfRuns(t *testing.T) {
	const bound = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		f := start(t, func(c *owner.Config) { c.MaxBytes, c.Registerer = bound, registry })
		end := f.run(t)
		shrink := &metadata.UpdateGroup{Group: "none", Kind: metadata.GroupNone}
		for groups := 0; ; {
			cmds := []metadata.Command{shrink}
			for range 200 {
				groups++
				cmds = append(cmds, &metadata.UpdateGroup{Group: fmt.Sprint("g", groups), Kind: metadata.GroupClassic})
			}
			run, err := f.EnqueueRun(t.Context(), cmds)
			require.NoError(t, err)
			for _, p := range run {
				_, _, err := p.Wait(t.Context())
				require.NoError(t, err)
			}
			if len(run) == 1 {
				_, err := f.EnqueueRun(t.Context(), cmds[1:])
				require.ErrorIs(t, err, owner.ErrOverloaded)
				break
			}
		}
		require.InDelta(t, 1, gathered(t, registry, "freshet_owner_overloaded_commits_total"), 0, "one command was refused")
		require.LessOrEqual(t, f.memory(t), int64(bound/8*9))
		require.NoError(t, end())
	})
}

// TestOwner_KeepsToTheRoomOfMemory: less room lowers the bounds of the state at once. Commands that make room or do not grow are still taken. More room
// lifts the bounds at once, though no command was applied since.
func TestOwner_KeepsToTheRoomOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions = 200
		room := 1.0
		f, end := startBounded(t, func(c *owner.Config) { c.MemoryRoom = func() (forNew, forExisting float64) { return room, 1 } })
		defer func() { require.NoError(t, end()) }()
		f.must(&metadata.CreatePartitions{ID: id.Topic{1}, Count: partitions})
		f.must(offsetsOf("g", longText))
		result, _, err := f.Propose(t.Context(), &metadata.InitTransaction{TransactionalID: "x", TimeoutMs: 1 << 30, ProducerID: -1, ProducerEpoch: -1})
		require.NoError(t, err)
		ref := metadata.TransactionRef{
			TransactionalID: "x", ProducerID: result.Value.(metadata.InitTransactionResult).ProducerID, Version: metadata.ProtocolOne, AsOf: 1 << 40,
		}
		large := &metadata.AddPartitions{TransactionRef: ref}
		for i := range int32(partitions) {
			large.Partitions = append(large.Partitions, id.TopicPartition{Topic: id.Topic{1}, Partition: i})
		}
		for range 1000 {
			f.must(f.nextCommit())
		}
		require.False(t, f.Slows())

		room = 1.1 * float64(f.memory(t)) / memoryBound
		require.True(t, f.Slows())
		require.ErrorIs(t, f.propose(large), owner.ErrOverloaded, "markers take the memory of commits")
		_, err = f.until(func(int) metadata.Command { return f.nextCommit() })
		require.ErrorContains(t, err, "--memory-limit")
		require.InDelta(t, room*memoryBound, f.memory(t), 1024)
		_, _ = f.until(fill["groups"])
		require.LessOrEqual(t, float64(f.memory(t)), 1.125*room*memoryBound)
		require.InDelta(t, 1.125*room*memoryBound, f.memory(t), 16<<10)
		f.must(offsetsOf("g", longText))

		room = 0
		f.commits--
		refused := f.nextCommit()
		require.ErrorIs(t, f.propose(refused), owner.ErrOverloaded)
		require.ErrorIs(t, f.propose(fill["groups"](1<<20)), owner.ErrOverloaded)
		f.must(offsetsOf("g", longText))
		f.must(&metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"log.retention.ms": "1"}})
		f.must(&metadata.DeleteGroup{Group: "group0"})

		room = 1
		require.False(t, f.Slows())
		began := time.Now()
		f.must(refused)
		require.Zero(t, time.Since(began))
		room = 0
		require.ErrorIs(t, f.propose(large), owner.ErrOverloaded)
		room = 1
		f.must(large)
	})
}

// TestOwner_RoomOfMemoryIsForNewThings: other states fill the memory of the process. Members of an existing group still leave and come back, its offsets
// grow, and a topic's retention is shortened, up to the configured bound. New groups and topics and commits are refused. Once the memory is full, the
// group does not grow either. Its members still write the same state, or leave, and retention is shortened.
func TestOwner_RoomOfMemoryIsForNewThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room, existing := 1.0, 1.0
		f, end := startBounded(t, func(c *owner.Config) { c.MemoryRoom = func() (forNew, forExisting float64) { return room, existing } })
		defer func() { require.NoError(t, end()) }()
		group := func(members ...metadata.GroupMember) *metadata.UpdateGroup {
			return &metadata.UpdateGroup{Group: "g", Kind: metadata.GroupClassic, Head: fmt.Appendf(nil, "%d members", len(members)), Members: members}
		}
		m1, m2 := metadata.GroupMember{ID: "m1", Value: []byte(longText)}, metadata.GroupMember{ID: "m2", Value: []byte(longText)}
		f.must(group(m1, m2))
		for f.memory(t) < memoryBound/10 {
			f.must(f.nextCommit())
		}
		room = 1.0 / 16
		f.must(group(metadata.GroupMember{ID: m1.ID}))
		f.must(group(m1))
		f.must(&metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: id.Topic{1}, Set: map[string]string{"retention.ms": "1"}})
		for _, kind := range []string{"topics", "groups", "offsets", "transactional IDs", "configs of groups"} {
			require.ErrorIs(t, f.propose(fill[kind](0)), owner.ErrOverloaded, kind)
		}
		require.ErrorIs(t, f.propose(f.nextCommit()), owner.ErrOverloaded)
		_, _ = f.until(func(n int) metadata.Command {
			return group(metadata.GroupMember{ID: fmt.Sprint(n), Value: []byte(longText)})
		})
		require.LessOrEqual(t, f.topicsAndGroups(), int64(memoryBound/16*9))
		require.InDelta(t, memoryBound/16*9, f.topicsAndGroups(), 16<<10)

		f.must(group(metadata.GroupMember{ID: m2.ID}))
		existing = room
		require.ErrorIs(t, f.propose(group(m2)), owner.ErrOverloaded)
		f.must(group(m1))
		f.must(group(metadata.GroupMember{ID: m1.ID}))
		f.must(&metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: id.Topic{1}, Set: map[string]string{"retention.ms": "2"}})
		existing = 1
		f.must(group(m2))
	})
}

// TestOwner_ReservesOnTheNewestLoad: while a group is admitted, another one is admitted, applied and answered. Only one of them has room.
func TestOwner_ReservesOnTheNewestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := func(name string) *metadata.UpdateGroup {
			return &metadata.UpdateGroup{Group: name, Kind: metadata.GroupClassic, Head: make([]byte, memoryBound*3/10)}
		}
		var f *boundedFixture
		meanwhile := func() {}
		f, end := startBounded(t, func(c *owner.Config) {
			c.MemoryRoom = func() (forNew, forExisting float64) {
				do := meanwhile
				meanwhile = func() {}
				do()
				return 1, 1
			}
		})
		defer func() { require.NoError(t, end()) }()
		meanwhile = func() { f.must(group("first")) }
		require.ErrorIs(t, f.propose(group("second")), owner.ErrOverloaded)
		require.Less(t, f.topicsAndGroups(), int64(memoryBound/2))
	})
}

// memory returns the estimated memory of the state.
func (f *fixture) memory(t *testing.T) (bytes int64) {
	t.Helper()
	_, err := f.Read(func(s *metadata.State) {
		l := s.Load()
		bytes = l.MemoryBytes()
	})
	require.NoError(t, err)
	return bytes
}

// TestOwner_BoundsSmallConfigsOfTopics sets a small config of each topic once the topics are at the bound.
func TestOwner_BoundsSmallConfigsOfTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 1 << 20
		f := start(t, func(c *owner.Config) { c.MaxBytes = bound })
		end := f.run(t)
		topics := 0
		topic := func(n int) id.Topic { return id.Topic{byte(n), byte(n >> 8), 1} }
		for ; ; topics++ {
			_, _, err := f.Propose(t.Context(), &metadata.CreateTopic{ID: topic(topics), Name: fmt.Sprint("t", topics), Partitions: 1})
			if err != nil {
				require.ErrorIs(t, err, owner.ErrOverloaded)
				break
			}
		}
		set := func(n int, key, value string) error {
			_, _, err := f.Propose(t.Context(), &metadata.SetConfigs{
				Resource: metadata.ConfigTopic, Topic: topic(n), Set: map[string]string{key: value},
			})
			return err
		}
		require.NoError(t, set(0, "retention.ms", "1"), "at the bound")
		var err error
		for n := 0; n < topics && err == nil; n++ {
			err = set(n, "follower.replication.throttled.replicas", strings.Repeat("1:1,", 225)+"1:1")
		}
		require.ErrorIs(t, err, owner.ErrOverloaded)
		require.LessOrEqual(t, f.memory(t), int64(bound/4*5))
		require.NoError(t, end())
	})
}

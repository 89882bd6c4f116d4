package owner_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// memoryBound is the bound of memory in tests of topic and group metadata. Dead bundles of 100,000 commits take less than 3/4 of the commits' part.
const memoryBound = 32 << 20

// fill are commands that grow topic and group metadata. Each is about 4 KiB.
var fill = map[string]func(n int) metadata.Command{
	"topics": func(n int) metadata.Command {
		return &metadata.CreateTopic{
			ID: id.Topic{byte(n), byte(n >> 8), 2}, Name: fmt.Sprint("topic", n), Partitions: 1, Configs: map[string]string{"k": longText},
		}
	},
	"groups": func(n int) metadata.Command {
		return &metadata.UpdateGroup{Group: fmt.Sprint("group", n), Kind: metadata.GroupClassic, Head: []byte(longText)}
	},
	"offsets": func(n int) metadata.Command { return offsetsOf(fmt.Sprint("offsets", n), longText) },
	"transactional IDs": func(n int) metadata.Command {
		return &metadata.InitTransaction{TransactionalID: fmt.Sprint(n, longText), TimeoutMs: 1000, ProducerID: -1, ProducerEpoch: -1}
	},
	"configs of groups": func(n int) metadata.Command {
		return &metadata.SetConfigs{Resource: metadata.ConfigGroup, Name: fmt.Sprint(n), Set: map[string]string{"k": longText}}
	},
}

var longText = strings.Repeat("x", 4<<10)

func offsetsOf(group, text string) metadata.Command {
	tp := id.TopicPartition{Topic: id.Topic{1}}
	return &metadata.CommitOffsets{Group: group, Offsets: []metadata.OffsetCommit{{Partition: tp, Metadata: text, ExpiresMs: -1}}}
}

// boundedFixture is an owner with a topic and a session of an agent.
type boundedFixture struct {
	*fixture
	t       *testing.T
	commits uint32
}

func startBounded(t *testing.T, adjust func(*owner.Config)) (f *boundedFixture, end func() error) {
	t.Helper()
	f = &boundedFixture{t: t}
	f.fixture = start(t, func(c *owner.Config) {
		c.MaxBytes, c.MaxFresh = memoryBound, 1<<30
		adjust(c)
	})
	end = f.run(t)
	f.must(&metadata.CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: 1})
	f.must(&metadata.OpenSession{Instance: "i"})
	return f, end
}

func (f *boundedFixture) propose(c metadata.Command) error {
	f.t.Helper()
	result, _, err := f.Propose(f.t.Context(), c)
	require.NoError(f.t, result.Err)
	return err
}

func (f *boundedFixture) must(c metadata.Command) {
	f.t.Helper()
	require.NoError(f.t, f.propose(c))
}

// until proposes commands until the owner refuses one, and returns their number and the error.
func (f *boundedFixture) until(command func(n int) metadata.Command) (n int, err error) {
	f.t.Helper()
	for err == nil {
		err = f.propose(command(n))
		n++
	}
	require.ErrorIs(f.t, err, owner.ErrOverloaded)
	return n - 1, err
}

func (f *boundedFixture) nextCommit() metadata.Command {
	f.commits++
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: f.commits}, Acked: f.commits - 1, Bytes: 100})
	b.Section(commit.Section{Partition: id.TopicPartition{Topic: id.Topic{1}}})
	b.Batch(commit.Batch{Records: 1, Bytes: 61, ProducerID: -1})
	return &metadata.CommitBundle{Encoded: b.AppendTo(nil)}
}

// commitAndTrim commits bundles without a pause. Retention trims them.
func (f *boundedFixture) commitAndTrim(bundles int) {
	f.t.Helper()
	for range bundles / 1000 {
		began := time.Now()
		var proposals []*owner.Proposal
		for range 1000 {
			p, err := f.Enqueue(f.t.Context(), f.nextCommit())
			require.NoError(f.t, err)
			proposals = append(proposals, p)
		}
		for _, p := range proposals {
			result, _, err := p.Wait(f.t.Context())
			require.NoError(f.t, err)
			require.NoError(f.t, result.Err)
		}
		require.Zero(f.t, time.Since(began), "a commit was delayed")
		f.must(&metadata.TrimPartitions{Trims: []metadata.Trim{{Partition: id.TopicPartition{Topic: id.Topic{1}}, Offset: -1}}})
		f.must(&metadata.Tick{})
	}
}

func (f *boundedFixture) topicsAndGroups() (bytes int64) {
	f.t.Helper()
	_, err := f.Read(func(s *metadata.State) {
		l := s.Load()
		bytes = l.TopicsAndGroups
	})
	require.NoError(f.t, err)
	return bytes
}

// TestOwner_FullTopicsAndGroupsDelayNoCommit fills the bound of topic and group metadata with one kind, or with all in turn. Then 10,000 commits
// go on without a delay, or 100,000 with all kinds. Groups and offsets change without growth, and a deletion makes room.
func TestOwner_FullTopicsAndGroupsDelayNoCommit(t *testing.T) {
	fills := map[string]func(n int) metadata.Command{"all kinds": func(n int) metadata.Command {
		kinds := []string{"topics", "groups", "offsets", "transactional IDs", "configs of groups"}
		return fill[kinds[n%len(kinds)]](n)
	}}
	for _, kind := range []string{"topics", "groups", "transactional IDs"} {
		fills[kind] = fill[kind]
	}
	for kind, command := range fills {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				f, end := startBounded(t, func(c *owner.Config) { c.Registerer = registry })
				f.must(offsetsOf("before", "text"))
				f.must(&metadata.UpdateGroup{Group: "before", Kind: metadata.GroupClassic, Head: []byte("head")})
				f.must(fill["transactional IDs"](-1))
				_, err := f.until(command)
				require.ErrorContains(t, err, "topics, configs, groups, offsets and transactions")
				require.ErrorContains(t, err, "--memory-limit")
				require.InDelta(t, memoryBound/2, f.topicsAndGroups(), 16<<10)
				require.Less(t, gathered(t, registry, "freshet_owner_metadata_share"), 0.001)
				for other := range fill {
					_, err := f.until(fill[other])
					require.ErrorIs(t, err, owner.ErrOverloaded, other)
				}
				require.False(t, f.Slows())
				if kind == "all kinds" {
					f.commitAndTrim(90_000)
				}
				f.commitAndTrim(10_000)

				f.must(offsetsOf("before", "next"))
				f.must(&metadata.UpdateGroup{Group: "before", Kind: metadata.GroupClassic, Head: []byte("HEAD")})
				f.must(fill["transactional IDs"](-1))
				require.ErrorIs(t, f.propose(offsetsOf("new", longText)), owner.ErrOverloaded)
				f.must(&metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: id.Topic{1}, Set: map[string]string{"retention.ms": "1"}})
				f.must(&metadata.DeleteGroup{Group: "before"})
				f.must(&metadata.DeleteTopic{ID: id.Topic{1}})
				require.NoError(t, end())
			})
		})
	}
}

// TestOwner_ExistingGroupsAndTransactionsGoOn: groups that exist take new members and offsets up to 9/16 of the bound, and transactions
// partitions. Commits are not delayed then either.
func TestOwner_ExistingGroupsAndTransactionsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions = 1 << 16
		f, end := startBounded(t, func(*owner.Config) {})
		f.must(&metadata.CreatePartitions{ID: id.Topic{1}, Count: partitions})
		f.must(fill["groups"](0))
		f.must(&metadata.InitTransaction{TransactionalID: "x", TimeoutMs: 1 << 30, ProducerID: -1, ProducerEpoch: -1})
		_, err := f.until(func(n int) metadata.Command { return fill["groups"](n) })
		require.Error(t, err)
		member := func(n int) metadata.Command {
			return &metadata.UpdateGroup{
				Group: "group0", Kind: metadata.GroupClassic, Members: []metadata.GroupMember{{ID: fmt.Sprint(n), Value: []byte(longText)}},
			}
		}
		for n := range 100 {
			f.must(member(n))
		}
		added, _ := f.until(func(n int) metadata.Command {
			more := make([]id.TopicPartition, 100)
			for i := range more {
				more[i] = id.TopicPartition{Topic: id.Topic{1}, Partition: int32((n*len(more) + i) % partitions)}
			}
			ref := metadata.TransactionRef{TransactionalID: "x", Version: metadata.ProtocolOne, AsOf: 1 << 40}
			return &metadata.AddPartitions{TransactionRef: ref, Partitions: more}
		})
		require.Greater(t, added, 50)
		members, _ := f.until(func(n int) metadata.Command { return member(n + 100) })
		require.InDelta(t, memoryBound*9/16, f.topicsAndGroups(), 16<<10)
		f.must(member(99))
		f.must(&metadata.UpdateGroup{Group: "group0", Kind: metadata.GroupClassic, Reset: true})
		f.must(member(members + 100))
		f.commitAndTrim(10_000)
		require.NoError(t, end())
	})
}

// TestOwner_RestoredTopicsAndGroupsBeyondTheBound: a state from a snapshot has topic and group metadata of 3/4 of the
// bound. Only its growth is refused.
func TestOwner_RestoredTopicsAndGroupsBeyondTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, end := startBounded(t, func(c *owner.Config) { c.MaxBytes = 0 })
		groups := 0
		for ; f.topicsAndGroups() < memoryBound*3/4; groups++ {
			f.must(fill["groups"](groups))
		}
		require.NoError(t, end())
		var snapshot bytes.Buffer
		require.NoError(t, replay(t, f.log).Encode(&snapshot))
		restored, err := metadata.Decode(&snapshot)
		require.NoError(t, err)
		l, net, err := f.store.Open("c", metalog.Config{})
		require.NoError(t, err)
		f.net = net
		f.tenure, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "c"})
		require.NoError(t, err)
		f.Owner, err = owner.New(owner.Config{Tenure: f.tenure, State: restored, MaxBytes: memoryBound, MaxFresh: 1 << 30})
		require.NoError(t, err)
		end = f.run(t)
		require.False(t, f.Slows())
		for kind := range fill {
			require.ErrorIs(t, f.propose(fill[kind](1<<15)), owner.ErrOverloaded, kind)
		}
		f.must(&metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: id.Topic{1}, Set: map[string]string{"retention.ms": "1"}})
		f.commitAndTrim(10_000)
		for n := range groups / 2 {
			f.must(&metadata.DeleteGroup{Group: fmt.Sprint("group", n)})
		}
		f.must(fill["groups"](0))
		require.NoError(t, end())
	})
}

// TestOwner_MarkersLeaveRoomForCommits: transactions that add many partitions at the same time are refused before their markers delay commits.
// Transactions of few partitions go on.
func TestOwner_MarkersLeaveRoomForCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, bound = 1000, 10_000
		f, end := startBounded(t, func(c *owner.Config) { c.MaxBytes, c.MaxExtents = 1<<30, bound })
		f.must(&metadata.CreatePartitions{ID: id.Topic{1}, Count: partitions})
		name := func(n int) string { return fmt.Sprint("x", n) }
		producers := make([]int64, 20)
		ref := func(n int) metadata.TransactionRef {
			return metadata.TransactionRef{TransactionalID: name(n), ProducerID: producers[n], Version: metadata.ProtocolOne, AsOf: 1 << 40}
		}
		add := func(n, partitions int) error {
			all := make([]id.TopicPartition, partitions)
			for i := range all {
				all[i] = id.TopicPartition{Topic: id.Topic{1}, Partition: int32(i)}
			}
			result, _, err := f.Propose(t.Context(), &metadata.AddPartitions{TransactionRef: ref(n), Partitions: all})
			return errors.Join(err, result.Err)
		}
		for n := range 20 {
			result, _, err := f.Propose(t.Context(), &metadata.InitTransaction{TransactionalID: name(n), TimeoutMs: 1 << 30, ProducerID: -1, ProducerEpoch: -1})
			require.NoError(t, errors.Join(err, result.Err))
			producers[n] = result.Value.(metadata.InitTransactionResult).ProducerID
		}
		outcomes, taken := make([]error, 20), 0
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() { outcomes[n] = add(n, partitions) })
		}
		all.Wait()
		for _, err := range outcomes {
			if err == nil {
				taken++
			} else {
				require.ErrorIs(t, err, owner.ErrOverloaded)
				require.ErrorContains(t, err, "markers of open transactions")
			}
		}
		require.Equal(t, bound*3/4/partitions, taken)
		for n := range 20 {
			require.NoError(t, add(n, 100))
			require.Equal(t, outcomes[n] == nil, add(n, partitions) == nil, "a repeated one is no growth")
			f.must(&metadata.EndTransaction{TransactionRef: ref(n), Commit: true})
		}
		require.Error(t, add(0, partitions))
		require.NoError(t, add(0, 100))
		require.NoError(t, end())
	})
}

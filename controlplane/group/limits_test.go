package group_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// limit sets one limit of the state, as this owner and later ones have it.
func (w *world) limit(kind metadata.LimitKind, n int64) {
	w.t.Helper()
	w.limits = metadata.Limits{}
	w.limits[kind] = n
	w.propose(&metadata.SetLimits{Limits: w.limits})
}

// A new group beyond the limit is refused retriably in every way that makes one. Groups that exist go on, and a new one has the place of a
// deleted one.
func TestLimits_Groups(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := w.join("classic")
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "m"), 1).ErrorCode)
		commitPlain(w, "simple", "t", 0, 1)
		w.limit(metadata.LimitGroups, 2) // above it
		refused := func() {
			t.Helper()
			want := kerr.CoordinatorLoadInProgress.Code
			require.Equal(t, want, ask[*kmsg.JoinGroupResponse](w, (&member{group: "new"}).joinRequest(), 3).ErrorCode)
			beat := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("new", "m"), 1)
			require.Equal(t, want, beat.ErrorCode)
			require.Contains(t, *beat.ErrorMessage, "--max-groups")
			require.Equal(t, want, commitCode(w, commitRequest("new", "t", 0, 1), 9))
			_, in := beginTransaction(w, "x")
			in.Group = "new"
			require.Equal(t, kerr.TransactionAbortable.Code, ask[*kmsg.TxnOffsetCommitResponse](w, in, 5).Topics[0].Partitions[0].ErrorCode)
			w.read(func(s *metadata.State) { require.Equal(t, 3, s.GroupCount()) })
		}
		refused()
		require.Zero(t, m.heartbeat(w))
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "n"), 1).ErrorCode)
		commitPlain(w, "simple", "t", 1, 1)
		w.changeOwner()
		refused()
		w.propose(&metadata.DeleteGroup{Group: "simple"})
		w.propose(&metadata.DeleteGroup{Group: "consumer"})
		w.join("new")
	})
}

// Of many new groups that come at once, as many as there is room for are taken.
func TestLimits_GroupsAtOnce(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		w.limit(metadata.LimitGroups, 5)
		var answers []func() (*kmsg.JoinGroupResponse, error)
		for i := range 20 {
			answers = append(answers, send[*kmsg.JoinGroupResponse](w, (&member{group: fmt.Sprint(i)}).joinRequest(), 3))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		taken := 0
		for _, answer := range answers {
			out, err := answer()
			require.NoError(t, err)
			if out.ErrorCode == 0 {
				taken++
			} else {
				require.Equal(t, kerr.CoordinatorLoadInProgress.Code, out.ErrorCode)
			}
		}
		require.Equal(t, 5, taken)
	})
}

// A member beyond the limit of its group is refused for good, in both protocols. Members of a group above a new limit rejoin.
func TestLimits_GroupMembers(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := w.join("classic")
		for _, name := range []string{"a", "b"} {
			require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", name), 1).ErrorCode)
		}
		w.limit(metadata.LimitGroupMembers, 1)
		for range 2 {
			require.Equal(t, kerr.GroupMaxSizeReached.Code, ask[*kmsg.JoinGroupResponse](w, (&member{group: "classic"}).joinRequest(), 3).ErrorCode)
			beat := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "c"), 1)
			require.Equal(t, kerr.GroupMaxSizeReached.Code, beat.ErrorCode)
			require.Contains(t, *beat.ErrorMessage, "--max-group-members")
			require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "b"), 1).ErrorCode)
			require.Zero(t, ask[*kmsg.JoinGroupResponse](w, m.joinRequest(), 3).ErrorCode)
			w.changeOwner()
		}
	})
}

// At the limit of offsets, groups commit offsets of their partitions, and no others.
func TestLimits_Offsets(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		commitPlain(w, "g", "t", 0, 1)
		w.limit(metadata.LimitOffsetBytes, 1)
		commitPlain(w, "g", "t", 0, 2)
		require.Equal(t, kerr.InvalidCommitOffsetSize.Code, commitCode(w, commitRequest("g", "t", 1, 2), 9))
		_, in := beginTransaction(w, "x")
		code := func(version int16) int16 {
			return ask[*kmsg.TxnOffsetCommitResponse](w, in, version).Topics[0].Partitions[0].ErrorCode
		}
		in.Topics[0].Partitions[0].Metadata = kmsg.StringPtr("note")
		require.Zero(t, code(5))
		in.Topics[0].Partitions[0].Partition = 1
		require.Equal(t, kerr.TransactionAbortable.Code, code(5))
		w.limit(metadata.LimitOffsetBytes, 0)
		require.Zero(t, commitCode(w, commitRequest("g", "t", 1, 2), 9))
	})
}

// TestLimits_BoundOfMemory: at a bound of the metadata's memory, joins and commits of offsets are answered retriably. They succeed once there is
// room.
func TestLimits_BoundOfMemory(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := w.join("classic")
		w.owner.refuseBy(func(metadata.Command) error { return fmt.Errorf("%w of memory", owner.ErrOverloaded) })
		want := kerr.CoordinatorLoadInProgress.Code
		require.Equal(t, want, ask[*kmsg.JoinGroupResponse](w, (&member{group: "new"}).joinRequest(), 3).ErrorCode)
		beat := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "m"), 1)
		require.Equal(t, want, beat.ErrorCode)
		require.Contains(t, *beat.ErrorMessage, "bound of memory")
		require.Equal(t, want, commitCode(w, commitRequest("simple", "t", 0, 1), 9))
		_, in := beginTransaction(w, "y")
		require.Equal(t, want, ask[*kmsg.TxnOffsetCommitResponse](w, in, 5).Topics[0].Partitions[0].ErrorCode)
		require.Zero(t, m.heartbeat(w))
		w.owner.refuseBy(nil)
		w.join("new")
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "m"), 1).ErrorCode)
		commitPlain(w, "simple", "t", 0, 1)
		require.Zero(t, ask[*kmsg.TxnOffsetCommitResponse](w, in, 5).Topics[0].Partitions[0].ErrorCode)
	})
}

// TestLimits_MemberBeyondMemory: there is no memory for a second member of a group. A consumer that tries to join each second makes the group rebalance a
// few times in two minutes. Between them, the member that stays has its partitions. The consumer gets in soon after there is memory.
func TestLimits_MemberBeyondMemory(t *testing.T) {
	for name, refusal := range map[string]error{"memory": fmt.Errorf("%w of memory", owner.ErrOverloaded), "log": metalog.ErrLogFull} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, quick, func(w *world) {
				alone := 0 // bytes of the group with one member
				w.owner.refuseBy(func(c metadata.Command) error {
					if u, ok := c.(*metadata.UpdateGroup); ok {
						alone = max(alone, len(u.Head))
					}
					return nil
				})
				m := w.join("g")
				w.owner.refuseBy(func(c metadata.Command) error {
					if u, ok := c.(*metadata.UpdateGroup); ok && len(u.Head) > alone {
						return refusal
					}
					return nil
				})
				newcomer := &follower{member: member{group: "g"}}
				rebalances, stable := 0, 0
				run := func(until func() bool) (took time.Duration) {
					for began := time.Now(); !until(); time.Sleep(time.Second) { // sleeps: the clock of the bubble
						took = time.Since(began)
						require.Less(t, took, 5*time.Minute)
						newcomer.step(w)
						if m.heartbeat(w) == 0 {
							stable++
							continue
						}
						rebalances++
						for code := int16(-1); code != 0; {
							code = m.lead(w)
							require.NotEqual(t, kerr.CoordinatorLoadInProgress.Code, code, "fatal for Java's consumer")
						}
					}
					return took
				}
				end := time.Now().Add(2 * time.Minute)
				run(func() bool { return time.Now().After(end) })
				t.Log("rebalances", rebalances, "stable", stable, "codes", newcomer.codes)
				require.LessOrEqual(t, rebalances, 6)
				require.Greater(t, stable, 90)
				w.owner.refuseBy(nil)
				took := run(func() bool { return newcomer.joined })
				t.Log("joined after", took)
				require.LessOrEqual(t, took, 65*time.Second)
			})
		})
	}
}

// follower is a consumer that joins a group which another member leads.
type follower struct {
	member
	joined  bool
	joining func() (*kmsg.JoinGroupResponse, error)
	syncing func() (*kmsg.SyncGroupResponse, error)
	codes   map[string]int // answers by API and error
}

// step sends the next request if there is an answer to the one before. After an error, the consumer begins anew.
func (f *follower) step(w *world) {
	switch {
	case f.joined:
	case f.syncing != nil:
		out, err := f.syncing()
		if errors.Is(err, errNoAnswer) {
			return
		}
		f.syncing = nil
		f.joined = err == nil && f.count("sync", out.ErrorCode)
	case f.joining != nil:
		out, err := f.joining()
		if errors.Is(err, errNoAnswer) {
			return
		}
		f.joining = nil
		if err == nil && f.count("join", out.ErrorCode) {
			f.id, f.generation = out.MemberID, out.Generation
			f.syncing = send[*kmsg.SyncGroupResponse](w, f.syncRequest(), 3)
		}
	default:
		f.id = ""
		f.joining = send[*kmsg.JoinGroupResponse](w, f.joinRequest(), 3)
	}
}

// count counts an answer, and reports whether it is no error.
func (f *follower) count(api string, code int16) bool {
	if f.codes == nil {
		f.codes = map[string]int{}
	}
	if err := kerr.TypedErrorForCode(code); err != nil {
		api += " " + err.Message
	}
	f.codes[api]++
	return code == 0
}

// TestLimits_ConsumerBeyondMemory: there is no memory for a third member of a consumer group, and one of the two is gone. The attempts of the third do not
// prolong the session of the second, and the third takes its place. The first one hears no error.
func TestLimits_ConsumerBeyondMemory(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		a := joining("g", "a")
		beat := func() { // with all that the member has
			out := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, a, 1)
			require.Zero(t, out.ErrorCode)
			if a.MemberEpoch = out.MemberEpoch; out.Assignment == nil {
				return
			}
			a.Topics = nil
			for _, topic := range out.Assignment.Topics {
				a.Topics = append(a.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic.TopicID, Partitions: topic.Partitions})
			}
		}
		beat()
		require.Zero(t, joinConsumer(w, "g", "b").ErrorCode)
		w.owner.refuseBy(func(c metadata.Command) error {
			u, ok := c.(*metadata.UpdateGroup)
			if !ok {
				return nil
			}
			members := map[string]bool{}
			w.read(func(s *metadata.State) {
				g, _ := s.Group("g")
				for name := range g.Members {
					members[name] = true
				}
			})
			for _, m := range u.Members {
				if members[m.ID] = true; m.Value == nil {
					delete(members, m.ID)
				}
			}
			if len(members) > 2 {
				return fmt.Errorf("%w of memory", owner.ErrOverloaded)
			}
			return nil
		})
		began := time.Now()
		for {
			out := joinConsumer(w, "g", "c")
			if out.ErrorCode == 0 {
				break
			}
			require.Equal(t, kerr.CoordinatorLoadInProgress.Code, out.ErrorCode)
			require.Contains(t, *out.ErrorMessage, "bound of memory")
			require.Less(t, time.Since(began), 5*time.Minute)
			time.Sleep(time.Second) // sleeps: the clock of the bubble
			beat()
		}
		t.Log("joined after", time.Since(began))
	})
}

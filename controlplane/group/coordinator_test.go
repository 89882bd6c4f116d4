package group_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
)

var quick = group.Settings{InitialRebalanceDelay: -1}

// A generation outlives its owner: no member notices.
func TestCoordinator_GenerationSurvivesAnOwnerChange(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := w.join("g")
		require.Zero(t, m.heartbeat(w))
		time.Sleep(9 * time.Second)
		w.changeOwner()
		time.Sleep(9 * time.Second)
		require.Zero(t, m.heartbeat(w), "a full new session time-out")
		time.Sleep(11 * time.Second)
		require.Equal(t, kerr.UnknownMemberID.Code, m.heartbeat(w))
	})
}

// Sessions end under a new owner though nobody asks for the group.
func TestCoordinator_LoadsGroupsOfMembersThatAreGone(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		w.join("g")
		w.changeOwner()
		time.Sleep(11 * time.Second)
		w.read(func(s *metadata.State) {
			info, ok := s.Group("g")
			require.True(t, ok)
			require.Equal(t, metadata.GroupClassic, info.Kind)
		})
		require.Equal(t, "Empty", describe(w, "g").State)
	})
}

func describe(w *world, name string) kmsg.DescribeGroupsResponseGroup {
	w.t.Helper()
	in := kmsg.NewPtrDescribeGroupsRequest()
	in.Groups = []string{name}
	return ask[*kmsg.DescribeGroupsResponse](w, in, 6).Groups[0]
}

// A join that waits for others is answered when they have come, and the owner is free meanwhile.
func TestCoordinator_ParksJoins(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		first := w.join("g")
		second := &member{group: "g"}
		joining := send[*kmsg.JoinGroupResponse](w, second.joinRequest(), 3)
		synctest.Wait()
		_, err := joining()
		require.ErrorIs(t, err, errNoAnswer)
		require.Equal(t, kerr.RebalanceInProgress.Code, first.heartbeat(w))
		again := ask[*kmsg.JoinGroupResponse](w, first.joinRequest(), 3)
		require.Equal(t, first.generation+1, again.Generation)
		out, err := joining()
		require.NoError(t, err)
		require.Equal(t, again.Generation, out.Generation)
		require.Len(t, again.Members, 2)
	})
}

// When a group's write is refused, who waits gets no answer, and the group is what the log has.
func TestCoordinator_StartsAnewWhenAWriteFails(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := w.join("g")
		w.owner.refuseUpdates(metalog.ErrLogFull)
		in := kmsg.NewPtrLeaveGroupRequest()
		in.Group, in.MemberID = m.group, m.id
		leaving := send[*kmsg.LeaveGroupResponse](w, in, 2)
		synctest.Wait()
		_, err := leaving()
		require.ErrorIs(t, err, metalog.ErrLogFull)
		w.owner.refuseUpdates(nil)
		require.Zero(t, m.heartbeat(w), "it never left")
		require.Zero(t, ask[*kmsg.LeaveGroupResponse](w, in, 2).ErrorCode)
		require.Equal(t, kerr.UnknownMemberID.Code, m.heartbeat(w))
	})
}

// An answer that waited for one write is given though the write after it fails.
func TestCoordinator_AnswersWhatWasWrittenBeforeAWriteFails(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		w.log.Stop()
		first := send[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("g", "m1"), 1)
		second := send[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("g", "m2"), 1)
		synctest.Wait()
		_, err := first()
		require.ErrorIs(t, err, errNoAnswer)
		w.owner.refuseUpdates(metalog.ErrLogFull)
		w.log.Release()
		synctest.Wait()
		out, err := first()
		require.NoError(t, err)
		require.Zero(t, out.ErrorCode)
		_, err = second()
		require.ErrorIs(t, err, metalog.ErrLogFull)
		w.owner.refuseUpdates(nil)
		described := describeConsumers(w, "g")
		require.Len(t, described.Members, 1)
		require.Equal(t, "m1", described.Members[0].MemberID)
	})
}

// Who asks about a group is not told of a write that is on its way and may fail.
func TestCoordinator_DescribesWhatIsWritten(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		joinConsumer(w, "g", "m1")
		w.log.Stop()
		send[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("g", "m2"), 1)
		describe, list := kmsg.NewPtrConsumerGroupDescribeRequest(), kmsg.NewPtrListGroupsRequest()
		describe.Groups = []string{"g"}
		described := send[*kmsg.ConsumerGroupDescribeResponse](w, describe, 1)
		listed := send[*kmsg.ListGroupsResponse](w, list, 5)
		synctest.Wait()
		_, err := described()
		require.ErrorIs(t, err, errNoAnswer)
		_, err = listed()
		require.ErrorIs(t, err, errNoAnswer)
		w.log.Release()
		synctest.Wait()
		out, err := described()
		require.NoError(t, err)
		require.Len(t, out.Groups[0].Members, 2)
		all, err := listed()
		require.NoError(t, err)
		require.Len(t, all.Groups, 1)
	})
}

func joining(group, member string) *kmsg.ConsumerGroupHeartbeatRequest {
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	in.Group, in.MemberID, in.RebalanceTimeoutMillis = group, member, 60_000
	in.SubscribedTopicNames, in.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return in
}

func describeConsumers(w *world, group string) kmsg.ConsumerGroupDescribeResponseGroup {
	w.t.Helper()
	in := kmsg.NewPtrConsumerGroupDescribeRequest()
	in.Groups = []string{group}
	return ask[*kmsg.ConsumerGroupDescribeResponse](w, in, 1).Groups[0]
}

func TestCoordinator_RefusesTheEmptyGroup(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		want := kerr.InvalidGroupID.Code
		require.Equal(t, want, ask[*kmsg.JoinGroupResponse](w, kmsg.NewPtrJoinGroupRequest(), 9).ErrorCode)
		require.Equal(t, want, ask[*kmsg.SyncGroupResponse](w, kmsg.NewPtrSyncGroupRequest(), 4).ErrorCode)
		require.Equal(t, want, ask[*kmsg.HeartbeatResponse](w, kmsg.NewPtrHeartbeatRequest(), 4).ErrorCode)
		require.Equal(t, want, ask[*kmsg.LeaveGroupResponse](w, kmsg.NewPtrLeaveGroupRequest(), 5).ErrorCode)
		out := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, kmsg.NewPtrConsumerGroupHeartbeatRequest(), 1)
		require.Equal(t, kerr.InvalidRequest.Code, out.ErrorCode)
	})
}

func TestCoordinator_AnswersWhatIsForwarded(t *testing.T) {
	for _, key := range new(group.Coordinator).Keys() {
		entry, ok := kafkaproto.Lookup(key)
		require.True(t, ok)
		require.Equal(t, kafkaproto.ByControlPlane, entry.By, entry.Name)
	}
}

func TestCoordinator_ListsDescribesDeletes(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := w.join("members")
		commitPlain(w, "offsets", "t", 0, 7)
		list := func(states, types []string) (names []string) {
			in := kmsg.NewPtrListGroupsRequest()
			in.StatesFilter, in.TypesFilter = states, types
			for _, g := range ask[*kmsg.ListGroupsResponse](w, in, 5).Groups {
				names = append(names, g.Group+" "+g.ProtocolType+" "+g.GroupState+" "+g.GroupType)
			}
			return names
		}
		require.Equal(t, []string{"members consumer Stable classic", "offsets  Empty classic"}, list(nil, nil))
		require.Equal(t, []string{"offsets  Empty classic"}, list([]string{"EMPTY"}, nil))
		require.Empty(t, list(nil, []string{"consumer"}))
		require.Equal(t, "Stable", describe(w, "members").State)
		missing := describe(w, "missing")
		require.Equal(t, kerr.GroupIDNotFound.Code, missing.ErrorCode)
		require.Equal(t, "Group missing not found.", *missing.ErrorMessage)
		m.leave(w)
		in := kmsg.NewPtrDeleteGroupsRequest()
		in.Groups = []string{"members", "missing", "offsets", "offsets"}
		var codes []int16
		for _, g := range ask[*kmsg.DeleteGroupsResponse](w, in, 2).Groups {
			codes = append(codes, g.ErrorCode)
		}
		require.Equal(t, []int16{0, kerr.GroupIDNotFound.Code, 0}, codes)
		require.Empty(t, list(nil, nil))
		w.read(func(s *metadata.State) { require.Zero(t, s.GroupCount()) })
	})
}

func TestCoordinator_DoesNotDeleteAGroupWithMembers(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		w.join("g")
		in := kmsg.NewPtrDeleteGroupsRequest()
		in.Groups = []string{"g"}
		require.Equal(t, kerr.NonEmptyGroup.Code, ask[*kmsg.DeleteGroupsResponse](w, in, 2).Groups[0].ErrorCode)
	})
}

// joinConsumer has a member of the consumer protocol join.
func joinConsumer(w *world, name, memberID string) *kmsg.ConsumerGroupHeartbeatResponse {
	w.t.Helper()
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining(name, memberID), 1)
}

func beatConsumer(w *world, name, memberID string, epoch int32) *kmsg.ConsumerGroupHeartbeatResponse {
	w.t.Helper()
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	in.Group, in.MemberID, in.MemberEpoch = name, memberID, epoch
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](w, in, 1)
}

// The consumer protocol: a member joins, its group outlives the owner, and it commits by its epoch.
func TestCoordinator_ConsumerGroupSurvivesAnOwnerChange(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		out := joinConsumer(w, "g", "m1")
		require.Zero(t, out.ErrorCode)
		require.NotNil(t, out.Assignment)
		require.Len(t, out.Assignment.Topics[0].Partitions, 3)
		w.changeOwner()
		again := beatConsumer(w, "g", "m1", out.MemberEpoch)
		require.Zero(t, again.ErrorCode)
		require.Equal(t, out.MemberEpoch, again.MemberEpoch)
		require.Zero(t, commitAs(w, "g", "m1", out.MemberEpoch, 9))
		require.Equal(t, kerr.StaleMemberEpoch.Code, commitAs(w, "g", "m1", out.MemberEpoch+5, 9))
		require.Equal(t, kerr.GroupIDNotFound.Code, beatConsumer(w, "other", "m1", 3).ErrorCode)
	})
}

// Online migration, there and back.
func TestCoordinator_GroupChangesItsProtocol(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		old := w.join("g")
		out := joinConsumer(w, "g", "m1")
		require.Zero(t, out.ErrorCode, out.ErrorMessage)
		w.read(func(s *metadata.State) {
			info, _ := s.Group("g")
			require.Equal(t, metadata.GroupConsumer, info.Kind)
		})
		require.Equal(t, kerr.GroupIDNotFound.Code, describe(w, "g").ErrorCode)
		require.Equal(t, kerr.RebalanceInProgress.Code, old.heartbeat(w))
		require.Zero(t, beatConsumer(w, "g", "m1", -1).ErrorCode)
		w.read(func(s *metadata.State) {
			info, _ := s.Group("g")
			require.Equal(t, metadata.GroupClassic, info.Kind)
		})
		require.Zero(t, describe(w, "g").ErrorCode)
		require.Equal(t, "PreparingRebalance", describe(w, "g").State, "the assignment is out of date")
	})
}

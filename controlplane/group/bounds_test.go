package group_test

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/classic"
)

// joinOf returns a first JoinGroup with so many protocols and bytes of metadata in all.
func joinOf(group string, protocols, metadata int) *kmsg.JoinGroupRequest {
	in := (&member{group: group}).joinRequest()
	in.Protocols = nil
	for i := range protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = fmt.Sprintf("p%04d", i), make([]byte, metadata/protocols)
		in.Protocols = append(in.Protocols, p)
	}
	return in
}

// A member's metadata, its number of protocols and a group's bytes have bounds. Apache Kafka bounds the request alone.
func TestJoinGroup_Bounds(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		join := func(in *kmsg.JoinGroupRequest) int16 { return ask[*kmsg.JoinGroupResponse](w, in, 3).ErrorCode }
		atTheBound := classic.MaxMemberBytes - len("p0000")
		require.Zero(t, join(joinOf("g1", 1, atTheBound)))
		require.Equal(t, kerr.InvalidRequest.Code, join(joinOf("g2", 1, atTheBound+1)))
		require.Zero(t, join(joinOf("g3", classic.MaxProtocols, 0)))
		require.Equal(t, kerr.InvalidRequest.Code, join(joinOf("g4", classic.MaxProtocols+1, 0)))
		// Counting the protocols took a minute: each name was compared with all others.
		require.Equal(t, kerr.InvalidRequest.Code, join(joinOf("g5", 80_000, 0)))
		require.Equal(t, kerr.InvalidRequest.Code, join(joinOf("g6", 1, 8<<20)))

		members := classic.MaxBytes / (classic.MaxMemberBytes + 128)
		var waiting []func() (*kmsg.JoinGroupResponse, error)
		for range members {
			waiting = append(waiting, send[*kmsg.JoinGroupResponse](w, joinOf("full", 1, atTheBound), 3))
		}
		synctest.Wait()
		require.Equal(t, kerr.GroupMaxSizeReached.Code, join(joinOf("full", 1, atTheBound)))
		for _, answer := range waiting {
			if out, err := answer(); err == nil {
				require.NotEqual(t, kerr.GroupMaxSizeReached.Code, out.ErrorCode)
			}
		}
	})
}

// An assignment has bounds too. The leader of a larger one gets Kafka's error for a group that cannot be written.
func TestSyncGroup_Bounds(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		joined := ask[*kmsg.JoinGroupResponse](w, joinOf("g", 1, 100), 3)
		require.Zero(t, joined.ErrorCode)
		sync := func(size, assignments int) int16 {
			in := kmsg.NewPtrSyncGroupRequest()
			in.Group, in.MemberID, in.Generation = "g", joined.MemberID, joined.Generation
			for range assignments {
				a := kmsg.NewSyncGroupRequestGroupAssignment()
				a.MemberID, a.MemberAssignment = joined.MemberID, bytes.Repeat([]byte("a"), size)
				in.GroupAssignment = append(in.GroupAssignment, a)
			}
			return ask[*kmsg.SyncGroupResponse](w, in, 3).ErrorCode
		}
		require.Equal(t, kerr.UnknownServerError.Code, sync(classic.MaxMemberBytes+1, 1))
		require.Equal(t, kerr.UnknownServerError.Code, sync(classic.MaxMemberBytes, 14))
		require.Equal(t, kerr.InvalidRequest.Code, sync(classic.MaxMemberBytes, 15))
		require.Zero(t, sync(classic.MaxMemberBytes, 1))
	})
}

// The topics of a heartbeat are kept by its group.
func TestConsumerGroupHeartbeat_Bounds(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		in := joining("g", "m")
		for i := range 50_000 {
			in.SubscribedTopicNames = append(in.SubscribedTopicNames, fmt.Sprintf("%0100d", i))
		}
		require.Equal(t, kerr.InvalidRequest.Code, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, in, 1).ErrorCode)
	})
}

// The members of all groups have a bound together. They leave it with their groups, also when a write fails.
func TestJoinGroup_BoundOfAllGroups(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		w.memberBytes = 3 << 20
		w.changeOwner()
		join := func(group string) *kmsg.JoinGroupResponse {
			return ask[*kmsg.JoinGroupResponse](w, joinOf(group, 1, 1_000_000), 3)
		}
		var members []*kmsg.JoinGroupResponse
		for i := range 3 {
			members = append(members, join(fmt.Sprint("g", i)))
			require.Zero(t, members[i].ErrorCode)
		}
		require.Equal(t, kerr.CoordinatorLoadInProgress.Code, join("g3").ErrorCode)
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = "g0", members[0].MemberID
		require.Zero(t, ask[*kmsg.LeaveGroupResponse](w, leave, 0).ErrorCode)
		require.Zero(t, join("g3").ErrorCode)
		require.Equal(t, kerr.CoordinatorLoadInProgress.Code, join("g4").ErrorCode)
		time.Sleep(time.Minute) // sleeps: in the bubble, until sessions end
		require.Zero(t, join("g4").ErrorCode)
	})
}

// Classic members in a group of the consumer protocol have the bounds of a classic group, and so have the members of that protocol.
func TestJoinGroup_BoundsOfAConsumerGroup(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		join := func(in *kmsg.JoinGroupRequest) int16 { return ask[*kmsg.JoinGroupResponse](w, in, 3).ErrorCode }
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("g", "m"), 1).ErrorCode)
		atTheBound := classic.MaxMemberBytes - len("p0000")
		require.Equal(t, kerr.InvalidRequest.Code, join(joinOf("g", 1, atTheBound+1)))
		require.Equal(t, kerr.InvalidRequest.Code, join(joinOf("g", classic.MaxProtocols+1, 0)))
		for range classic.MaxBytes / (classic.MaxMemberBytes + 256) {
			require.Zero(t, join(joinOf("g", 1, atTheBound)))
		}
		require.Equal(t, kerr.GroupMaxSizeReached.Code, join(joinOf("g", 1, atTheBound)))
		require.Zero(t, join(joinOf("g", 1, 1000)))
		large := joining("g", "n")
		for i := range 10_000 {
			large.SubscribedTopicNames = append(large.SubscribedTopicNames, fmt.Sprintf("%0100d", i))
		}
		require.Equal(t, kerr.GroupMaxSizeReached.Code, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, large, 1).ErrorCode)
	})
}

// Members of consumer groups count in the bound of all groups: when they come, when another owner reads them, and until they go.
func TestConsumerGroupHeartbeat_BoundOfAllGroups(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		w.memberBytes = 3 << 20
		w.changeOwner()
		beat := func(group string, epoch int32) int16 {
			in := joining(group, "m")
			in.MemberEpoch = epoch
			for i := range 8000 {
				in.SubscribedTopicNames = append(in.SubscribedTopicNames, fmt.Sprintf("%0100d", i))
			}
			return ask[*kmsg.ConsumerGroupHeartbeatResponse](w, in, 1).ErrorCode
		}
		for i := range 3 {
			require.Zero(t, beat(fmt.Sprint("g", i), 0))
		}
		require.Equal(t, kerr.CoordinatorLoadInProgress.Code, beat("g3", 0))
		w.changeOwner()
		synctest.Wait() // groups that are not loaded yet do not count
		require.Equal(t, kerr.CoordinatorLoadInProgress.Code, beat("g3", 0))
		require.Equal(t, kerr.CoordinatorLoadInProgress.Code, ask[*kmsg.JoinGroupResponse](w, joinOf("g4", 1, 900_000), 3).ErrorCode)
		require.Zero(t, beat("g0", 0), "a member that is there already")
		require.Zero(t, beat("g0", -1))
		require.Zero(t, beat("g3", 0))
		require.Equal(t, kerr.CoordinatorLoadInProgress.Code, beat("g4", 0))
		time.Sleep(2 * time.Minute) // sleeps: in the bubble, until sessions end
		require.Zero(t, beat("g4", 0))
	})
}

// A group that becomes a consumer group, and a classic group again, counts once in the bound of all groups.
func TestConsumerGroup_ConversionsCountOnce(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		w.memberBytes = 2 << 20
		w.changeOwner()
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("g", "m"), 1).ErrorCode)
		for range 10 {
			joined := ask[*kmsg.JoinGroupResponse](w, joinOf("g", 1, 900_000), 3)
			require.Zero(t, joined.ErrorCode)
			leave := joining("g", "m")
			leave.MemberEpoch = -1
			require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, leave, 1).ErrorCode)
			require.Equal(t, "classic", w.groupType("g"))
			require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("g", "m"), 1).ErrorCode)
			require.Equal(t, "consumer", w.groupType("g"))
			gone := kmsg.NewPtrLeaveGroupRequest()
			gone.Group, gone.MemberID = "g", joined.MemberID
			require.Zero(t, ask[*kmsg.LeaveGroupResponse](w, gone, 0).ErrorCode)
		}
	})
}

// A classic member is several times as large in a consumer group, which also keeps the names of its topics one by one. A conversion beyond
// the bound of all groups, or of one group, is refused and leaves the classic group unchanged.
func TestConsumerGroup_ConversionsAreBounded(t *testing.T) {
	s := kmsg.NewConsumerMemberMetadata()
	for i := range 50_000 {
		s.Topics = append(s.Topics, fmt.Sprintf("%c%c%02d", 'a'+i%26, 'a'+i/26%26, i/676))
	}
	metadata := s.AppendTo(nil)
	for _, c := range []struct {
		name        string
		memberBytes int64
		members     int
		code        int16
	}{
		{"within the bounds", 2 << 20, 1, 0},
		{"bound of all groups", 1 << 20, 1, kerr.CoordinatorLoadInProgress.Code},
		{"bound of one group", 64 << 20, 15, kerr.GroupMaxSizeReached.Code},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, quick, func(w *world) {
				w.memberBytes = c.memberBytes
				w.changeOwner()
				in := joinOf("g", 1, 1)
				in.Protocols[0].Metadata = metadata
				var waiting []func() (*kmsg.JoinGroupResponse, error)
				for range c.members {
					waiting = append(waiting, send[*kmsg.JoinGroupResponse](w, in, 3))
				}
				synctest.Wait()
				for _, answer := range waiting { // the first members are to join again, and the others wait for them
					if out, err := answer(); err == nil {
						require.Zero(t, out.ErrorCode)
					}
				}
				require.Equal(t, c.code, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("g", "m"), 1).ErrorCode)
				want := "consumer"
				if c.code != 0 {
					want = "classic"
				}
				require.Equal(t, want, w.groupType("g"))
			})
		})
	}
}

// groupType returns the type of a group in ListGroups.
func (w *world) groupType(name string) string {
	for _, g := range ask[*kmsg.ListGroupsResponse](w, kmsg.NewPtrListGroupsRequest(), 5).Groups {
		if g.Group == name {
			return g.GroupType
		}
	}
	return ""
}

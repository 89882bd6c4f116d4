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

package classic

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// syncOnce completes the rebalance of a group with one member and gives it an assignment.
func syncOnce(g *Group, size int) (code int16) {
	for g.State() == PreparingRebalance {
		g.Expire(g.Deadline())
	}
	req := kmsg.NewPtrSyncGroupRequest()
	req.MemberID, req.Generation = "c-1", g.Generation()
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "c-1", MemberAssignment: make([]byte, size)}}
	for _, answer := range g.Sync(epoch, Client{}, req, func(r *kmsg.SyncGroupResponse) { code = r.ErrorCode }).Answers {
		answer()
	}
	return code
}

// TestHostile_SmallAssignmentsAreBounded: an assignment of 4 KiB counts in the budget, if its member has 4 KiB of protocols, but is not checked.
func TestHostile_SmallAssignmentsAreBounded(t *testing.T) {
	const limit = 64 << 10
	b := NewBudget(limit)
	for range 1000 {
		g := New("g", configWith(b))
		if joinOnce(g, Client{ID: "c"}, 3, smallMember-200) == 0 {
			syncOnce(g, smallMember)
		}
	}
	require.LessOrEqual(t, b.Used(), int64(limit))
}

// TestHostile_NextGenerationReplacesAssignments: a group gets the same assignment again in its next generation.
func TestHostile_NextGenerationReplacesAssignments(t *testing.T) {
	b := NewBudget(1 << 20)
	g := New("g", configWith(b))
	require.Zero(t, joinOnce(g, Client{ID: "c"}, 3, 10))
	require.Zero(t, syncOnce(g, 700_000))
	var code int16
	for i := range 3 {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.MemberID = 3, "consumer", 1_800_000, 60_000, "c-1"
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 11+i)}}
		for _, answer := range g.Join(epoch, Client{ID: "c"}, req, func(r *kmsg.JoinGroupResponse) { code = r.ErrorCode }).Answers {
			answer()
		}
		require.Zero(t, code)
		require.Zero(t, syncOnce(g, 700_000), "generation %d", g.Generation())
	}
}

package classic

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinOnce joins a group of its own and returns the error code.
func joinOnce(g *Group, c Client, version int16, metadata int) (code int16) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = version, "consumer", 1_800_000, 60_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, metadata)}}
	for _, answer := range g.Join(epoch, c, req, func(r *kmsg.JoinGroupResponse) { code = r.ErrorCode }).Answers {
		answer()
	}
	return code
}

func configWith(b *Budget) Config {
	return Config{MaxSession: time.Hour, Budget: b, NewMemberID: func(prefix string) string { return prefix + "-1" }}
}

// Large members of one client leave room for small members of others.
func TestBudget_LeavesRoomForSmallMembers(t *testing.T) {
	b := NewBudget(16 << 20)
	refused := 0
	for range 100 {
		if joinOnce(New("g", configWith(b)), Client{ID: "c", Host: "/10.0.0.66"}, 3, 1_000_000) != 0 {
			refused++
		}
	}
	require.Positive(t, refused)
	require.LessOrEqual(t, b.Used(), int64(16<<20))
	require.Equal(t, codeCoordinatorLoading, joinOnce(New("g", configWith(b)), Client{ID: "c", Host: "/10.0.0.1"}, 3, 900_000))
	require.Zero(t, joinOnce(New("g", configWith(b)), Client{ID: "c", Host: "/10.0.0.1"}, 3, 3000))
}

// The strings of a member count. New member IDs, which are kept before a member joins, have a part of the client ID.
func TestBudget_CountsClientIDs(t *testing.T) {
	b := NewBudget(16 << 20)
	g := New("g", configWith(b))
	require.Zero(t, joinOnce(g, Client{ID: strings.Repeat("c", 30_000)}, 3, 10))
	require.GreaterOrEqual(t, b.Used(), int64(30_000-smallMember))
	require.LessOrEqual(t, len(g.roster.list[0].ID), maxMemberPrefix+2)
	g = New("g", configWith(b))
	joinOnce(g, Client{ID: strings.Repeat("ü", 10_000)}, 4, 10)
	for id := range g.pending {
		require.Equal(t, strings.Repeat("ü", maxMemberPrefix/2)+"-1", id)
	}
}

func TestBudget_CountsAssignments(t *testing.T) {
	b := NewBudget(2 << 20)
	sync := func(size int) (g *Group, code int16) {
		g = New("g", configWith(b))
		joinOnce(g, Client{ID: "c"}, 3, 10)
		return g, syncOnce(g, size)
	}
	first, code := sync(1_000_000)
	require.Zero(t, code)
	require.GreaterOrEqual(t, b.Used(), int64(1_000_000-smallMember))
	_, code = sync(1_000_000)
	require.Zero(t, code)
	_, code = sync(1_000_000)
	require.Equal(t, codeCoordinatorGone, code)
	first.Unload()
	_, code = sync(1_000_000)
	require.Zero(t, code)
}

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

// An assignment has no allowance of its own: protocols and assignment of a member share one.
func TestBudget_BoundsSmallAssignments(t *testing.T) {
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

// The assignments of a generation take the place of those of the generation before.
func TestBudget_NextGenerationReplacesAssignments(t *testing.T) {
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

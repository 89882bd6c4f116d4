package classic

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

func TestConfig_Validate(t *testing.T) {
	good := Config{NewMemberID: func(prefix string) string { return prefix }}.WithDefaults()
	require.NoError(t, good.Validate())
	bad := Config{MinSession: time.Hour, MaxSession: time.Minute, InitialDelay: -1, MaxSize: -1, NewMemberTimeout: -1, MaxPending: -1}
	err := bad.Validate()
	for _, fault := range []string{"session", "initial delay", "max size", "new member", "max pending", "NewMemberID"} {
		require.ErrorContains(t, err, fault)
	}
}

// The deadline may be early, and must be cheap: heartbeats do not move it.
func TestGroup_DeadlineIgnoresHeartbeats(t *testing.T) {
	g, now := generation(t, 3)
	before := g.Deadline()
	for range 5 {
		now = now.Add(time.Second)
		beat(g, now, "c-1")
	}
	require.Equal(t, before, g.Deadline())
	early := g.Expire(before.Add(-1))
	require.True(t, early.Empty())
	beat(g, before, "c-1")
	beat(g, before, "c-2")
	beat(g, before, "c-3")
	s := g.Expire(before)
	require.True(t, s.Empty(), "nobody is lost")
	require.Equal(t, before.Add(10*time.Second), g.Deadline())
}

// A session that is restored is a full one, whatever the deadline of the owner before.
func TestRestore_FullSessions(t *testing.T) {
	g, now := generation(t, 3)
	now = now.Add(9 * time.Second)
	g = Restore("g", g.cfg, now, g.Record())
	require.Equal(t, now.Add(10*time.Second), g.Deadline())
	require.Equal(t, Stable, g.State())
	require.Equal(t, 3, g.Size())
}

func TestRestore_LeaderThatIsNoMember(t *testing.T) {
	r := someRecord()
	r.Leader = "gone"
	g := Restore("g", Config{NewMemberID: func(p string) string { return p }}, epoch, r)
	g.verify(t)
	require.Equal(t, "a-1", g.leader)
}

// BenchmarkGroup_Generation200 is a rebalance of 200 members: all join, all sync. It ends with the write.
func BenchmarkGroup_Generation200(b *testing.B) {
	g, now := generation(b, 200)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		rebalance(b, g, now, 200)
	}
}

// BenchmarkGroup_Heartbeat is one heartbeat of a group of five.
func BenchmarkGroup_Heartbeat(b *testing.B) {
	g, now := generation(b, 5)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		beat(g, now, "c-3")
	}
}

// generation gives a stable group of n members, c-1 its leader, with sessions of ten seconds.
func generation(t testing.TB, n int) (*Group, time.Time) {
	t.Helper()
	ids := 0
	g := New("g", Config{NewMemberID: func(prefix string) string {
		ids++
		return fmt.Sprintf("%s-%d", prefix, ids)
	}})
	for range n {
		join(g, epoch, "", 3, func(*kmsg.JoinGroupResponse) {})
	}
	for g.State() == PreparingRebalance { // members that joined after the first extend the delay of no time
		for _, answer := range g.Expire(epoch).Answers {
			answer()
		}
	}
	syncAll(t, g, epoch, n)
	return g, epoch
}

func rebalance(t testing.TB, g *Group, now time.Time, n int) {
	t.Helper()
	told := 0
	for i := range n { // the leader is the first and begins it
		join(g, now, fmt.Sprintf("c-%d", i+1), 9, func(*kmsg.JoinGroupResponse) { told++ })
	}
	require.Equal(t, n, told)
	syncAll(t, g, now, n)
}

func syncAll(t testing.TB, g *Group, now time.Time, n int) {
	t.Helper()
	told, writes := 0, 0
	for i := n; i > 0; i-- { // the leader is the last
		req := kmsg.NewPtrSyncGroupRequest()
		req.MemberID, req.Generation = fmt.Sprintf("c-%d", i), g.Generation()
		if i == 1 {
			for m := range n {
				req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
					MemberID: fmt.Sprintf("c-%d", m+1), MemberAssignment: make([]byte, 64),
				})
			}
		}
		s := g.Sync(now, Client{}, req, func(*kmsg.SyncGroupResponse) { told++ })
		writes += len(s.Writes)
		for _, answer := range s.Answers {
			answer()
		}
	}
	require.Equal(t, Stable, g.State())
	require.Equal(t, n, told)
	require.Equal(t, 1, writes)
}

func joinOf(id string, version int16) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.MemberID, req.ProtocolType = version, id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 60_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{
		{Name: "range", Metadata: subscription("some-topic")}, {Name: "cooperative-sticky", Metadata: subscription("some-topic")},
	}
	return req
}

func join(g *Group, now time.Time, id string, version int16, reply func(*kmsg.JoinGroupResponse)) {
	for _, answer := range g.Join(now, Client{ID: "c", Host: "/10.0.0.1"}, joinOf(id, version), reply).Answers {
		answer()
	}
}

func beat(g *Group, now time.Time, id string) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.MemberID, req.Generation = id, g.Generation()
	for _, answer := range g.Heartbeat(now, req, func(time.Duration) func() { return nil }, func(*kmsg.HeartbeatResponse) {}).Answers {
		answer()
	}
}

// Answers to heartbeats may be repeated while the group is stable. Each change of the group recalls them, once.
func TestGroup_RepeatsHeartbeats(t *testing.T) {
	for name, change := range map[string]func(g *Group, now time.Time) step.Step{
		"a member leaves": func(g *Group, now time.Time) step.Step {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.MemberID = "c-2"
			return g.Leave(now, Client{}, req, func(*kmsg.LeaveGroupResponse) {})
		},
		"a member joins": func(g *Group, now time.Time) step.Step { return g.Join(now, Client{ID: "c"}, joinOf("", 3), drop) },
		"the leader joins again": func(g *Group, now time.Time) step.Step {
			return g.Join(now, Client{ID: "c"}, joinOf("c-1", 3), drop)
		},
		"a session ends":           func(g *Group, now time.Time) step.Step { return g.Expire(now.Add(10 * time.Second)) },
		"the group is thrown away": func(g *Group, _ time.Time) step.Step { return g.Unload() },
	} {
		t.Run(name, func(t *testing.T) {
			g, now := generation(t, 3)
			recalled := 0
			repeat := heartbeatOf(g, now, "c-1", func() { recalled++ })
			require.Equal(t, 10*time.Second/3, repeat)
			heartbeatOf(g, now, "c-3", func() { recalled++ })
			beat(g, now, "c-2")
			for _, answer := range change(g, now).Answers {
				answer()
			}
			require.Equal(t, 1, recalled)
			for range 2 {
				require.Zero(t, heartbeatOf(g, now, "c-1", func() {}), "not stable")
			}
			_ = g.Unload()
			require.Equal(t, 1, recalled)
		})
	}
}

// If a member's answer may be repeated for a time, its session ends a session time-out after the end of that time.
func TestGroup_SessionOfRepeatedHeartbeats(t *testing.T) {
	g, now := generation(t, 2)
	repeat := heartbeatOf(g, now, "c-1", func() {})
	beat(g, now.Add(repeat), "c-2")
	end := now.Add(repeat + 10*time.Second)
	require.Zero(t, g.CheckCommit(now.Add(time.Second), "c-1", nil, g.Generation()), "a commit is a sign of life too")
	_ = g.Expire(end.Add(-1))
	require.Equal(t, 2, g.Size())
	_ = g.Expire(end)
	require.Zero(t, g.Size())
}

// No answer is repeated for members whose session time-out is below three times minRepeat.
func TestGroup_ShortSessionsRepeatNothing(t *testing.T) {
	g, now := generation(t, 1)
	g.roster.byID["c-1"].SessionTimeout = 3*minRepeat - 1
	require.Zero(t, heartbeatOf(g, now, "c-1", func() {}))
	g.roster.byID["c-1"].SessionTimeout = time.Minute
	require.Equal(t, maxRepeat, heartbeatOf(g, now, "c-1", func() {}))
}

// heartbeatOf sends a heartbeat whose answer may be repeated. It returns the time for which the group allows that, or 0.
func heartbeatOf(g *Group, now time.Time, id string, recall func()) (repeat time.Duration) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.MemberID, req.Generation = id, g.Generation()
	s := g.Heartbeat(now, req, func(d time.Duration) func() { repeat = d; return recall }, func(*kmsg.HeartbeatResponse) {})
	for _, answer := range s.Answers {
		answer()
	}
	return repeat
}

func drop(*kmsg.JoinGroupResponse) {}

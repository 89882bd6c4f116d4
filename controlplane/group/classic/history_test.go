package classic

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// TestGroup_RandomHistories lets clients do all they can do, in any order and also wrongly, with owner changes between,
// and then falls silent. Between any two calls the group's invariants hold; every request is answered exactly once, none
// after Unload; generations that are written never fall; and in the silence everybody times out.
func TestGroup_RandomHistories(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := newHistory(seed)
			for range 300 {
				h.act(t)
				h.group.verify(t)
			}
			h.silence(t)
			h.do(t, h.group.Unload())
			h.finish(t)
		})
	}
}

// history drives one group.
type history struct {
	r       *rand.Rand
	cfg     Config
	group   *Group
	now     time.Time
	head    []byte
	written int32 // generation of the last write
	ids     int
	known   []string // member ids heard of, dead ones too

	asked, answered int
	unloaded        bool
	t               *testing.T
}

func newHistory(seed uint64) *history {
	h := &history{r: rand.New(rand.NewPCG(seed, 1)), now: epoch}
	h.cfg = Config{InitialDelay: time.Duration(seed%4) * time.Second, NewMemberID: func(prefix string) string {
		h.ids++
		return fmt.Sprintf("%s-%d", prefix, h.ids)
	}}
	if seed%3 == 0 {
		h.cfg.MaxSize = 4
	}
	h.group = New("g", h.cfg)
	return h
}

func (h *history) act(t *testing.T) {
	t.Helper()
	h.t = t
	switch n := h.r.IntN(100); {
	case n < 30:
		h.join()
	case n < 55:
		h.sync()
	case n < 75:
		req := kmsg.NewPtrHeartbeatRequest()
		req.MemberID, req.InstanceID, req.Generation = h.member(), h.instance(), h.generation()
		h.do(t, h.group.Heartbeat(h.now, req, func(time.Duration) func() { return nil }, func(*kmsg.HeartbeatResponse) { h.answer() }))
		h.asked++
	case n < 80:
		h.leave()
	case n < 97:
		h.pass(t, time.Duration(h.r.IntN(5000))*time.Millisecond)
	default:
		h.changeOwner(t)
	}
	require.Equal(h.t, h.asked-h.waiting(), h.answered, "every request is answered, or waits, and once only")
}

func (h *history) join() {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(h.r.IntN(10))
	if h.r.IntN(3) > 0 {
		req.MemberID = h.member()
	}
	if req.Version >= 5 {
		req.InstanceID = h.instance()
	}
	req.SessionTimeoutMillis = int32(6000 + h.r.IntN(3)*7000)
	req.RebalanceTimeoutMillis = int32(h.r.IntN(4)*9000) - 1
	req.ProtocolType = "consumer"
	for range 1 + h.r.IntN(2) {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{
			Name: string(rune('p' + h.r.IntN(2))), Metadata: subscription(string(rune('t' + h.r.IntN(2)))),
		})
	}
	h.asked++
	h.do(h.t, h.group.Join(h.now, Client{ID: "c"}, req, func(resp *kmsg.JoinGroupResponse) {
		h.answer()
		if resp.MemberID != "" {
			h.known = append(h.known, resp.MemberID)
		}
		if len(resp.Members) > 0 {
			require.Equal(h.t, resp.LeaderID, resp.MemberID, "only the leader is told of the members")
			h.oneLeader(resp)
		}
	}))
}

func (h *history) oneLeader(resp *kmsg.JoinGroupResponse) {
	seen := map[string]bool{}
	for _, m := range resp.Members {
		require.False(h.t, seen[m.MemberID])
		require.NotEmpty(h.t, m.ProtocolMetadata)
		seen[m.MemberID] = true
	}
	require.True(h.t, seen[resp.LeaderID])
}

func (h *history) sync() {
	req := kmsg.NewPtrSyncGroupRequest()
	req.MemberID, req.InstanceID, req.Generation = h.member(), h.instance(), h.generation()
	if h.r.IntN(3) == 0 {
		req.MemberID = h.group.leader
	}
	for range h.r.IntN(3) {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: h.member(), MemberAssignment: []byte{byte(h.r.Uint32())},
		})
	}
	h.asked++
	h.do(h.t, h.group.Sync(h.now, Client{}, req, func(*kmsg.SyncGroupResponse) { h.answer() }))
}

func (h *history) leave() {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version = 3
	for range 1 + h.r.IntN(2) {
		m := kmsg.LeaveGroupRequestMember{InstanceID: h.instance()}
		if h.r.IntN(3) > 0 {
			m.MemberID = h.member()
		}
		req.Members = append(req.Members, m)
	}
	h.asked++
	h.do(h.t, h.group.Leave(h.now, Client{}, req, func(*kmsg.LeaveGroupResponse) { h.answer() }))
}

// member is an id that somebody has, or had; recent ones more often.
func (h *history) member() string {
	if len(h.known) == 0 || h.r.IntN(20) == 0 {
		return "nobody"
	}
	from := max(0, len(h.known)-8)
	return h.known[from+h.r.IntN(len(h.known)-from)]
}

func (h *history) instance() *string {
	if h.r.IntN(4) > 0 {
		return nil
	}
	i := string(rune('i' + h.r.IntN(2)))
	return &i
}

func (h *history) generation() int32 {
	if h.r.IntN(10) == 0 {
		return h.group.Generation() - 1
	}
	return h.group.Generation()
}

func (h *history) pass(t *testing.T, d time.Duration) {
	t.Helper()
	target := h.now.Add(d)
	for range 100_000 {
		next := h.group.Deadline()
		if next.IsZero() || next.After(target) {
			h.now = target
			return
		}
		if next.After(h.now) {
			h.now = next
		}
		h.do(t, h.group.Expire(h.now))
		h.group.verify(t)
	}
	t.Fatal("deadlines without end")
}

func (h *history) changeOwner(t *testing.T) {
	t.Helper()
	h.do(t, h.group.Unload())
	h.finish(t)
	if h.head == nil {
		h.group = New("g", h.cfg)
		return
	}
	r, err := DecodeRecord(h.head)
	require.NoError(t, err)
	h.group = Restore("g", h.cfg, h.now, r)
	require.LessOrEqual(t, h.group.Generation(), max(h.written, 0))
}

func (h *history) do(t *testing.T, s step.Step) {
	t.Helper()
	for _, w := range s.Writes {
		r, err := DecodeRecord(w.Head)
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Generation, h.written, "the generation falls")
		h.head, h.written = w.Head, r.Generation
	}
	for _, answer := range s.Answers {
		answer()
	}
}

func (h *history) answer() {
	require.False(h.t, h.unloaded, "an answer after Unload")
	h.answered++
}

// waiting counts the requests that are parked.
func (h *history) waiting() int {
	n := 0
	for _, m := range h.group.roster.list {
		if m.join != nil {
			n++
		}
		if m.sync != nil {
			n++
		}
	}
	return n
}

func (h *history) silence(t *testing.T) {
	t.Helper()
	h.pass(t, time.Hour)
	require.Equal(t, Empty, h.group.State(), "somebody is still there")
	require.Zero(t, h.group.Deadline())
	require.Equal(t, h.asked, h.answered)
}

// finish checks that all were answered, and that the dead group has nothing left to say.
func (h *history) finish(t *testing.T) {
	t.Helper()
	require.Equal(t, h.asked, h.answered)
	h.unloaded = true
	h.do(t, h.group.Unload())
	h.do(t, h.group.Expire(h.now.Add(time.Hour)))
	h.unloaded = false
}

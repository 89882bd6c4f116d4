package classic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// TestScripts runs the scripts of testdata. After every step, whatever was written must come back from its bytes as the
// group it was written of, and a group that is stable or empty must be what was written last.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.run(t, d) })
	})
}

var epoch = time.UnixMilli(1_000_000)

// world is one group with its clock and the last that was written of it.
type world struct {
	cfg   Config
	group *Group
	now   time.Time
	head  []byte
	ids   int
	out   strings.Builder
}

func newWorld() *world {
	w := &world{now: epoch}
	w.cfg = Config{InitialDelay: 3 * time.Second, NewMemberID: func(prefix string) string {
		w.ids++
		return prefix + "-" + strconv.Itoa(w.ids)
	}}
	w.group = New("g", w.cfg)
	return w
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	w.out.Reset()
	switch d.Cmd {
	case "config":
		w.configure(t, d)
	case "join":
		w.join(t, d)
	case "sync":
		w.sync(t, d)
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.MemberID, req.InstanceID, req.Generation, req.Version = arg(d, "member", ""), opt(d, "instance"), num(t, d, "generation", 1), 4
		w.do(t, w.group.Heartbeat(w.now, req, func(time.Duration) func() { return nil }, func(resp *kmsg.HeartbeatResponse) {
			w.say("%s heartbeat: %s", req.MemberID, code(resp.ErrorCode))
		}))
	case "leave":
		w.leave(t, d)
	case "time":
		w.advance(t, span(t, d, "advance", 0))
	case "commit":
		member, instance, generation := arg(d, "member", ""), opt(d, "instance"), num(t, d, "generation", -1)
		w.say("commit: %s", code(w.group.CheckCommit(w.now, member, instance, generation)))
		w.say("in a transaction: %s", code(w.group.CheckTxnCommit(member, instance, generation)))
	case "owner-change":
		w.do(t, w.group.Unload())
		w.check(t)
		w.reload(t)
	case "release":
		w.do(t, w.group.Release(codeRebalanceInProgress))
	case "show":
		w.show()
	case "allowed":
		w.allowed(d)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	w.check(t)
	return w.out.String()
}

func (w *world) configure(t *testing.T, d *datadriven.TestData) {
	w.cfg.MaxSize = int(num(t, d, "max-size", 0))
	w.cfg.MaxPending = int(num(t, d, "max-pending", 0))
	w.cfg.InitialDelay = span(t, d, "delay", 3*time.Second)
	if d.HasArg("id") {
		w.group = New("", w.cfg)
	} else if !w.group.Stored() {
		w.group = New("g", w.cfg)
	} else {
		w.group.cfg = w.cfg.WithDefaults()
	}
}

func (w *world) reload(t *testing.T) {
	if w.head == nil {
		w.group = New("g", w.cfg)
		return
	}
	r, err := DecodeRecord(w.head)
	require.NoError(t, err)
	w.group = Restore("g", w.cfg, w.now, r)
}

func (w *world) join(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.Version = "g", int16(num(t, d, "version", 9))
	req.MemberID, req.InstanceID = arg(d, "member", ""), opt(d, "instance")
	req.SessionTimeoutMillis = int32(span(t, d, "session", 10*time.Second).Milliseconds())
	req.RebalanceTimeoutMillis = int32(span(t, d, "rebalance", 30*time.Second).Milliseconds())
	req.ProtocolType, req.Reason = arg(d, "type", "consumer"), opt(d, "reason")
	for _, p := range list(d, "protocols", "range=t") {
		name, topics, _ := strings.Cut(p, "=")
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: subscription(topics)})
	}
	client := arg(d, "client", "c")
	who := arg(d, "as", client+req.MemberID)
	w.do(t, w.group.Join(w.now, Client{ID: client, Host: "/h"}, req, func(resp *kmsg.JoinGroupResponse) {
		require.Equal(t, req.Version, resp.Version)
		w.say("%s joins: %s", who, describeJoin(resp))
	}))
}

// subscription is a consumer's metadata: topics apart by a plus; what begins with an exclamation mark is no metadata.
func subscription(topics string) []byte {
	if raw, ok := strings.CutPrefix(topics, "!"); ok {
		return []byte(raw)
	}
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = strings.Split(topics, "+")
	return m.AppendTo(nil)
}

func describeJoin(resp *kmsg.JoinGroupResponse) string {
	if resp.ErrorCode != 0 {
		protocol := "null"
		if resp.Protocol != nil {
			protocol = strconv.Quote(*resp.Protocol)
		}
		return fmt.Sprintf("%s member %q generation %d protocol %s", code(resp.ErrorCode), resp.MemberID, resp.Generation, protocol)
	}
	s := fmt.Sprintf("member %s generation %d leader %s protocol %s/%s", resp.MemberID, resp.Generation, resp.LeaderID,
		*resp.ProtocolType, *resp.Protocol)
	if resp.SkipAssignment {
		s += " skip assignment"
	}
	for _, m := range resp.Members {
		s += fmt.Sprintf("\n  %s%s %x", m.MemberID, static(m.InstanceID), m.ProtocolMetadata)
	}
	return s
}

func (w *world) sync(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Version = "g", int16(num(t, d, "version", 5))
	req.MemberID, req.InstanceID, req.Generation = arg(d, "member", ""), opt(d, "instance"), num(t, d, "generation", 1)
	if req.Version >= mandatoryProtocolSince {
		req.ProtocolType, req.Protocol = kmsg.StringPtr(arg(d, "type", "consumer")), kmsg.StringPtr(arg(d, "protocol", "range"))
	}
	if d.HasArg("null-protocol") {
		req.Protocol = nil
	}
	for _, a := range list(d, "assign", "") {
		member, assignment, _ := strings.Cut(a, "=")
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: member, MemberAssignment: []byte(assignment),
		})
	}
	w.do(t, w.group.Sync(w.now, Client{}, req, func(resp *kmsg.SyncGroupResponse) {
		require.Equal(t, req.Version, resp.Version)
		require.NotNil(t, resp.MemberAssignment)
		if resp.ErrorCode != 0 {
			require.Nil(t, resp.Protocol)
			w.say("%s syncs: %s", req.MemberID, code(resp.ErrorCode))
			return
		}
		w.say("%s syncs: %q by %s/%s", req.MemberID, resp.MemberAssignment, *resp.ProtocolType, *resp.Protocol)
	}))
}

func (w *world) leave(t *testing.T, d *datadriven.TestData) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version = int16(num(t, d, "version", 5))
	req.MemberID = arg(d, "member", "")
	for _, m := range list(d, "members", "") {
		id, instance, static := strings.Cut(m, "@")
		leaver := kmsg.LeaveGroupRequestMember{MemberID: id, Reason: opt(d, "reason")}
		if static {
			leaver.InstanceID = &instance
		}
		req.Members = append(req.Members, leaver)
	}
	w.do(t, w.group.Leave(w.now, Client{}, req, func(resp *kmsg.LeaveGroupResponse) {
		w.say("leave: %s", code(resp.ErrorCode))
		for _, m := range resp.Members {
			w.say("  %s%s: %s", m.MemberID, static(m.InstanceID), code(m.ErrorCode))
		}
	}))
}

// advance moves the clock, with a call of Expire at every deadline on the way.
func (w *world) advance(t *testing.T, d time.Duration) {
	target := w.now.Add(d)
	for range 1000 {
		next := w.group.Deadline()
		if next.IsZero() || next.After(target) {
			w.now = target
			return
		}
		if next.After(w.now) {
			w.now = next
		}
		s := w.group.Expire(w.now)
		if !s.Empty() {
			w.say("at %v", w.now.Sub(epoch))
		}
		w.do(t, s)
		w.check(t)
	}
	t.Fatal("deadlines without end")
}

// do carries out a step as the shell does.
func (w *world) do(t *testing.T, s step.Step) {
	t.Helper()
	for _, write := range s.Writes {
		require.Equal(t, w.group.id, write.Group)
		require.False(t, write.Reset)
		require.Empty(t, write.Members)
		w.head = write.Head
		r, err := DecodeRecord(w.head)
		require.NoError(t, err)
		require.Equal(t, w.head, AppendRecord(nil, &r))
		w.say("write: generation %d %s leader %q %s", r.Generation, protocolName(r.ProtocolType, r.Protocol), r.Leader, members(r.Members))
	}
	for _, answer := range s.Answers {
		answer()
	}
}

// check compares the group with what the last write makes of it.
func (w *world) check(t *testing.T) {
	t.Helper()
	w.group.verify(t)
	if !w.group.Stored() || w.head == nil || w.group.State() != Stable && w.group.State() != Empty {
		return
	}
	r := w.group.Record()
	require.Equal(t, w.head, AppendRecord(nil, &r), "the group is not what was written")
	restored, err := DecodeRecord(w.head)
	require.NoError(t, err)
	g := Restore("g", Config{NewMemberID: w.cfg.NewMemberID}, w.now, restored)
	require.Equal(t, w.group.Describe(), g.Describe())
	require.Equal(t, w.group.Listed(), g.Listed())
	require.Equal(t, w.group.topics, g.topics)
	require.Equal(t, w.group.roster.votes, g.roster.votes)
	require.Equal(t, w.group.roster.instances, g.roster.instances)
	if len(restored.Members) > 0 {
		require.False(t, g.Deadline().Before(w.now.Add(w.cfg.WithDefaults().MinSession)), "sessions are not renewed")
	}
}

func (w *world) show() {
	g := w.group
	w.say("%s generation %d %s leader %q", g.State(), g.Generation(), protocolName(g.protocolType, g.protocol), g.leader)
	for _, m := range g.Describe().Members {
		w.say("  %s%s client %s%s metadata %x assignment %q", m.MemberID, static(m.InstanceID), m.ClientID, m.ClientHost,
			m.ProtocolMetadata, m.MemberAssignment)
	}
	for _, id := range sortedKeys(g.pending) {
		w.say("  %s not joined", id)
	}
}

// allowed shows what may be done with offsets.
func (w *world) allowed(d *datadriven.TestData) {
	w.say("delete: %s", code(w.group.CheckDelete()))
	w.say("delete offsets: %s", code(w.group.CheckDeleteOffsets()))
	w.say("fetch offsets: %s", code(w.group.CheckFetch()))
	since, ok := w.group.OffsetsExpire()
	switch {
	case !ok:
		w.say("offsets do not expire")
	case since.IsZero():
		w.say("offsets expire since their commit")
	default:
		w.say("offsets expire since %v", since.Sub(epoch))
	}
	for _, topic := range list(d, "topics", "") {
		w.say("subscribed to %s: %v", topic, w.group.Subscribed(topic))
	}
}

func (w *world) say(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

func protocolName(protocolType, protocol string) string {
	return fmt.Sprintf("%q/%q", protocolType, protocol)
}

func members(list []Member) string {
	names := make([]string, 0, len(list))
	for _, m := range list {
		names = append(names, fmt.Sprintf("%s%s=%s", m.ID, static(m.Instance), m.Assignment))
	}
	return fmt.Sprint(names)
}

func static(instance *string) string {
	if instance == nil {
		return ""
	}
	return "@" + *instance
}

func code(c int16) string {
	if c == 0 {
		return "ok"
	}
	return kerr.TypedErrorForCode(c).Message
}

func arg(d *datadriven.TestData, key, fallback string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return strings.Trim(a.Vals[0], `"`)
		}
	}
	return fallback
}

func opt(d *datadriven.TestData, key string) *string {
	if !d.HasArg(key) {
		return nil
	}
	return kmsg.StringPtr(arg(d, key, ""))
}

func list(d *datadriven.TestData, key, fallback string) []string {
	values := []string{fallback}
	for _, a := range d.CmdArgs {
		if a.Key == key {
			values = a.Vals
		}
	}
	values = slices.Clone(values)
	for i := range values {
		values[i] = strings.Trim(values[i], `"`)
	}
	if len(values) == 1 && (values[0] == "" || values[0] == "none") {
		return nil
	}
	return values
}

func num(t *testing.T, d *datadriven.TestData, key string, fallback int32) int32 {
	t.Helper()
	v := arg(d, key, "")
	if v == "" {
		return fallback
	}
	n, err := strconv.ParseInt(v, 10, 32)
	require.NoError(t, err)
	return int32(n)
}

func span(t *testing.T, d *datadriven.TestData, key string, fallback time.Duration) time.Duration {
	t.Helper()
	v := arg(d, key, "")
	if v == "" {
		return fallback
	}
	s, err := time.ParseDuration(v)
	require.NoError(t, err)
	return s
}

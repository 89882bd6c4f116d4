package consumer

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestScripts runs the scripts of testdata. After every step, what the writes stored is compared with the group, and
// a group is restored from it, which must store the same.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.run(t, d) })
	})
}

type world struct {
	cat    *topics
	now    time.Time
	cfg    Config
	group  *Group
	head   []byte
	values map[string][]byte
	kind   metadata.GroupKind
	made   int // member ids made
	out    strings.Builder
}

func newWorld() *world {
	w := &world{cat: newTopics(), now: time.UnixMilli(1_000_000), values: make(map[string][]byte)}
	w.cfg = Config{Migration: MigrationBidirectional, NewMemberID: func() string {
		w.made++
		return fmt.Sprintf("made-%d", w.made)
	}}
	w.group = New("g", w.cfg)
	return w
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	w.out.Reset()
	switch d.Cmd {
	case "topic":
		w.cat.set(text(d, "name"), int32(number(d, "partitions", 1)))
	case "delete-topic":
		w.cat.remove(text(d, "name"))
	case "time":
		w.now = w.now.Add(duration(t, d, "advance"))
	case "config":
		w.configure(t, d)
	case "beat":
		w.beat(t, d)
	case "expire":
		w.apply(t, w.group.Expire(w.now, w.cat))
	case "deadline":
		if at := w.group.Deadline(); !at.IsZero() {
			fmt.Fprintf(&w.out, "in %v\n", at.Sub(w.now))
		}
	case "restart":
		w.group = w.restore(t)
	case "upgrade":
		w.upgrade(t, d)
	case "join", "sync", "heartbeat", "leave":
		w.classicRequest(t, d)
	case "commit":
		w.commit(d)
	case "fetch":
		member := text(d, "member")
		w.code(w.group.CheckFetch(optional(member), int32(number(d, "epoch", -1))))
	case "subscribed":
		fmt.Fprintln(&w.out, w.group.Subscribed(text(d, "topic")))
	case "describe":
		w.describe()
	case "show":
		w.show()
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	return w.out.String()
}

func (w *world) configure(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	if d.HasArg("session") {
		w.cfg.SessionTimeout = duration(t, d, "session")
	}
	if d.HasArg("interval") {
		w.cfg.AssignmentInterval = duration(t, d, "interval")
	}
	if d.HasArg("migration") {
		w.cfg.Migration = map[string]Migration{
			"disabled": MigrationDisabled, "upgrade": MigrationUpgrade, "downgrade": MigrationDowngrade,
			"bidirectional": MigrationBidirectional,
		}[text(d, "migration")]
	}
	w.cfg.MaxSize = int(number(d, "max", w.cfg.MaxSize))
	w.cfg.ClassicMaxSize = int(number(d, "classic-max", w.cfg.ClassicMaxSize))
	require.NoError(t, w.cfg.WithDefaults().Validate())
	w.group.Configure(w.cfg)
}

// beat: member= epoch= [instance=] [topics=(..)] [regex=] [assignor=] [rack=] [rebalance=] [owned=(..)|none] [v=]. A join
// brings what it has to, unless told otherwise.
func (w *world) beat(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID = int16(number(d, "v", 1)), "g", text(d, "member")
	req.MemberEpoch = int32(number(d, "epoch", 0))
	req.InstanceID, req.RackID, req.ServerAssignor = pointer(d, "instance"), pointer(d, "rack"), pointer(d, "assignor")
	req.SubscribedTopicRegex = pointer(d, "regex")
	if d.HasArg("topics") {
		req.SubscribedTopicNames = list(d, "topics")
	}
	if req.MemberEpoch == 0 && !d.HasArg("bare") {
		req.RebalanceTimeoutMillis, req.Topics = 60_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if d.HasArg("rebalance") {
		req.RebalanceTimeoutMillis = int32(duration(t, d, "rebalance").Milliseconds())
	}
	if d.HasArg("owned") {
		req.Topics = w.owned(list(d, "owned"))
	}
	answered := 0
	s := w.group.Heartbeat(w.now, Client{ID: "c", Host: "/h"}, req, w.cat, func(resp *kmsg.ConsumerGroupHeartbeatResponse) {
		answered++
		w.showBeat(resp)
	})
	w.apply(t, s)
	require.Equal(t, 1, answered)
}

func (w *world) owned(partitions []string) reported {
	out := reported{}
	for _, s := range partitions {
		p := w.cat.partition(s)
		out = append(out, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: p.Topic, Partitions: []int32{p.Partition}})
	}
	return out
}

func (w *world) showBeat(resp *kmsg.ConsumerGroupHeartbeatResponse) {
	if resp.ErrorCode != 0 {
		fmt.Fprintf(&w.out, "%v: %s\n", kerr.TypedErrorForCode(resp.ErrorCode).Message, *resp.ErrorMessage)
		return
	}
	fmt.Fprintf(&w.out, "%s at epoch %d", *resp.MemberID, resp.MemberEpoch)
	if resp.Assignment != nil {
		var all []id.TopicPartition
		for _, topic := range resp.Assignment.Topics {
			for _, p := range topic.Partitions {
				all = append(all, id.TopicPartition{Topic: topic.TopicID, Partition: p})
			}
		}
		fmt.Fprintf(&w.out, ", to use %s", w.cat.show(all))
	}
	fmt.Fprintln(&w.out)
}

// apply stores the writes and calls the answers.
func (w *world) apply(t *testing.T, s step.Step) {
	t.Helper()
	for _, u := range s.Writes {
		require.Equal(t, "g", u.Group)
		w.kind = u.Kind
		var what []string
		if u.Reset {
			what = append(what, "reset")
			clear(w.values)
		}
		if u.Head != nil {
			what = append(what, "head")
			w.head = u.Head
		}
		for _, m := range u.Members {
			if m.Value == nil {
				what = append(what, "-"+m.ID)
				delete(w.values, m.ID)
			} else {
				what = append(what, m.ID)
				w.values[m.ID] = m.Value
			}
		}
		fmt.Fprintf(&w.out, "write: %s\n", strings.Join(what, " "))
	}
	for _, answer := range s.Answers {
		answer()
	}
	if down := w.group.Downgraded(); down != nil {
		w.showDowngrade(t, down)
		return
	}
	w.check(t)
}

// check compares what is stored with the group and with one restored from it.
func (w *world) check(t *testing.T) {
	t.Helper()
	if !w.group.Stored() {
		require.Empty(t, w.values)
		return
	}
	for _, g := range []*Group{w.group, w.restore(t)} {
		require.Equal(t, w.head, g.encodeHead())
		require.Len(t, g.members, len(w.values))
		for name, m := range g.members {
			require.Equal(t, w.values[name], encodeMember(m), name)
		}
		require.Equal(t, w.group.owners, g.owners)
		require.Equal(t, w.group.static, g.static)
		require.Equal(t, w.group.State(), g.State())
	}
	requireSound(t, w.group)
}

// requireSound: every partition that a member is answerable for is that member's alone.
func requireSound(t *testing.T, g *Group) {
	t.Helper()
	owned := 0
	for _, m := range g.members {
		for _, set := range []epochs{m.assigned, m.revoking} {
			for p := range set {
				require.Equal(t, m.id, g.owners[p], "owner of %v", p)
				owned++
			}
		}
	}
	require.Len(t, g.owners, owned)
}

func (w *world) restore(t *testing.T) *Group {
	t.Helper()
	g, err := Restore("g", w.cfg, w.now, bytes.Clone(w.head), maps.All(w.values))
	require.NoError(t, err)
	return g
}

func (w *world) show() {
	g := w.group
	fmt.Fprintf(&w.out, "%s, group epoch %d, assignment epoch %d\n", g.State(), g.epoch, g.assignmentEpoch)
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[name]
		fmt.Fprintf(&w.out, "%s: epoch %d, before %d, %s, has %s", name, m.epoch, m.previous,
			[]string{"stable", "unrevoked", "unreleased"}[m.state], w.cat.show(m.assigned.sorted()))
		if len(m.revoking) > 0 {
			fmt.Fprintf(&w.out, ", revoking %s", w.cat.show(m.revoking.sorted()))
		}
		if !slices.Equal(m.target, m.assigned.sorted()) {
			fmt.Fprintf(&w.out, ", target %s", w.cat.show(m.target))
		}
		if m.instance != "" {
			fmt.Fprintf(&w.out, ", instance %s", m.instance)
		}
		if m.classic != nil {
			fmt.Fprint(&w.out, ", classic")
		}
		fmt.Fprintln(&w.out)
	}
}

func (w *world) describe() {
	d := w.group.Describe(w.cat)
	fmt.Fprintf(&w.out, "%s %s epoch %d assignment %d assignor %s\n", d.Group, d.State, d.Epoch, d.AssignmentEpoch, d.AssignorName)
	show := func(a kmsg.Assignment) string {
		var out []string
		for _, t := range a.TopicPartitions {
			out = append(out, fmt.Sprintf("%s%v", t.Topic, t.Partitions))
		}
		return strings.Join(out, " ")
	}
	for _, m := range d.Members {
		fmt.Fprintf(&w.out, "%s type %d epoch %d client %s%s topics %v regex %q has [%s] target [%s]\n", m.MemberID, m.MemberType,
			m.MemberEpoch, m.ClientID, m.ClientHost, m.SubscribedTopics, *m.SubscribedTopicRegex, show(m.Assignment),
			show(m.TargetAssignment))
	}
}

func (w *world) commit(d *datadriven.TestData) {
	check, code := w.group.CheckCommit(Commit{
		Member: text(d, "member"), Instance: pointer(d, "instance"), Epoch: int32(number(d, "epoch", -1)),
		Version: int16(number(d, "v", 9)), Transactional: d.HasArg("transactional"),
	})
	if check != nil {
		code = check(w.cat.partition(text(d, "partition")))
		fmt.Fprint(&w.out, "by partition: ")
	}
	w.code(code)
}

func (w *world) code(code int16) {
	if code == 0 {
		fmt.Fprintln(&w.out, "ok")
		return
	}
	fmt.Fprintln(&w.out, kerr.TypedErrorForCode(code).Message)
}

func (w *world) showDowngrade(t *testing.T, down *Downgrade) {
	t.Helper()
	require.Equal(t, metadata.GroupClassic, w.kind)
	require.Empty(t, w.values)
	r, err := classic.DecodeRecord(w.head)
	require.NoError(t, err)
	require.Equal(t, len(down.Record.Members), len(r.Members))
	fmt.Fprintf(&w.out, "classic group of generation %d, protocol %s, rebalance %v: %s\n", r.Generation, r.Protocol, down.Rebalance, down.Reason)
	for _, m := range r.Members {
		a, reason := readAssignment(m.Assignment, w.cat)
		require.Empty(t, reason)
		fmt.Fprintf(&w.out, "%s has %s\n", m.ID, w.cat.show(slices.SortedFunc(maps.Keys(a), id.TopicPartition.Compare)))
	}
}

func text(d *datadriven.TestData, key string) string {
	v := list(d, key)
	if len(v) == 0 {
		return ""
	}
	return v[0]
}

func pointer(d *datadriven.TestData, key string) *string {
	if !d.HasArg(key) {
		return nil
	}
	v := text(d, key)
	return &v
}

// list gives the values of key=(a,b); none for key=none.
func list(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			if len(a.Vals) == 1 && a.Vals[0] == "none" {
				return []string{}
			}
			return append([]string{}, a.Vals...)
		}
	}
	return nil
}

func number(d *datadriven.TestData, key string, otherwise int) int64 {
	v := int64(otherwise)
	if d.HasArg(key) {
		if _, err := fmt.Sscan(text(d, key), &v); err != nil {
			panic(err)
		}
	}
	return v
}

func duration(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	t.Helper()
	v, err := time.ParseDuration(text(d, key))
	require.NoError(t, err)
	return v
}

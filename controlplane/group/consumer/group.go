package consumer

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// firstEpoch is the epoch of a group, and of its empty target, before anything happened in it.
const firstEpoch = 1

// Group is one group of the consumer protocol. It is not safe for concurrent use. The group may keep its
// arguments, so they must not change afterwards.
type Group struct {
	id  string
	cfg Config

	// Durable: the head, and the fields of members that codec.go writes.
	epoch           int32 // bumped whenever a new target is wanted
	assignmentEpoch int32 // the group epoch that the target was made for
	assignedMs      int64 // when it was made; 0 if it never was
	digest          digest
	members         map[string]*member

	// Soft, following from the members.
	bytes  int                          // of all members (member.weight)
	static map[string]string            // instance id to member id
	owners map[id.TopicPartition]string // members by the partition that they are answerable for
	regex  map[string]*expression       // every one that a member subscribes to

	// Soft, following from the catalogue.
	checked         bool // digest was compared with the catalogue at version
	version         uint64
	unresolved      bool      // a regular expression came that was not yet resolved
	resolvedAt      time.Time // when regular expressions were last resolved
	resolvedVersion uint64    // and against which catalogue

	wake time.Time // no timer is due before; may be too early

	stored    bool // the group was written or read, and its members count in the budget
	replaced  int  // charge of the classic group that the first write replaces
	reset     bool // the next write replaces the stored group of this name
	dirtyHead bool
	dirty     map[string]struct{} // members whose stored value is to be written, or deleted if they are gone

	downgrade *Downgrade
}

// New returns a group that is not stored. The first member that joins makes it exist.
func New(group string, cfg Config) *Group {
	return &Group{
		id: group, cfg: cfg.WithDefaults(), epoch: firstEpoch, assignmentEpoch: firstEpoch, digest: digestOfNothing,
		members: make(map[string]*member), static: make(map[string]string),
		owners: make(map[id.TopicPartition]string), regex: make(map[string]*expression),
		dirty: make(map[string]struct{}),
	}
}

// Configure replaces the configuration. Sessions running keep their ends.
func (g *Group) Configure(cfg Config) { g.cfg = cfg.WithDefaults() }

// Stored reports whether the group exists, on disk or in a Write that a Step gave.
func (g *Group) Stored() bool { return g.stored }

// Empty reports whether the group has no members.
func (g *Group) Empty() bool { return len(g.members) == 0 }

// Size is the number of members, static ones that are away included.
func (g *Group) Size() int { return len(g.members) }

// Epoch is the group epoch.
func (g *Group) Epoch() int32 { return g.epoch }

// State is the group's state as Kafka's APIs name it. (ConsumerGroup.maybeUpdateGroupState)
func (g *Group) State() string {
	switch {
	case len(g.members) == 0:
		return "Empty"
	case g.epoch > g.assignmentEpoch:
		return "Assigning"
	}
	for _, m := range g.members {
		if !m.reconciledTo(g.assignmentEpoch) {
			return "Reconciling"
		}
	}
	return "Stable"
}

// ProtocolType is that of all groups of the consumer protocol.
func (g *Group) ProtocolType() string { return "consumer" }

// Subscribed reports whether a member subscribes to a topic, or may do so by an expression that is not resolved yet. Its offsets do not
// expire then.
func (g *Group) Subscribed(topic string) bool {
	for _, m := range g.members {
		if _, ok := slices.BinarySearch(m.topics, topic); ok {
			return true
		}
	}
	for _, e := range g.regex {
		if _, ok := slices.BinarySearch(e.topics, topic); ok || !e.resolved {
			return true
		}
	}
	return false
}

// put adds a member to the group, in place of old. old is nil for a new member. If a static member comes back, old may have another id.
func (g *Group) put(old, m *member) {
	g.useRegex(m.regex) // first, so that one which both use stays resolved
	if old != nil {
		g.drop(old)
	}
	m.bytes = m.weight()
	g.weigh(0, m.bytes)
	g.members[m.id] = m
	if m.instance != "" {
		g.static[m.instance] = m.id
	}
	g.claim(m)
}

// drop removes a member from the group.
func (g *Group) drop(m *member) {
	delete(g.members, m.id)
	g.weigh(m.bytes, 0)
	if g.static[m.instance] == m.id {
		delete(g.static, m.instance)
	}
	g.disclaim(m)
	g.unuseRegex(m.regex)
}

// weigh replaces the bytes of a member, before, by after, in the group's sum and in the budget.
func (g *Group) weigh(before, after int) {
	g.bytes += after - before
	if g.stored {
		g.cfg.Budget.Replace(before, after)
	}
}

// enterBudget marks the group as stored and adds its members to the budget. It does nothing if the group is stored already.
func (g *Group) enterBudget() {
	if g.stored {
		return
	}
	g.stored = true
	for _, m := range g.members {
		g.cfg.Budget.Replace(0, m.bytes)
	}
}

// leaveBudget removes the members from the budget. Later changes of the group count in no budget.
func (g *Group) leaveBudget() {
	if g.stored {
		for _, m := range g.members {
			g.cfg.Budget.Replace(m.bytes, 0)
		}
	}
	g.cfg.Budget = nil
}

// checkBytes returns an error if a member makes the group larger than a command of the log, or all groups larger than their budget. A group that
// replaces a classic one is checked as a whole, because each member has its topics' names one by one beside its metadata.
func (g *Group) checkBytes(e entry) *Error {
	before, after := 0, e.next.weight()
	if e.found != nil {
		before = e.found.bytes
	}
	growth := classic.Charge(after) - classic.Charge(before)
	if !g.stored {
		growth -= g.replaced
		for _, m := range g.members {
			growth += classic.Charge(m.bytes)
		}
	}
	switch {
	case g.stored && after <= before:
		return nil
	case g.bytes+after-before > classic.MaxBytes:
		return fault(kerr.GroupMaxSizeReached, "The members of a group have at most %d bytes.", classic.MaxBytes)
	case !g.cfg.Budget.HasRoom(growth):
		return fault(kerr.CoordinatorLoadInProgress, "The members of all groups take the memory that they may have.")
	default:
		return nil
	}
}

// mark has the member's stored value written, or deleted, with the next write.
func (g *Group) mark(member string) { g.dirty[member] = struct{}{} }

// claim makes the member answerable for its partitions.
func (g *Group) claim(m *member) {
	for p := range m.assigned {
		g.owners[p] = m.id
	}
	for p := range m.revoking {
		g.owners[p] = m.id
	}
}

func (g *Group) disclaim(m *member) {
	for _, set := range []epochs{m.assigned, m.revoking} {
		for p := range set {
			if g.owners[p] == m.id {
				delete(g.owners, p)
			}
		}
	}
}

func (g *Group) bump() {
	g.epoch++
	g.dirtyHead = true
}

// flush returns a step that writes the dirty head and members, or an empty step if there are none.
func (g *Group) flush() step.Step {
	if g.downgrade != nil {
		return g.flushDowngrade()
	}
	if !g.dirtyHead && len(g.dirty) == 0 {
		return step.Step{}
	}
	w := metadata.UpdateGroup{Group: g.id, Kind: metadata.GroupConsumer, Reset: g.reset}
	if g.dirtyHead || !g.stored || g.reset {
		w.Head = g.encodeHead()
	}
	for _, name := range slices.Sorted(maps.Keys(g.dirty)) {
		m, ok := g.members[name]
		switch {
		case ok:
			w.Members = append(w.Members, metadata.GroupMember{ID: name, Value: encodeMember(m)})
		case !g.reset:
			w.Members = append(w.Members, metadata.GroupMember{ID: name})
		}
	}
	g.enterBudget()
	g.reset, g.dirtyHead = false, false
	clear(g.dirty)
	return step.Step{Writes: []metadata.UpdateGroup{w}}
}

// answer returns the step of flush, with one answer added.
func (g *Group) answer(fn func()) step.Step {
	s := g.flush()
	s.Answer(fn)
	return s
}

func (g *Group) log(message string, m *member, fields ...zap.Field) {
	g.cfg.Log.Info(message, append(fields, zap.String("group", g.id), zap.String("member", m.id),
		zap.String("instance", m.instance), zap.Int32("epoch", g.epoch))...)
}

// Unload removes the group from its budget, before the coordinator drops the group. No request waits in a group of the consumer protocol.
func (g *Group) Unload() step.Step {
	g.leaveBudget()
	return step.Step{}
}

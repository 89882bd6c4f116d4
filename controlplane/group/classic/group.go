package classic

import (
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata"
)

// Client is who a request comes from.
type Client struct {
	ID   string // client.id
	Host string // as DescribeGroups gives it; Kafka's form is a slash and the address
}

// Group is one group of the classic protocol. It is not safe for concurrent use. Slices and requests handed in are kept
// and must not change afterwards.
type Group struct {
	id       string
	cfg      Config
	state    State
	previous State // before the last transition; tells an initial rebalance from others
	stateMs  int64
	stored   bool // something was written of it, or read

	generation   int32
	protocolType string // "" for none
	protocol     string // "" for none
	leader       string // member id, "" for none

	roster  roster
	pending map[string]time.Time // member ids given out and not yet joined with (KIP-394), and when they lapse
	syncing map[string]struct{}  // members of the generation whose sync has not come

	topics      map[string]struct{} // what the members subscribe to
	topicsKnown bool

	timers timers
	recall func() // see Heartbeat; nil: no answer is repeated

	now time.Time // of the call under way
	out step.Step // of the call under way
}

// New makes a group of which nothing is stored. It comes to be by a join without member id: until then, every answer
// is that of a group that does not exist, and Stored is false.
func New(id string, cfg Config) *Group {
	return &Group{
		id: id, cfg: cfg.WithDefaults(), state: Empty, previous: Dead,
		roster: newRoster(cfg.Budget), pending: map[string]time.Time{}, syncing: map[string]struct{}{},
	}
}

// Restore makes the group that r tells of, at a new owner: stable where it has members, each with a full session
// time-out from now. The zero Record is that of a group which so far has committed offsets only. A group over MaxSize
// begins to rebalance (GroupMetadataManager.onLoaded).
func Restore(id string, cfg Config, now time.Time, r Record) *Group {
	g := New(id, cfg)
	g.now = now
	g.stored = true
	g.stateMs = r.StateMs
	g.generation, g.protocolType, g.protocol, g.leader = r.Generation, r.ProtocolType, r.Protocol, r.Leader
	for i := range r.Members {
		m := &member{Member: r.Members[i]}
		g.roster.add(m)
		g.renew(m)
	}
	if _, ok := g.roster.byID[g.leader]; !ok {
		g.leader = g.roster.first()
	}
	g.computeTopics()
	if g.roster.len() > 0 {
		g.state = Stable
	}
	if g.cfg.MaxSize > 0 && g.roster.len() > g.cfg.MaxSize {
		g.prepareRebalance("group over capacity after loading", "")
	}
	return g
}

// Stored tells whether the group exists, on disk or in a Write that a Step gave.
func (g *Group) Stored() bool { return g.stored }

// State is where the group stands.
func (g *Group) State() State { return g.state }

// Empty tells whether the group has no members.
func (g *Group) Empty() bool { return g.state == Empty }

// Generation counts the rebalances.
func (g *Group) Generation() int32 { return g.generation }

// ProtocolType is "" as long as nobody joined.
func (g *Group) ProtocolType() string { return g.protocolType }

// Size is the number of members, those that have only an id excepted.
func (g *Group) Size() int { return g.roster.len() }

// Record is what the group is now, members in the order of their joining.
func (g *Group) Record() Record {
	r := Record{
		StateMs: g.stateMs, Generation: g.generation, ProtocolType: g.protocolType,
		Protocol: g.protocol, Leader: g.leader,
	}
	for _, m := range g.roster.list {
		r.Members = append(r.Members, m.Member)
	}
	return r
}

// begin opens a call, take closes it.
func (g *Group) begin(now time.Time) { g.now = now }

func (g *Group) take() step.Step {
	out := g.out
	g.out = step.Step{}
	return out
}

// write logs the group as it is.
func (g *Group) write() { g.writeRecord(g.Record()) }

// create logs that the group exists. Who has joined it meanwhile is not for the log yet.
func (g *Group) create() {
	g.stateMs = g.now.UnixMilli()
	g.writeRecord(Record{StateMs: g.stateMs})
}

func (g *Group) writeRecord(r Record) {
	g.stored = true
	g.out.Writes = append(g.out.Writes, metadata.UpdateGroup{
		Group: g.id, Kind: metadata.GroupClassic, Head: AppendRecord(nil, &r),
	})
}

func (g *Group) transition(to State) {
	g.recallHeartbeats()
	g.previous, g.state = g.state, to
	g.stateMs = g.now.UnixMilli()
}

// validate is ClassicGroup.validateMember: whether the member exists and is not fenced by a later one of its instance.
func (g *Group) validate(id string, instance *string) int16 {
	if instance != nil {
		switch existing, ok := g.roster.instances[*instance]; {
		case !ok:
			return codeUnknownMember
		case existing != id:
			return codeFencedInstance
		}
	}
	if _, ok := g.roster.byID[id]; !ok {
		return codeUnknownMember
	}
	return 0
}

// remove takes out a member or an id given out, and answers what a member that goes has parked.
func (g *Group) remove(id string) {
	delete(g.pending, id)
	delete(g.syncing, id)
	m, ok := g.roster.byID[id]
	if !ok {
		return
	}
	g.recallHeartbeats()
	g.answerJoin(m, joinError("", codeUnknownMember))
	g.answerSync(m, syncError(codeUnknownMember))
	g.roster.remove(m)
	if g.leader == id {
		g.leader = g.roster.first()
	}
}

// rebalanceTimeout is the longest of the members.
func (g *Group) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range g.roster.list {
		longest = max(longest, m.RebalanceTimeout)
	}
	return longest
}

func (g *Group) log(message, reason string, fields ...zap.Field) {
	g.cfg.Log.Info(message, append(fields, zap.String("group", g.id), zap.Int32("generation", g.generation),
		zap.Stringer("state", g.state), zap.String("client_reason", reason[:min(len(reason), maxLoggedReason)]))...)
}

// Unload answers all that is parked, NOT_COORDINATOR, and leaves the group dead: for one whose owner changed, or that
// is to be loaded again because a write failed.
func (g *Group) Unload() step.Step { return g.Release(codeNotCoordinator) }

// Release is Unload with another error code: REBALANCE_IN_PROGRESS makes the members join the consumer group that the
// group is converted to.
func (g *Group) Release(code int16) step.Step {
	g.recallHeartbeats()
	for _, m := range g.roster.list {
		g.answerJoin(m, joinError(m.ID, code))
		g.answerSync(m, syncError(code))
	}
	g.previous, g.state = g.state, Dead
	g.timers = timers{}
	g.pending = map[string]time.Time{}
	g.roster.leaveBudget()
	return g.take()
}

// roster is the members, in the order of their joining and by name.
type roster struct {
	list      []*member
	byID      map[string]*member
	instances map[string]string // of static members: instance id to member id
	votes     map[string]int    // how many members know a protocol
	joining   int               // members with a parked join
	bytes     int               // of all members (Member.Weight)
	budget    *Budget           // nil for none
}

func newRoster(b *Budget) roster {
	return roster{budget: b, byID: map[string]*member{}, instances: map[string]string{}, votes: map[string]int{}}
}

func (r *roster) len() int { return len(r.list) }

// first is the id of the member that has been there longest, "" if there is none.
func (r *roster) first() string {
	if len(r.list) == 0 {
		return ""
	}
	return r.list[0].ID
}

func (r *roster) add(m *member) {
	r.list = append(r.list, m)
	r.byID[m.ID] = m
	if m.Instance != nil {
		r.instances[*m.Instance] = m.ID
	}
	r.count(m.Protocols, 1)
	r.weigh(m)
}

func (r *roster) remove(m *member) {
	r.list = slices.DeleteFunc(r.list, func(other *member) bool { return other == m })
	delete(r.byID, m.ID)
	if m.Instance != nil {
		delete(r.instances, *m.Instance)
	}
	r.count(m.Protocols, -1)
	r.bytes -= m.bytes
	r.budget.add(-Charge(m.bytes))
	m.bytes = 0
}

// rename gives a member another id in the same place of the order.
func (r *roster) rename(m *member, id string) {
	delete(r.byID, m.ID)
	m.ID = id
	r.byID[id] = m
	r.instances[*m.Instance] = id
	r.weigh(m)
}

// count adds by to what the protocols are known, each once.
func (r *roster) count(protocols []Protocol, by int) {
	for i, p := range protocols {
		if slices.ContainsFunc(protocols[:i], func(q Protocol) bool { return q.Name == p.Name }) {
			continue
		}
		if r.votes[p.Name] += by; r.votes[p.Name] == 0 {
			delete(r.votes, p.Name)
		}
	}
}

// weigh counts a member anew, after a change.
func (r *roster) weigh(m *member) {
	bytes := m.Weight()
	r.bytes += bytes - m.bytes
	r.budget.add(Charge(bytes) - Charge(m.bytes))
	m.bytes = bytes
}

// leaveBudget takes the roster out of its budget.
func (r *roster) leaveBudget() {
	for _, m := range r.list {
		r.budget.add(-Charge(m.bytes))
	}
	r.budget = nil
}

func (r *roster) allJoining() bool { return r.joining == len(r.list) }

// sortedIDs is for logs and tests.
func sortedIDs(m map[string]struct{}) []string { return slices.Sorted(maps.Keys(m)) }

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

// Downgrade is a consumer group that became a classic one of its classic members. The step of the downgrade writes the record. The group
// must not be called any more.
type Downgrade struct {
	Record    classic.Record
	Rebalance bool // the members must rejoin, because their assignment is outdated
	Reason    string
}

// Downgraded returns the downgrade of the last call, or nil if the group still is a consumer group.
func (g *Group) Downgraded() *Downgrade { return g.downgrade }

// downgradesWithout reports whether the group becomes a classic one once these members are gone.
// (GroupMetadataManager.validateOnlineDowngradeWithFencedMembers)
func (g *Group) downgradesWithout(gone []*member) bool {
	left := len(g.members) - len(gone)
	if left <= 0 || !g.cfg.Migration.downgrades() || g.cfg.ClassicMaxSize > 0 && left > g.cfg.ClassicMaxSize {
		return false
	}
	for _, m := range g.members {
		if m.classic == nil && !slices.Contains(gone, m) {
			return false
		}
	}
	return true
}

// downgradesWithReplaced reports whether the group becomes a classic one once a classic member replaces this
// static one. (GroupMetadataManager.validateOnlineDowngradeWithReplacedMember)
func (g *Group) downgradesWithReplaced(replaced *member) bool {
	if replaced.classic != nil || !g.cfg.Migration.downgrades() ||
		g.cfg.ClassicMaxSize > 0 && len(g.members) > g.cfg.ClassicMaxSize {
		return false
	}
	for _, m := range g.members {
		if m.classic == nil && m != replaced {
			return false
		}
	}
	return true
}

// convertToClassic converts the group to a classic one. The target of each member becomes its assignment.
// (GroupMetadataManager.convertToClassicGroup, ClassicGroup.fromConsumerGroup)
func (g *Group) convertToClassic(now time.Time, cat Catalogue, rebalance bool, reason string) {
	r := classic.Record{
		StateMs: now.UnixMilli(), Generation: g.epoch, ProtocolType: classicProtocolType, Protocol: g.classicProtocol(),
	}
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[name]
		c := classic.Member{
			ID: m.id, ClientID: m.clientID, ClientHost: m.clientHost, RebalanceTimeout: m.rebalanceTimeout(),
			SessionTimeout: m.classicSession(), Protocols: m.classic.protocols,
		}
		if m.instance != "" {
			c.Instance = &m.instance
		}
		chosen, _ := c.Metadata(r.Protocol)
		c.Assignment = encodeAssignment(m.target, chosen, cat)
		r.Members = append(r.Members, c)
	}
	r.Leader = r.Members[0].ID
	g.downgrade = &Downgrade{Record: r, Rebalance: rebalance, Reason: reason}
	g.cfg.Log.Info("consumer group became a classic group", zap.String("group", g.id), zap.String("reason", reason))
}

// classicProtocol is the one that most members vote for: each for the first of its own that all know.
func (g *Group) classicProtocol() string {
	votes := make(map[string]int)
	for _, m := range g.members {
		for _, p := range m.classic.protocols {
			if g.allClassicKnow(p.Name) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(votes)) {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

func (g *Group) flushDowngrade() step.Step {
	g.leaveBudget()
	return step.Step{Writes: []metadata.UpdateGroup{{
		Group: g.id, Kind: metadata.GroupClassic, Reset: true, Head: classic.AppendRecord(nil, &g.downgrade.Record),
	}}}
}

// FromClassic makes a consumer group of a classic one of consumers, in place of which it is stored by its first write:
// all members are stable at the generation's epoch, with what they were assigned. It is for the heartbeat of a first
// member of the consumer protocol (epoch 0); if that brings about no write, the classic group stays what it was. Errors
// are GROUP_ID_NOT_FOUND with the reason that forbids the upgrade.
// (GroupMetadataManager.validateOnlineUpgrade, convertToConsumerGroup)
func FromClassic(group string, cfg Config, now time.Time, r *classic.Record, cat Catalogue) (*Group, error) {
	g := New(group, cfg)
	refuse := func(reason string) (*Group, error) {
		return nil, fault(kerr.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because %s.", group, reason)
	}
	switch {
	case !g.cfg.Migration.upgrades():
		return refuse("online upgrade is disabled")
	case r.ProtocolType != classicProtocolType:
		return refuse("the group does not use the consumer embedded protocol")
	case g.cfg.MaxSize > 0 && len(r.Members) > g.cfg.MaxSize:
		return refuse("the group size exceeds the consumer group maximum size")
	}
	g.epoch, g.assignmentEpoch = r.Generation, r.Generation
	g.reset, g.dirtyHead = true, true
	for i := range r.Members {
		m, reason := g.fromClassicMember(&r.Members[i], r, cat)
		if reason != "" {
			return refuse(reason)
		}
		g.put(nil, m)
		g.replaced += classic.Charge(r.Members[i].Weight())
		g.mark(m.id)
		m.timers.session = now.Add(m.classicSession())
		g.arm(m)
	}
	g.review(cat)
	return g, nil
}

func (g *Group) fromClassicMember(c *classic.Member, r *classic.Record, cat Catalogue) (*member, string) {
	owned, reason := readAssignment(c.Assignment, cat)
	if reason != "" {
		return nil, reason
	}
	chosen, ok := c.Metadata(r.Protocol)
	if !ok && len(c.Protocols) > 0 {
		chosen = c.Protocols[0].Metadata
	}
	s, ok := readSubscription(chosen)
	if !ok {
		return nil, "the embedded consumer protocol is malformed"
	}
	m := newMember(c.ID)
	m.epoch, m.previous = r.Generation, r.Generation
	m.clientID, m.clientHost, m.topics = c.ClientID, c.ClientHost, nameSet(s.Topics)
	m.rebalanceMs = int32(c.RebalanceTimeout.Milliseconds())
	m.classic = &classicMember{sessionMs: int32(c.SessionTimeout.Milliseconds()), protocols: c.Protocols}
	if c.Instance != nil {
		m.instance = *c.Instance
	}
	if s.Rack != nil {
		m.rack = *s.Rack
	}
	m.assigned = make(epochs, len(owned))
	for p := range owned {
		if _, taken := g.owners[p]; !taken {
			m.assigned[p] = r.Generation
		}
	}
	m.target = slices.SortedFunc(maps.Keys(m.assigned), id.TopicPartition.Compare)
	return m, ""
}

package consumer

import (
	"maps"
	"slices"
	"time"

	"github.com/freshet-io/freshet/metadata/id"
)

// reconcile takes a member a step towards its target, as far as what it owns and what others own allow:
//
//	                 gives up partitions that leave it, still at its epoch
//	          ┌────────────────────── unrevoked ◀───────────────┐
//	          │ reports none of them any more                   │ target without some of its partitions
//	          ▼                                                 │
//	at the epoch of the target, with what of it is free ──── stable, unreleased
//
// A partition enters assigned only when no other member owns it; it leaves the member only after the member reported,
// from its unrevoked state, that it has it no more. So no two members own one at the same time. With resubscribed,
// topics that the member no longer subscribes to are taken from it even if the target did not change.
// (GroupMetadataManager.maybeReconcile, CurrentAssignmentBuilder)
func (g *Group) reconcile(now time.Time, cat Catalogue, m *member, owned reported, resubscribed bool) {
	if !resubscribed && m.reconciledTo(g.assignmentEpoch) {
		return
	}
	before := *m
	switch {
	case m.state == stable && m.epoch != g.assignmentEpoch, m.state == unreleased,
		m.state == unrevoked && !owned.touches(m.revoking):
		g.approach(m, cat, owned)
	case resubscribed:
		g.strip(m, cat, owned)
	}
	if sameAssignment(&before, m) {
		return
	}
	g.disclaim(&before)
	g.claim(m)
	g.mark(m.id)
	m.timers.rebalance = time.Time{}
	if m.state == unrevoked && m.classic == nil {
		m.timers.rebalance, m.timers.atEpoch = now.Add(m.rebalanceTimeout()), m.epoch
	}
}

// approach is CurrentAssignmentBuilder.computeNextAssignment.
func (g *Group) approach(m *member, cat Catalogue, owned reported) {
	keep, revoke := make(epochs), make(epochs)
	wanted := func(p id.TopicPartition) bool {
		_, ok := slices.BinarySearchFunc(m.target, p, id.TopicPartition.Compare)
		return ok
	}
	subscribes := g.subscriptionCheck(m, cat)
	for p, epoch := range m.assigned {
		if wanted(p) && subscribes(p.Topic) {
			keep[p] = epoch
		} else {
			revoke[p] = epoch
		}
	}
	if len(revoke) > 0 && owned.touches(revoke) {
		m.state, m.assigned, m.revoking = unrevoked, keep, revoke
		m.move(m.epoch)
		return
	}
	m.state = stable
	for _, p := range m.target {
		if _, has := keep[p]; has || !subscribes(p.Topic) {
			continue
		}
		if owner, taken := g.owners[p]; taken && owner != m.id {
			m.state = unreleased
		} else {
			keep[p] = g.assignmentEpoch
		}
	}
	m.assigned, m.revoking = keep, nil
	m.move(g.assignmentEpoch)
}

// strip is CurrentAssignmentBuilder.updateCurrentAssignment: it takes from the member what it no longer subscribes to.
func (g *Group) strip(m *member, cat Catalogue, owned reported) {
	subscribes := g.subscriptionCheck(m, cat)
	keep, revoke := make(epochs, len(m.assigned)), make(epochs)
	maps.Copy(revoke, m.revoking)
	for p, epoch := range m.assigned {
		if subscribes(p.Topic) {
			keep[p] = epoch
		} else {
			revoke[p] = epoch
		}
	}
	if len(keep) == len(m.assigned) {
		return
	}
	m.assigned = keep
	if owned.touches(revoke) {
		m.state, m.revoking = unrevoked, revoke
	}
	m.move(m.epoch)
}

// subscriptionCheck is subscribes with the answers kept.
func (g *Group) subscriptionCheck(m *member, cat Catalogue) func(id.Topic) bool {
	known := make(map[id.Topic]bool)
	return func(t id.Topic) bool {
		answer, ok := known[t]
		if !ok {
			answer = g.subscribes(m, t, cat)
			known[t] = answer
		}
		return answer
	}
}

package classic

import "go.uber.org/zap"

// replaceStatic gives the place of a static member to one of the same instance that joins without a member id
// (updateStaticMemberThenRebalanceOrCompleteJoin). The old id is fenced from now on. In a stable group whose chosen
// protocol stays, nothing else changes and nobody rebalances.
func (g *Group) replaceStatic(r *joinRequest, m *member, id string) {
	old, oldLeader := m.ID, g.leader
	g.recallHeartbeats()
	g.answerJoin(m, fencedJoin(old, codeFencedInstance))
	g.answerSync(m, syncError(codeFencedInstance))
	g.roster.rename(m, id)
	if g.leader == old {
		g.leader = id
	}
	if _, ok := g.syncing[old]; ok { // Kafka keeps the old id here, and rebalances when its sync does not come
		delete(g.syncing, old)
		g.syncing[id] = struct{}{}
	}
	m.fresh = false
	g.renew(m)
	g.update(r, m)
	fields := []zap.Field{zap.String("member", id), zap.String("old_member", old), zap.Stringp("instance", r.InstanceID)}
	switch {
	case g.state == Stable && g.selectProtocol() == g.protocol:
		g.log("static member replaced", r.reason(), fields...)
		g.computeTopics() // as the next owner will; Kafka has the former self's until then
		g.answerReplaced(r, m, oldLeader)
		g.write()
	case g.state == Stable:
		g.rebalanceOrComplete("static member replaced and the protocol changes", r.reason(), fields...)
	case g.state == CompletingRebalance:
		// The leader may know the old id already, and would assign to it.
		g.prepareRebalance("static member replaced", r.reason(), fields...)
	default:
		g.completeIfJoined()
	}
}

// answerReplaced tells a static member of the generation that goes on. A leader is told so only if its version lets it
// skip the assignment (KIP-814); with older ones it is made to believe that its old id leads, and so takes what it is
// given.
func (g *Group) answerReplaced(r *joinRequest, m *member, oldLeader string) {
	if r.Version >= skipsAssignmentSince {
		leads := g.leader == m.ID
		g.answerJoin(m, g.generationAnswer(m, leads, leads))
		return
	}
	resp := g.generationAnswer(m, false, false)
	resp.LeaderID = oldLeader
	g.answerJoin(m, resp)
}

package classic

import "go.uber.org/zap"

// rebalanceOrComplete is maybePrepareRebalanceOrCompleteJoin.
func (g *Group) rebalanceOrComplete(why, reason string, fields ...zap.Field) {
	if g.state == PreparingRebalance {
		g.completeIfJoined()
		return
	}
	g.prepareRebalance(why, reason, fields...)
}

// prepareRebalance asks all members to join anew. A group that was empty gives others time to come, see
// endInitialDelay.
func (g *Group) prepareRebalance(why, reason string, fields ...zap.Field) {
	if g.state == CompletingRebalance {
		for _, m := range g.roster.list {
			m.Assignment = nil
			g.roster.weigh(m)
			if g.answerSync(m, syncError(codeRebalanceInProgress)) {
				g.renew(m)
			}
		}
	}
	g.endSyncs()
	initial := g.state == Empty
	g.transition(PreparingRebalance)
	g.log("group rebalances", reason, append(fields, zap.String("why", why))...)
	switch {
	case initial:
		g.startInitialDelay()
	case g.allJoined():
		g.completeJoin()
	default:
		g.joinUntil(g.rebalanceTimeout())
	}
}

// completeIfJoined is maybeCompleteJoinPhase: an initial rebalance waits for its delay even if all are there.
func (g *Group) completeIfJoined() {
	if g.state == PreparingRebalance && g.previous != Empty && g.allJoined() {
		g.completeJoin()
	}
}

func (g *Group) allJoined() bool { return g.roster.allJoining() && len(g.pending) == 0 }

// completeJoin is completeClassicGroupJoin: dynamic members that did not come are out, static ones stay. If nobody
// came, sessions have to end first.
func (g *Group) completeJoin() {
	g.timers.join = joinTimer{}
	g.dropAbsent()
	if !g.electLeader() && g.roster.len() > 0 {
		g.log("group cannot rebalance because no member rejoined", "")
		g.joinUntil(max(g.rebalanceTimeout(), MinRejoinWait))
		return
	}
	g.generation++
	g.endSyncs()
	if g.roster.len() == 0 {
		g.protocol = ""
		g.computeTopics()
		g.transition(Empty)
		g.log("group is empty", "")
		g.write()
		return
	}
	g.protocol = g.selectProtocol()
	g.computeTopics()
	g.transition(CompletingRebalance)
	g.log("group joined", "", zap.Int("members", g.roster.len()), zap.String("leader", g.leader),
		zap.String("protocol", g.protocol))
	g.answerJoins()
}

func (g *Group) dropAbsent() {
	var absent []string
	for _, m := range g.roster.list {
		if m.join == nil && m.Instance == nil {
			absent = append(absent, m.ID)
		}
	}
	for _, id := range absent {
		g.remove(id)
	}
	if len(absent) > 0 {
		g.log("members did not rejoin", "", zap.Strings("members", absent))
	}
}

// electLeader is maybeElectNewJoinedLeader: a leader that is here stays; else the longest member of those that are.
// False if none is.
func (g *Group) electLeader() bool {
	if g.leader == "" {
		return false
	}
	if g.roster.byID[g.leader].join != nil {
		return true
	}
	for _, m := range g.roster.list {
		if m.join != nil {
			g.leader = m.ID
			return true
		}
	}
	return false
}

// answerJoins lets everybody into the new generation. Static members that did not come are of it too, and have as long
// as the others to sync.
func (g *Group) answerJoins() {
	for _, m := range g.roster.list {
		if m.join != nil {
			g.answerJoin(m, g.generationAnswer(m, g.leader == m.ID, false))
		}
		g.renew(m)
		m.fresh = false
		g.syncing[m.ID] = struct{}{}
	}
	g.timers.sync = g.now.Add(g.rebalanceTimeout())
	g.arm(g.timers.sync)
}

// endSyncs forgets who is to sync, and the time-out of it.
func (g *Group) endSyncs() {
	clear(g.syncing)
	g.timers.sync = zeroTime
}

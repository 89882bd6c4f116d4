package classic

import "time"

// CheckCommit tells whether a member may commit offsets (ClassicGroup.validateOffsetCommit): 0 or Kafka's error code.
// A commit of a member counts as a heartbeat where it does in Kafka. Member "" with generation -1 is a client without
// group membership, which may commit only while the group has no members. For groups that do not exist the answer
// depends on the API; that is the caller's.
func (g *Group) CheckCommit(now time.Time, member string, instance *string, generation int32) int16 {
	g.begin(now)
	if code := g.checkCommit(member, instance, generation, false); code != 0 {
		return code
	}
	if m, ok := g.roster.byID[member]; ok && (g.state == Stable || g.state == PreparingRebalance) {
		g.renew(m)
	}
	return 0
}

// CheckTxnCommit is CheckCommit for commits in a transaction. Those of clients that name no member are taken in every
// state, as old clients do not (KIP-447), and rebalances do not stop them. They are no heartbeats.
func (g *Group) CheckTxnCommit(member string, instance *string, generation int32) int16 {
	return g.checkCommit(member, instance, generation, true)
}

func (g *Group) checkCommit(member string, instance *string, generation int32, txn bool) int16 {
	switch {
	case g.state == Dead:
		return codeCoordinatorGone
	case generation < 0 && g.state == Empty:
		return 0
	case generation >= 0 || member != "" || instance != nil:
		if code := g.validate(member, instance); code != 0 {
			return code
		}
		if generation != g.generation {
			return codeIllegalGeneration
		}
	case !txn:
		return codeUnknownMember
	}
	if !txn && g.state == CompletingRebalance {
		return codeRebalanceInProgress
	}
	return 0
}

// CheckFetch tells whether offsets may be fetched (validateOffsetFetch): 0 or Kafka's error code.
func (g *Group) CheckFetch() int16 {
	if g.state == Dead {
		return codeGroupNotFound
	}
	return 0
}

// CheckDelete tells whether the group may be deleted (validateDeleteGroup): 0 or Kafka's error code.
func (g *Group) CheckDelete() int16 {
	switch g.state {
	case Dead:
		return codeGroupNotFound
	case Empty:
		return 0
	default:
		return codeNonEmptyGroup
	}
}

// CheckDeleteOffsets tells whether offsets may be deleted at all (validateOffsetDelete): 0 or Kafka's error code. Those of
// topics that members are Subscribed to may not.
func (g *Group) CheckDeleteOffsets() int16 {
	if g.protocolType == consumerProtocolType && g.state != Dead {
		return 0
	}
	return g.CheckDelete()
}

// OffsetsExpire tells whether the group's offsets may expire now, those of topics it is Subscribed to excepted, and
// since when their retention runs: since the time given, or since each offset's commit if it is zero
// (ClassicGroup.offsetExpirationCondition).
func (g *Group) OffsetsExpire() (since time.Time, ok bool) {
	switch {
	case g.protocolType == "":
		return time.Time{}, true
	case g.state == Empty:
		return time.UnixMilli(g.stateMs), true
	case g.state == Stable && g.protocolType == consumerProtocolType && g.topicsKnown:
		return time.Time{}, true
	default:
		return time.Time{}, false
	}
}

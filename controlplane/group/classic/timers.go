package classic

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

var zeroTime time.Time

// timers are what a group waits for, sessions and ids given out excepted: those are with the members.
type timers struct {
	join         joinTimer
	joinExtended bool      // a member joined during the initial delay
	sync         time.Time // when members that have not synced are out; zero if none is awaited
	next         time.Time // no timer is due before it; zero if there is none
}

// joinTimer ends the join phase.
type joinTimer struct {
	due       time.Time
	initial   bool // it is the delay of an initial rebalance, which new members extend
	delay     time.Duration
	remaining time.Duration // what of the rebalance time-out the delay may still take
}

// arm sees to it that Deadline is not after due.
func (g *Group) arm(due time.Time) {
	if g.timers.next.IsZero() || due.Before(g.timers.next) {
		g.timers.next = due
	}
}

// renew starts a member's session anew.
func (g *Group) renew(m *member) { g.expireAfter(m, m.SessionTimeout) }

func (g *Group) expireAfter(m *member, d time.Duration) {
	from := g.now
	if g.recall != nil && m.repeatedUntil.After(from) {
		from = m.repeatedUntil
	}
	m.expires = from.Add(d)
	g.arm(m.expires)
}

func (g *Group) joinUntil(d time.Duration) {
	g.timers.join = joinTimer{due: g.now.Add(d)}
	g.arm(g.timers.join.due)
}

// startInitialDelay gives the members of an empty group time to come before the first generation
// (group.initial.rebalance.delay.ms).
func (g *Group) startInitialDelay() {
	g.timers.joinExtended = false
	g.delayJoin(g.cfg.InitialDelay, max(g.rebalanceTimeout()-g.cfg.InitialDelay, 0))
}

func (g *Group) delayJoin(delay, remaining time.Duration) {
	g.timers.join = joinTimer{due: g.now.Add(delay), initial: true, delay: delay, remaining: remaining}
	g.arm(g.timers.join.due)
}

// Deadline is when Expire is to be called; zero if nothing waits for time. It may be too early, so that a heartbeat costs
// nothing here: Expire then does nothing and moves it.
func (g *Group) Deadline() time.Time { return g.timers.next }

// timer is one that is due. The kinds fire in this order at the same time.
type timer struct {
	due  time.Time
	kind timerKind
	id   string // member
}

type timerKind uint8

const (
	timerPending timerKind = iota
	timerSession
	timerJoin
	timerSync
)

// Expire does what is due at now.
func (g *Group) Expire(now time.Time) step.Step {
	g.begin(now)
	if g.state == Dead || g.timers.next.IsZero() || now.Before(g.timers.next) {
		return g.take()
	}
	for _, t := range g.due() {
		g.fire(t)
	}
	g.timers.next = g.earliest()
	return g.take()
}

func (g *Group) due() []timer {
	var due []timer
	for t := range g.each {
		if !t.due.After(g.now) {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(a, b timer) int {
		if c := a.due.Compare(b.due); c != 0 {
			return c
		}
		if a.kind != b.kind {
			return int(a.kind) - int(b.kind)
		}
		if a.kind == timerPending && a.id < b.id { // sessions are in the order of joining
			return -1
		}
		return 0
	})
	return due
}

func (g *Group) earliest() time.Time {
	var first time.Time
	for t := range g.each {
		if first.IsZero() || t.due.Before(first) {
			first = t.due
		}
	}
	return first
}

// each gives all timers that run.
func (g *Group) each(yield func(timer) bool) {
	for id, due := range g.pending {
		if !yield(timer{due, timerPending, id}) {
			return
		}
	}
	for _, m := range g.roster.list {
		if !m.expires.IsZero() && !yield(timer{m.expires, timerSession, m.ID}) {
			return
		}
	}
	if due := g.timers.join.due; !due.IsZero() && !yield(timer{due, timerJoin, ""}) {
		return
	}
	if due := g.timers.sync; !due.IsZero() && !yield(timer{due, timerSync, ""}) {
		return
	}
}

// fire does what a timer is for, unless one that fired before it has moved it.
func (g *Group) fire(t timer) {
	switch t.kind {
	case timerPending:
		if due, ok := g.pending[t.id]; ok && due.Equal(t.due) {
			g.expirePending(t.id)
		}
	case timerSession:
		if m, ok := g.roster.byID[t.id]; ok && m.expires.Equal(t.due) {
			g.expireSession(m)
		}
	case timerJoin:
		if g.timers.join.due.Equal(t.due) {
			g.expireJoin()
		}
	case timerSync:
		if g.timers.sync.Equal(t.due) {
			g.expireSyncs()
		}
	}
}

func (g *Group) expirePending(id string) {
	delete(g.pending, id)
	g.completeDirectly()
}

// expireSession is expireClassicGroupMemberHeartbeat. A member that is owed an answer stays; its session begins anew
// with the answer.
func (g *Group) expireSession(m *member) {
	m.expires = zeroTime
	if m.waits() {
		return
	}
	g.log("member lost: session timed out", "", zap.String("member", m.ID))
	g.remove(m.ID)
	if g.state == PreparingRebalance {
		g.completeDirectly()
		return
	}
	g.prepareRebalance("member lost", "")
}

// completeDirectly ends the join phase if the one that went was the last awaited, an initial one too.
func (g *Group) completeDirectly() {
	if g.state == PreparingRebalance && g.allJoined() {
		g.completeJoin()
	}
}

// expireJoin is tryCompleteInitialRebalanceElseSchedule and the end of the rebalance time-out: each extension of the
// initial delay needs a member that joined during it, and all of them together end with the rebalance time-out.
func (g *Group) expireJoin() {
	t := g.timers.join
	if !t.initial || !g.timers.joinExtended || t.remaining == 0 {
		g.completeJoin()
		return
	}
	g.timers.joinExtended = false
	g.delayJoin(min(g.cfg.InitialDelay, t.remaining), max(t.remaining-t.delay, 0))
}

// expireSyncs is expirePendingSync: members that joined the generation and did not ask for their assignment are out.
func (g *Group) expireSyncs() {
	g.timers.sync = zeroTime
	late := sortedIDs(g.syncing)
	if len(late) == 0 {
		return
	}
	for _, id := range late {
		g.remove(id)
	}
	g.prepareRebalance("members did not sync", "", zap.Strings("members", late))
}

package group

import (
	"errors"
	"time"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// pause is the time during which a group takes no new members, because a write was refused for lack of room. The write comes at the end of a rebalance.
// Without the pause, a consumer that cannot get in would make the group rebalance at each of its attempts. After the pause, the group takes an attempt:
// only the write shows whether there is room, since the consumer may take the place of one that is gone.
//
// Writes that the owner accepts do not end a pause: after a refusal, the members that stay form a generation of their own, which needs no room.
type pause struct {
	until  time.Time
	length time.Duration
	why    error // of the last refusal
}

// A pause lasts firstPause. If the pause before ended less than longestPause ago, it lasts twice as long as that one. So a consumer that keeps trying
// is let in within longestPause after there is room.
const (
	firstPause   = 5 * time.Second
	longestPause = time.Minute
)

// isNoRoom reports whether an error is the refusal of a write for lack of room in the state or the log.
func isNoRoom(err error) bool { return isLimit(err) || errors.Is(err, metalog.ErrLogFull) }

// begin begins a pause after a refusal. A refusal during a pause does not prolong it: the write was of members that stay.
func (p *pause) begin(now time.Time, why error) {
	if now.Before(p.until) {
		return
	}
	if now.Sub(p.until) < longestPause {
		p.length = min(2*p.length, longestPause)
	} else {
		p.length = firstPause
	}
	p.until, p.why = now.Add(p.length), why
}

// refuseNew returns the refusal of a join during a pause, or false if there is no pause or the member is in the group.
func (g *group) refuseNew(c *call, now time.Time, member string, instance *string) (step.Step, bool) {
	if !now.Before(g.pause.until) || g.classic != nil && g.classic.Has(member, instance) || g.consumer != nil && g.consumer.Has(member, instance) {
		return step.Step{}, false
	}
	c.countRefusal(groupLimited.Code, g.name)
	return c.say(limited(c.in, g.pause.why)), true
}

package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// Heartbeat is Heartbeat v0-4: it starts the member's session anew and tells it of a rebalance.
//
// While the group is stable, Heartbeat calls repeat, which may let an agent repeat the answer for a time. Then repeat returns recall, and the
// member's session lasts longer by that time. Once the answer may differ, a Step has recall among its Answers. repeat returns nil if it allows no
// repetition. One call of recall ends all repetitions, so the group keeps only the newest recall.
func (g *Group) Heartbeat(
	now time.Time, req *kmsg.HeartbeatRequest, repeat func(time.Duration) (recall func()), reply func(*kmsg.HeartbeatResponse),
) step.Step {
	g.begin(now)
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version, resp.ErrorCode = req.Version, g.heartbeat(req)
	if resp.ErrorCode == 0 && g.state == Stable {
		g.allowRepeat(g.roster.byID[req.MemberID], repeat)
	}
	g.out.Answer(func() { reply(resp) })
	return g.take()
}

func (g *Group) heartbeat(req *kmsg.HeartbeatRequest) int16 {
	switch {
	case g.id == "":
		return codeInvalidGroup
	case g.state == Dead:
		return codeCoordinatorGone
	}
	if code := g.validate(req.MemberID, req.InstanceID); code != 0 {
		return code
	}
	if req.Generation != g.generation {
		return codeIllegalGeneration
	}
	g.renew(g.roster.byID[req.MemberID])
	if g.state == PreparingRebalance {
		return codeRebalanceInProgress
	}
	return 0
}

// Bounds of the time for which an answer to a heartbeat is repeated. The session of a member that dies ends later by this time. Below minRepeat,
// repetition would save no heartbeat.
const (
	maxRepeat = 10 * time.Second
	minRepeat = 3 * time.Second // Kafka's default heartbeat.interval.ms
)

// allowRepeat lets the answer to a heartbeat be repeated for a third of the session time-out, within the bounds.
func (g *Group) allowRepeat(m *member, repeat func(time.Duration) (recall func())) {
	d := min(maxRepeat, m.SessionTimeout/3)
	if d < minRepeat {
		return
	}
	if recall := repeat(d); recall != nil {
		g.recall, m.repeatedUntil = recall, g.now.Add(d)
		g.renew(m)
	}
}

// recallHeartbeats ends all repetitions of answers to heartbeats, with the other answers of the Step under way.
func (g *Group) recallHeartbeats() {
	if g.recall != nil {
		g.out.Answer(g.recall)
		g.recall = nil
	}
}

package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// Heartbeat is Heartbeat v0-4: it starts the member's session anew and tells it of a rebalance.
func (g *Group) Heartbeat(now time.Time, _ Client, req *kmsg.HeartbeatRequest, reply func(*kmsg.HeartbeatResponse)) step.Step {
	g.begin(now)
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version, resp.ErrorCode = req.Version, g.heartbeat(req)
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

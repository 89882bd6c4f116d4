package classic

import (
	"time"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// Rebalance has the members of a stable group join anew: after Restore, of a group that was one of the consumer protocol
// and whose assignment is out of date (GroupMetadataManager.convertToClassicGroup). reason is logged.
func (g *Group) Rebalance(now time.Time, reason string) step.Step {
	g.begin(now)
	if g.state == Stable {
		g.prepareRebalance("was a consumer group", reason)
	}
	return g.take()
}

package session

import (
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
)

// compareBucket returns the refusal of an agent whose bucket belongs to another virtual cluster, or to none; nil if it may
// join. An agent that has not read its bucket yet may join, since the store may be away: it compares before it writes.
func (t *tenure) compareBucket(found *api.BucketMarker) *api.OwnerItem {
	if found == nil || t.cluster.cfg.Marked == nil {
		return nil
	}
	var own string
	if _, err := t.owner.Read(func(s *metadata.State) { own = s.ClusterID() }); err != nil {
		return refusedItem(api.Refused_NOT_OWNER, err.Error())
	}
	switch {
	case own == "":
		return refusedItem(api.Refused_NOT_OWNER, "the virtual cluster has no id yet")
	case found.ClusterId == own:
		return nil
	case found.ClusterId == "" && !t.cluster.cfg.Marked():
		return refusedItem(api.Refused_NOT_OWNER, "the control plane has not compared its own bucket yet")
	}
	if found.ClusterId == "" { // most likely read before this control plane wrote its id; the agent reads the bucket again
		t.log.Info("agent refused: it found no cluster id in its bucket", zap.String("cluster_id", own))
	} else {
		t.log.Warn("agent refused: its bucket does not belong to this virtual cluster",
			zap.String("cluster_id", own), zap.String("cluster_id_in_bucket", found.ClusterId))
	}
	refusal := refusedItem(api.Refused_WRONG_BUCKET, "the agent's bucket does not belong to this virtual cluster")
	refusal.GetRefused().ClusterId = own
	return refusal
}

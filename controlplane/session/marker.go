package session

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
)

// compareBucket returns WRONG_BUCKET if the agent's bucket does not carry this virtual cluster's id, and nil if the agent may join. If the
// owner cannot compare yet, compareBucket returns NOT_OWNER and the agent retries. An agent that has not read its bucket may join: it
// compares before its first write. bucket is the id of the state's bucket, if agents have one of their own.
func (t *tenure) compareBucket(ctx context.Context, hello *api.Hello) (bucket string, refusal *api.OwnerItem) {
	found := hello.BucketMarker
	if len(found.GetClusterId()) > clusterIDLength || len(found.GetBucketId()) > metadata.MaxBucketID || len(found.GetCheck()) > metadata.MaxBucketID {
		return "", refusedItem(api.Refused_INVALID, fmt.Sprintf("an id in the bucket's marker is too long: a cluster id has %d bytes, a bucket id at most %d",
			clusterIDLength, metadata.MaxBucketID))
	}
	if t.cluster.cfg.AgentsBucket {
		return t.compareAgentsBucket(ctx, hello)
	}
	return "", t.compareOwnBucket(found)
}

// compareOwnBucket is compareBucket for a bucket that has the control plane's own objects too.
func (t *tenure) compareOwnBucket(found *api.BucketMarker) *api.OwnerItem {
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
		return refusedItem(api.Refused_NOT_OWNER, "the control plane has not checked the cluster id in its own bucket yet")
	}
	if found.ClusterId == "" { // probably read before this control plane wrote the id; the agent reads the bucket again
		t.log.Info("agent has to read the cluster id from its bucket first", zap.String("cluster_id", own))
	} else {
		t.log.Warn("agent refused: its bucket does not belong to this virtual cluster",
			zap.String("cluster_id", own), zap.String("cluster_id_in_bucket", found.ClusterId))
	}
	return t.wrongBucket(own)
}

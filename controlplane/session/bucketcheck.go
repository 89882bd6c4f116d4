package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
)

const (
	// checkTime is the maximum time that one agent has for a BucketCheck. Other agents wait.
	checkTime = 10 * time.Second
	// remarkPause is the minimum time between two requests to mark a bucket again. The agent that waits for the marker asks as often.
	remarkPause = 5 * time.Second
	// checkBundles is the number of live bundles that a bucket must have.
	checkBundles = 3
)

// bucketCheck is the BucketCheck that an agent does.
type bucketCheck struct {
	id       string
	instance string // of the agent's Hello
	until    time.Time
}

// recordsBucket is the part of a state that decides about the bucket of an agent.
type recordsBucket struct {
	clusterID string
	id        string // of the bucket, "" before an agent has passed a BucketCheck
	version   uint32
	inUse     bool     // a session is open
	bundles   []uint64 // the first checkBundles ones
}

// compareAgentsBucket is compareBucket for a bucket that the control plane does not reach.
//
//	the agent's bucket has    a session is open    outcome
//	both ids of the state     yes or no            the agent may join
//	another cluster id        yes or no            WRONG_BUCKET
//	another or no bucket id   yes                  WRONG_BUCKET. Without a marker, a connected agent marks its own bucket again: perhaps
//	                                               both have the same one
//	another or no bucket id   no                   WRONG_BUCKET with a BucketCheck, for one agent at a time
//
// The agent with a passed BucketCheck makes its bucket the one of the state (metadata.UseBucket). Open sessions keep it from changing.
func (t *tenure) compareAgentsBucket(ctx context.Context, hello *api.Hello) *api.OwnerItem {
	s, err := t.recordsBucket()
	if err != nil {
		return refusedItem(api.Refused_NOT_OWNER, err.Error())
	}
	found := hello.BucketMarker
	switch {
	case s.clusterID == "":
		return refusedItem(api.Refused_NOT_OWNER, "the virtual cluster has no id yet")
	case found.GetClusterId() == s.clusterID && found.GetBucketId() == s.id:
		return nil
	case found.GetClusterId() != "" && found.GetClusterId() != s.clusterID:
		t.log.Warn("agent refused: its bucket does not belong to this virtual cluster", zap.String("address", firstAddress(hello)),
			zap.String("cluster_id", s.clusterID), zap.String("cluster_id_in_bucket", found.GetClusterId()))
		return t.wrongBucket(s.clusterID)
	case s.version < metadata.BucketVersion:
		return refusedItem(api.Refused_NOT_OWNER, fmt.Sprintf("the state has version %d, and agents can mark their bucket from version %d on: upgrade all control planes, or remove --state-version",
			s.version, metadata.BucketVersion))
	case found == nil: // the agent has learned the marker's name from this answer
		return t.wrongBucket(s.clusterID)
	case s.inUse:
		t.log.Warn("agent refused: its bucket is not the one of the connected agents", zap.String("address", firstAddress(hello)),
			zap.String("bucket_id", s.id), zap.String("bucket_id_of_agent", found.BucketId))
		if found.ClusterId == "" {
			t.markAgain()
		}
		return t.wrongBucket(s.clusterID)
	}
	if found.ClusterId == s.clusterID && t.passes(hello.Instance, found.Check) {
		return t.useBucket(ctx, s.clusterID, found.BucketId)
	}
	refusal := t.wrongBucket(s.clusterID)
	id := t.beginCheck(hello.Instance)
	t.log.Info("agent has to show that its bucket is the one of the records", zap.String("address", firstAddress(hello)),
		zap.String("bucket_id", s.id), zap.String("bucket_id_of_agent", found.BucketId), zap.Bool("waits_for_another_agent", id == ""))
	if id != "" {
		refusal.GetRefused().Check = &api.BucketCheck{Id: id, BundlePrefix: t.cluster.cfg.BundlePrefix(s.clusterID), Bundles: s.bundles}
	}
	return refusal
}

// markAgain has a connected agent write the marker of its bucket again if it was removed, at most once per remarkPause.
func (t *tenure) markAgain() {
	t.mu.Lock()
	wait := t.errands == nil || time.Since(t.mu.remarked) < remarkPause
	if !wait {
		t.mu.remarked = time.Now()
	}
	t.mu.Unlock()
	if wait {
		return
	}
	t.spawnWithContext(func(ctx context.Context) {
		if err := t.errands.MarkBucket(ctx); err != nil && ctx.Err() == nil {
			t.log.Info("connected agents could not mark their bucket again", zap.Error(err))
		}
	})
}

func (t *tenure) recordsBucket() (r recordsBucket, err error) {
	_, err = t.owner.Read(func(s *metadata.State) {
		r = recordsBucket{clusterID: s.ClusterID(), id: s.RecordsBucket(), version: s.Version(), inUse: s.HasOpenSession()}
		for b := range s.Bundles() {
			if r.bundles = append(r.bundles, uint64(b)); len(r.bundles) == checkBundles {
				return
			}
		}
	})
	return r, err
}

// beginCheck returns the id of a new BucketCheck for an agent, or "" while another agent has one.
func (t *tenure) beginCheck(instance string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := &t.mu.check; c.instance != instance && time.Now().Before(c.until) {
		return ""
	}
	t.mu.check = bucketCheck{id: rand.Text(), instance: instance, until: time.Now().Add(checkTime)}
	return t.mu.check.id
}

// passes reports whether an agent answers the newest BucketCheck in time.
func (t *tenure) passes(instance, check string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.mu.check
	return c.id != "" && c.id == check && c.instance == instance && time.Now().Before(c.until)
}

// useBucket makes a bucket the one of the state. It returns the refusal of an agent whose bucket the state does not take.
func (t *tenure) useBucket(ctx context.Context, clusterID, bucket string) *api.OwnerItem {
	result, err := t.propose(ctx, &metadata.UseBucket{Bucket: bucket})
	switch {
	case err != nil:
		return refusedItem(api.Refused_NOT_OWNER, "use the agent's bucket: "+err.Error())
	case errors.Is(result.Err, metadata.ErrBucketInUse):
		return t.wrongBucket(clusterID)
	case result.Err != nil:
		return refusedItem(api.Refused_INVALID, "use the agent's bucket: "+result.Err.Error())
	}
	t.log.Info("agents use another bucket for records from now on", zap.String("bucket_id", bucket))
	return nil
}

func (t *tenure) wrongBucket(clusterID string) *api.OwnerItem {
	refusal := refusedItem(api.Refused_WRONG_BUCKET, "the agent's bucket does not belong to this virtual cluster")
	refusal.GetRefused().ClusterId, refusal.GetRefused().VirtualCluster = clusterID, t.cluster.cfg.Name
	return refusal
}

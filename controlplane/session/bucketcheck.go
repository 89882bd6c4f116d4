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
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// checkTime is the maximum time that one agent has for a BucketCheck. Other agents wait.
	checkTime = 10 * time.Second
	// remarkPause is the minimum time between two requests to mark a bucket again. The agent that waits for the marker asks as often.
	remarkPause = 5 * time.Second
	// checkBundles is the maximum number of live bundles of a BucketCheck. A bucket must have most of them.
	checkBundles = 16
	// clusterIDLength is the length of a cluster id (id.NewCluster).
	clusterIDLength = 22
)

// bucketCheck is the BucketCheck of an agent whose bucket may become the one of the state.
type bucketCheck struct {
	id        string
	instance  string // of the agent's Hello
	until     time.Time
	contended bool // another agent has asked for a check since
}

// recordsBucket is the part of a state that decides about the bucket of an agent.
type recordsBucket struct {
	clusterID string
	id        string // of the bucket, "" before an agent has passed a BucketCheck
	version   uint32
	inUse     bool // a session is open
	resumes   bool // the agent goes on with an open session
	records   bool // the state has bundles
}

// compareAgentsBucket is compareBucket for a bucket that the control plane does not reach.
//
//	the agent's bucket has    a session is open    outcome
//	both ids of the state     yes or no            the agent may join
//	another cluster id        yes or no            WRONG_BUCKET
//	the cluster id alone      yes or no            the agent may go on with an open session. Another agent gets WRONG_BUCKET with a
//	                                               BucketCheck. The one that has passed it may join, and the state stays as it is
//	another bucket id, or     yes                  WRONG_BUCKET. Without a marker, a connected agent marks its own bucket again: perhaps
//	no marker                                      both have the same one
//	another bucket id, or     no                   WRONG_BUCKET with a BucketCheck, for one agent at a time. The one that has passed it makes
//	no marker                                      its bucket the one of the state (metadata.UseBucket)
//
// Control planes write markers with the cluster id alone. The records have one if the cluster began with one bucket, and the state bucket
// always has one, so only bundles can tell them apart. Without bundles, such a bucket fits a state without bucket id, and no other state.
func (t *tenure) compareAgentsBucket(ctx context.Context, hello *api.Hello) (bucket string, refusal *api.OwnerItem) {
	s, err := t.recordsBucket(hello)
	if err != nil {
		return "", refusedItem(api.Refused_NOT_OWNER, err.Error())
	}
	found := hello.BucketMarker
	switch unnamed := found.GetClusterId() != "" && found.GetBucketId() == ""; {
	case s.clusterID == "":
		return "", refusedItem(api.Refused_NOT_OWNER, "the virtual cluster has no id yet")
	case found.GetClusterId() == s.clusterID && !unnamed && found.GetBucketId() == s.id:
		return s.id, nil
	case found.GetClusterId() != "" && found.GetClusterId() != s.clusterID:
		t.log.Warn("agent refused: its bucket does not belong to this virtual cluster", zap.String("address", firstAddress(hello)),
			zap.String("cluster_id", s.clusterID), zap.String("cluster_id_in_bucket", found.GetClusterId()))
		return "", t.wrongBucket(s.clusterID)
	case unnamed && (s.resumes || s.records && found.Check == t.unnamedCheck || !s.records && s.id == ""):
		return s.id, nil
	case unnamed && s.records:
		t.logCheck(hello, &s, false)
		return "", t.askForBundles(s.clusterID, t.unnamedCheck)
	case s.version < metadata.BucketVersion:
		return "", refusedItem(api.Refused_NOT_OWNER, fmt.Sprintf("the state has version %d, and agents can mark their bucket from version %d on: upgrade all control planes, or remove --state-version",
			s.version, metadata.BucketVersion))
	case found == nil: // the agent has learned the marker's name from this answer
		return "", t.wrongBucket(s.clusterID)
	case s.inUse, unnamed:
		t.log.Warn("agent refused: its bucket is not the one of the connected agents", zap.String("address", firstAddress(hello)),
			zap.String("bucket_id", s.id), zap.String("bucket_id_of_agent", found.BucketId))
		if found.ClusterId == "" {
			t.markAgain()
		}
		return "", t.wrongBucket(s.clusterID)
	}
	if found.ClusterId == s.clusterID && t.passes(hello.Instance, found.Check) {
		return found.BucketId, t.useBucket(ctx, s.clusterID, found.BucketId)
	}
	check := t.beginCheck(hello.Instance)
	t.logCheck(hello, &s, check == "")
	if check == "" {
		return "", t.wrongBucket(s.clusterID)
	}
	return "", t.askForBundles(s.clusterID, check)
}

func (t *tenure) logCheck(hello *api.Hello, s *recordsBucket, waits bool) {
	t.log.Info("agent has to show that its bucket is the one of the records", zap.String("address", firstAddress(hello)),
		zap.String("bucket_id", s.id), zap.String("bucket_id_of_agent", hello.BucketMarker.GetBucketId()), zap.Bool("waits_for_another_agent", waits))
}

// askForBundles returns the refusal with a BucketCheck.
func (t *tenure) askForBundles(clusterID, check string) *api.OwnerItem {
	bundles, err := t.sample.bundles(t.owner.ReadFrozen)
	if err != nil {
		return refusedItem(api.Refused_NOT_OWNER, err.Error())
	}
	refusal := t.wrongBucket(clusterID)
	refusal.GetRefused().Check = &api.BucketCheck{Id: check, BundlePrefix: t.cluster.cfg.BundlePrefix(clusterID), Bundles: bundles}
	return refusal
}

// markAgain has a connected agent write the marker of its bucket again if it was removed, at most once per remarkPause. Further calls have
// no effect before the agent has answered.
func (t *tenure) markAgain() {
	t.mu.Lock()
	wait := t.errands == nil || t.mu.marking || time.Since(t.mu.remarked) < remarkPause
	if !wait {
		t.mu.marking, t.mu.remarked = true, time.Now()
	}
	t.mu.Unlock()
	if wait {
		return
	}
	t.spawnWithContext(func(ctx context.Context) {
		defer t.marked()
		if err := t.errands.MarkBucket(ctx); err != nil && ctx.Err() == nil {
			t.log.Info("connected agents could not mark their bucket again", zap.Error(err))
		}
	})
}

// marked notes that no agent marks its bucket any more.
func (t *tenure) marked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.marking = false
}

func (t *tenure) recordsBucket(hello *api.Hello) (r recordsBucket, err error) {
	_, err = t.owner.Read(func(s *metadata.State) {
		r = recordsBucket{clusterID: s.ClusterID(), id: s.RecordsBucket(), version: s.Version(), inUse: s.HasOpenSession()}
		info, ok := s.Session(id.Session(hello.Session))
		r.resumes = ok && !info.Closed && info.Instance == hello.Instance
		for range s.Bundles() {
			r.records = true
			break
		}
	})
	return r, err
}

// beginCheck returns the id of an agent's BucketCheck, or "" while another agent has one. A check ends after checkTime, however often its agent
// asks. Then an agent that has waited goes first.
func (t *tenure) beginCheck(instance string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, c := time.Now(), &t.mu.check
	switch {
	case c.instance != instance && now.Before(c.until):
		c.contended = true
		return ""
	case c.instance == instance && now.Before(c.until):
		return c.id
	case c.instance == instance && c.contended && now.Before(c.until.Add(checkTime)):
		return ""
	}
	*c = bucketCheck{id: rand.Text(), instance: instance, until: now.Add(checkTime)}
	return c.id
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

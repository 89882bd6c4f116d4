package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// bucketed is an agent with the marker of a bucket.
type bucketed struct {
	*agent
	marker atomic.Pointer[api.BucketMarker] // nil before the agent has read its bucket
}

func (w *world) bucketed(m *api.BucketMarker) *bucketed {
	w.t.Helper()
	b := &bucketed{}
	b.marker.Store(m)
	b.agent = w.agent(func(c *client.Config) { c.Marker = func() *api.BucketMarker { return b.marker.Load() } })
	return b
}

// refused returns the refusal of the newest attempt.
func (b *bucketed) refused() *client.WrongBucketError {
	b.w.t.Helper()
	var wrong *client.WrongBucketError
	require.ErrorAs(b.w.t, <-b.ended, &wrong)
	return wrong
}

// again says Hello with another marker.
func (b *bucketed) again(m *api.BucketMarker) {
	b.marker.Store(m)
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() { b.ended <- b.Run(ctx) }()
}

// inBucketWorld runs fn with an owner that does not reach the bucket of the records.
func inBucketWorld(t *testing.T, fn func(w *world, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agentsBucket = true
		n := w.start("r1")
		w.waitFor("an owner", func() bool { return n.Owner() != nil && n.ClusterID() != "" })
		fn(w, n)
	})
}

func (w *world) bucketOf(n *node) (bucket string) {
	w.t.Helper()
	_, err := n.Owner().Read(func(s *metadata.State) { bucket = s.RecordsBucket() })
	require.NoError(w.t, err)
	return bucket
}

// Of two agents with two new buckets, one passes the check. The other one gets no check while the first is connected.
func TestSession_AgentsOfTwoBuckets(t *testing.T) {
	inBucketWorld(t, func(w *world, n *node) {
		unread := w.bucketed(nil)
		wrong := unread.refused()
		require.Equal(t, &client.WrongBucketError{ClusterID: n.ClusterID(), VirtualCluster: vcName}, wrong, "an unread bucket gets no check")

		first := w.bucketed(&api.BucketMarker{})
		check := first.refused().Check
		require.NotNil(t, check)
		require.Empty(t, check.Bundles)
		second := w.bucketed(&api.BucketMarker{})
		require.Nil(t, second.refused().Check, "the first agent is checked")
		second.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "forged", Check: check.Id})
		require.Nil(t, second.refused().Check, "another agent's check")
		require.Empty(t, w.bucketOf(n))

		first.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "first", Check: check.Id})
		<-first.Opened()
		require.Equal(t, "first", w.bucketOf(n))
		time.Sleep(time.Minute)
		for _, m := range []*api.BucketMarker{{}, {ClusterId: n.ClusterID()}, {ClusterId: n.ClusterID(), BucketId: "second"}, {ClusterId: n.ClusterID(), BucketId: "second", Check: check.Id}} {
			second.again(m)
			require.Nil(t, second.refused().Check, m.BucketId)
		}
		unread.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "first"})
		<-unread.Opened()
		require.Equal(t, "first", w.bucketOf(n))
		w.end(n, first.agent, unread.agent)
	})
}

// An agent that dies during its check delays others by checkTime.
func TestSession_BucketCheckEnds(t *testing.T) {
	inBucketWorld(t, func(w *world, n *node) {
		dead := w.bucketed(&api.BucketMarker{})
		check := dead.refused().Check
		require.NotNil(t, check)
		next := w.bucketed(&api.BucketMarker{})
		require.Nil(t, next.refused().Check)
		time.Sleep(10*time.Second + time.Millisecond)
		dead.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "late", Check: check.Id})
		again := dead.refused().Check
		require.NotNil(t, again, "the answer is late: a new check")
		require.NotEqual(t, check.Id, again.Id)
		time.Sleep(10*time.Second + time.Millisecond)
		next.again(&api.BucketMarker{})
		check = next.refused().Check
		require.NotNil(t, check)
		next.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "next", Check: check.Id})
		<-next.Opened()
		dead.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "late", Check: again.Id})
		require.Nil(t, dead.refused().Check)
		require.Equal(t, "next", w.bucketOf(n))
		w.end(n, next.agent)
	})
}

// A bucket without the marker of the state must have bundles of the state. A bucket with the marker needs no check.
func TestSession_BucketCheckNamesBundles(t *testing.T) {
	inBucketWorld(t, func(w *world, n *node) {
		first := w.bucketed(&api.BucketMarker{})
		first.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "first", Check: first.refused().Check.Id})
		<-first.Opened()
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		for range 5 {
			_, err := first.submit(plain(tp))
			require.NoError(t, err)
		}
		first.leave()
		time.Sleep(time.Minute) // the session is closed
		second := w.bucketed(&api.BucketMarker{})
		require.Len(t, second.refused().Check.Bundles, 3)
		restarted := w.bucketed(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "first"})
		<-restarted.Opened()
		second.again(&api.BucketMarker{})
		require.Nil(t, second.refused().Check)
		w.end(n, restarted.agent)
	})
}

// If the marker of the connected agents' bucket was removed, one of them writes it again for an agent that misses it.
func TestSession_MarksTheBucketAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agentsBucket = true
		errands := w.withErrands()
		n := w.start("r1")
		w.waitFor("an owner", func() bool { return n.Owner() != nil && n.ClusterID() != "" })
		first := w.bucketed(&api.BucketMarker{})
		first.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "first", Check: first.refused().Check.Id})
		<-first.Opened()
		other := w.bucketed(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "other"})
		require.Nil(t, other.refused().Check)
		synctest.Wait()
		require.Empty(t, errands.heard, "the agent has another bucket")
		for range 3 {
			began := time.Now()
			for range 3 {
				other.again(&api.BucketMarker{})
				require.Nil(t, other.refused().Check)
			}
			require.Zero(t, time.Since(began))
			require.Equal(t, "mark the bucket", <-errands.heard)
			synctest.Wait()
			require.Empty(t, errands.heard, "once in 5 s")
			time.Sleep(5 * time.Second)
		}
		w.end(n, first.agent)
	})
}

// Agents mark no bucket before all control planes know version 3 of the state.
func TestSession_BucketCheckNeedsTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agentsBucket = true
		var version atomic.Uint32
		version.Store(metadata.BucketVersion - 1)
		w.version = version.Load
		n := w.start("r1")
		w.waitFor("an owner", func() bool { return n.Owner() != nil && n.ClusterID() != "" })
		waits := w.bucketed(&api.BucketMarker{})
		time.Sleep(5 * time.Second)
		require.Empty(t, waits.ended)
		require.ErrorContains(t, waits.Fault(), "upgrade all control planes")
		version.Store(metadata.BucketVersion)
		require.NotNil(t, waits.refused().Check)
		w.end(n)
	})
}

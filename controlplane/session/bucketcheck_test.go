package session_test

import (
	"context"
	"strings"
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

const clusterIDLength = 22

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
		time.Sleep(6 * time.Second)
		dead.again(&api.BucketMarker{})
		require.Equal(t, check.Id, dead.refused().Check.Id, "a slow agent gets its check again, and no more time")
		time.Sleep(4*time.Second + time.Millisecond)
		dead.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "late", Check: check.Id})
		require.Nil(t, dead.refused().Check, "the answer is late, and another agent waits")
		time.Sleep(10*time.Second + time.Millisecond)
		dead.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "late", Check: check.Id})
		again := dead.refused().Check
		require.NotNil(t, again, "the agent that waited is gone")
		require.NotEqual(t, check.Id, again.Id)
		next.again(&api.BucketMarker{})
		require.Nil(t, next.refused().Check)
		time.Sleep(10*time.Second + time.Millisecond)
		dead.again(&api.BucketMarker{})
		require.Nil(t, dead.refused().Check)
		next.again(&api.BucketMarker{})
		check = next.refused().Check
		require.NotNil(t, check, "the one that waited goes first")
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
		for range 100 {
			_, err := first.submit(plain(tp))
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		first.leave()
		time.Sleep(time.Minute) // the session is closed
		second := w.bucketed(&api.BucketMarker{})
		var named []uint32
		for _, b := range second.refused().Check.Bundles {
			named = append(named, id.Bundle(b).Submission().N)
		}
		require.Equal(t, []uint32{93, 94, 95, 96, 97, 98, 99, 100, 1, 12, 24, 35, 47, 58, 70, 81}, named, "the newest ones, and others")
		restarted := w.bucketed(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "first"})
		<-restarted.Opened()
		second.again(&api.BucketMarker{})
		require.Nil(t, second.refused().Check)
		w.end(n, restarted.agent)
	})
}

// fromOneBucket runs fn with an owner of two buckets, whose records were written when there was one. serving is an agent whose session is older.
func fromOneBucket(t *testing.T, fn func(w *world, n *node, serving *bucketed, unnamed *api.BucketMarker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one := w.start("r1")
		w.waitFor("an owner", func() bool { return one.Owner() != nil && one.ClusterID() != "" })
		w.agentsBucket = true
		two := w.start("r2")
		unnamed := &api.BucketMarker{ClusterId: one.ClusterID()}
		serving := w.bucketed(unnamed)
		<-serving.Opened()
		tp := id.TopicPartition{Topic: w.topic(one, "t", 1)}
		for range 3 {
			_, err := serving.submit(plain(tp))
			require.NoError(t, err)
		}
		w.stop(one)
		w.waitFor("the next owner", func() bool { return two.Owner() != nil && two.ClusterID() != "" })
		fn(w, two, serving, unnamed)
	})
}

// Both buckets have markers without a bucket id once a cluster has two in place of one. Agents that serve go on, and others have to find the
// bundles in their bucket.
func TestSession_FromOneBucketToTwo(t *testing.T) {
	fromOneBucket(t, func(w *world, n *node, serving *bucketed, unnamed *api.BucketMarker) {
		w.waitFor("the agent that serves", serving.Connected)
		require.EqualValues(t, 1, serving.ID())
		wrong := w.bucketed(unnamed) // its bucket is the state bucket
		check := wrong.refused().Check
		require.Len(t, check.Bundles, 3)
		for range 10 {
			wrong.again(unnamed)
			require.Equal(t, check.Id, wrong.refused().Check.Id)
		}
		wrong.again(&api.BucketMarker{ClusterId: n.ClusterID(), Check: "forged"})
		require.NotNil(t, wrong.refused().Check)

		passed := &api.BucketMarker{ClusterId: n.ClusterID(), Check: check.Id}
		var others []*agent
		for range 3 { // no agent waits for another one
			restarted := w.bucketed(unnamed)
			require.Equal(t, check.Id, restarted.refused().Check.Id)
			restarted.again(passed)
			<-restarted.Opened()
			others = append(others, restarted.agent)
		}
		require.Empty(t, w.bucketOf(n))
		require.Empty(t, serving.ended)
		w.end(n, append(others, serving.agent)...)
	})
}

// Without an agent, the first one has to find the bundles too. The state keeps its bucket id, which is empty.
func TestSession_FromOneBucketToTwoWithoutAgents(t *testing.T) {
	fromOneBucket(t, func(w *world, n *node, serving *bucketed, unnamed *api.BucketMarker) {
		serving.leave()
		time.Sleep(time.Minute)
		first := w.bucketed(unnamed)
		first.again(&api.BucketMarker{ClusterId: n.ClusterID(), Check: first.refused().Check.Id})
		<-first.Opened()
		require.Empty(t, w.bucketOf(n))
		w.end(n, first.agent)
	})
}

// A marker without a bucket id, which an operator copied over that of agents, keeps no agent out whose bucket has the records.
func TestSession_MarkerLosesTheBucketID(t *testing.T) {
	inBucketWorld(t, func(w *world, n *node) {
		next := w.start("r2")
		first := w.bucketed(&api.BucketMarker{})
		first.again(&api.BucketMarker{ClusterId: n.ClusterID(), BucketId: "first", Check: first.refused().Check.Id})
		<-first.Opened()
		unnamed := &api.BucketMarker{ClusterId: n.ClusterID()}
		other := w.bucketed(unnamed)
		require.Nil(t, other.refused().Check, "without records, another bucket has as many bundles")
		_, err := first.submit(plain(id.TopicPartition{Topic: w.topic(n, "t", 1)}))
		require.NoError(t, err)
		other.again(unnamed)
		other.again(&api.BucketMarker{ClusterId: n.ClusterID(), Check: other.refused().Check.Id})
		<-other.Opened()
		first.marker.Store(unnamed)
		require.Equal(t, "first", w.bucketOf(n))
		w.stop(n)
		w.waitFor("both agents", func() bool { return first.Connected() && other.Connected() })
		require.EqualValues(t, 1, first.ID(), "agents that serve go on with their sessions")
		require.EqualValues(t, 2, other.ID())
		w.end(next, first.agent, other.agent)
	})
}

// The ids of a Hello have bounds, so that the log has.
func TestSession_BoundsIDsOfTheMarker(t *testing.T) {
	require.Len(t, id.NewCluster(), clusterIDLength)
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct{ longest, longer *api.BucketMarker }{
		"cluster id": {&api.BucketMarker{ClusterId: text(clusterIDLength)}, &api.BucketMarker{ClusterId: text(clusterIDLength + 1)}},
		"bucket id":  {&api.BucketMarker{BucketId: text(metadata.MaxBucketID)}, &api.BucketMarker{BucketId: text(metadata.MaxBucketID + 1)}},
		"check":      {&api.BucketMarker{Check: text(metadata.MaxBucketID)}, &api.BucketMarker{Check: text(metadata.MaxBucketID + 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			inBucketWorld(t, func(w *world, n *node) {
				a := w.bucketed(c.longest)
				require.NotNil(t, a.refused())
				a.again(c.longer)
				time.Sleep(5 * time.Second)
				require.Empty(t, a.ended)
				require.ErrorContains(t, a.Fault(), "INVALID")
				a.cancel()
				w.end(n)
			})
		})
	}
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
		errands.mark = make(chan struct{})
		for range 10 {
			other.again(&api.BucketMarker{})
			require.Nil(t, other.refused().Check)
			time.Sleep(6 * time.Second)
		}
		require.Equal(t, "mark the bucket", <-errands.heard)
		require.Empty(t, errands.heard, "no agent has answered yet")
		close(errands.mark)
		synctest.Wait()
		other.again(&api.BucketMarker{})
		require.Nil(t, other.refused().Check)
		require.Equal(t, "mark the bucket", <-errands.heard)
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

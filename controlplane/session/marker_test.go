package session_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
)

// An agent with another cluster's bucket, or one without a marker, gets no session.
func TestSession_RefusesTheBucketOfAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var marked atomic.Bool
		w.marked = marked.Load
		n := w.start("r1")
		w.waitFor("an owner", func() bool { return n.Owner() != nil && n.ClusterID() != "" })
		with := func(m *api.BucketMarker) *agent {
			return w.agent(func(c *client.Config) { c.Marker = func() *api.BucketMarker { return m } })
		}
		a := with(&api.BucketMarker{ClusterId: "other"})
		var wrong *client.WrongBucketError
		require.ErrorAs(t, <-a.ended, &wrong)
		require.Equal(t, n.ClusterID(), wrong.ClusterID)

		none := with(&api.BucketMarker{})
		time.Sleep(5 * time.Second) // the bubble's time
		require.Empty(t, none.ended, "the control plane itself has not marked its bucket yet")
		marked.Store(true)
		require.True(t, errors.As(<-none.ended, &wrong))
		sessions, _ := w.shown(n)
		require.Empty(t, sessions)

		unread, right := with(nil), with(&api.BucketMarker{ClusterId: n.ClusterID()})
		<-unread.Opened()
		<-right.Opened()
		w.end(n, unread, right)
	})
}

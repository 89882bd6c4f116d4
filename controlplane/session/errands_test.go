package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata/id"
)

// errandsWorld is an Errands that notes what it hears.
type errandsWorld struct {
	agents session.ErrandAgents
	heard  chan string
	mark   chan struct{} // if not nil, MarkBucket waits for it
}

func (e *errandsWorld) Done(agent id.Session, done *api.ErrandDone) {
	e.heard <- fmt.Sprintf("done %d by %d: %s", done.Id, agent, done.Error)
}

func (e *errandsWorld) Left(agent id.Session) { e.heard <- fmt.Sprintf("left %d", agent) }

func (e *errandsWorld) MarkBucket(context.Context) error {
	e.heard <- "mark the bucket"
	if e.mark != nil {
		<-e.mark
	}
	return nil
}

func (w *world) withErrands() *errandsWorld {
	e := &errandsWorld{heard: make(chan string, 16)}
	w.errands = func(a session.ErrandAgents) session.Errands {
		e.agents = a
		return e
	}
	return e
}

// errandRunner answers errands.
type errandRunner struct{ *agent }

func (r *errandRunner) OnErrand(e *api.Errand) {
	r.ErrandDone(&api.ErrandDone{Id: e.Id, Error: fmt.Sprint(e.GetDeleteBundles().Bundles)})
}

func (w *world) errandRunner(adjust ...func(*client.Config)) *errandRunner {
	r := &errandRunner{}
	w.agent(append(adjust, withRole(api.Role_ROLE_JOBS), func(c *client.Config) {
		r.agent = c.Handler.(*agent)
		c.Handler = r
	})...)
	r.opened()
	return r
}

func withRole(role api.Role) func(*client.Config) {
	return func(c *client.Config) { c.Roles = []api.Role{role} }
}

func deleteErrand(n uint64) *api.Errand {
	return &api.Errand{Id: n, Errand: &api.Errand_DeleteBundles{DeleteBundles: &api.DeleteBundles{Bundles: []uint64{5, 6}}}}
}

func TestErrands_TravelBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		errands := w.withErrands()
		n := w.start("a")
		r := w.errandRunner()
		other := w.agent(withRole(api.Role_ROLE_FETCH))
		other.opened()
		require.Equal(t, []id.Session{r.ID()}, errands.agents.ErrandTakers(), "the other one does not have the role")
		require.ElementsMatch(t, []id.Session{r.ID(), other.ID()}, errands.agents.MarkTakers())
		require.True(t, errands.agents.GiveErrand(r.ID(), deleteErrand(9)))
		require.Equal(t, "done 9 by 1: [5 6]", <-errands.heard)
		require.True(t, errands.agents.GiveErrand(other.ID(), deleteErrand(10)))
		require.Equal(t, "done 10 by 2: the agent takes no errands", <-errands.heard)
		require.False(t, errands.agents.GiveErrand(99, deleteErrand(11)))

		require.NoError(t, r.Drain(t.Context()))
		require.Empty(t, errands.agents.ErrandTakers(), "it drains")
		require.Equal(t, []id.Session{other.ID()}, errands.agents.MarkTakers())
		r.leave()
		require.Equal(t, "left 1", <-errands.heard)
		require.False(t, errands.agents.GiveErrand(1, deleteErrand(12)))
		w.stop(n)
		require.Equal(t, "left 2", <-errands.heard, "the end of a tenure ends its streams")
		other.leave()
	})
}

// The streams of the protocol before errands keep their sessions and get none.
func TestErrands_NeedTheProtocol(t *testing.T) {
	for _, c := range []struct{ agent, owner uint32 }{{api.ErrandProtocol - 1, api.ErrandProtocol}, {api.ErrandProtocol, api.ErrandProtocol - 1}} {
		t.Run(fmt.Sprintf("agent %d owner %d", c.agent, c.owner), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.protocol = c.owner
				errands := w.withErrands()
				n := w.start("a")
				old := w.errandRunner(speaking(c.agent))
				require.Empty(t, errands.agents.ErrandTakers())
				require.Empty(t, errands.agents.MarkTakers())
				time.Sleep(time.Minute) // the bubble's time
				require.True(t, old.Connected())
				w.end(n, old.agent)
			})
		})
	}
}

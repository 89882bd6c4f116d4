package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
)

func speaking(protocol uint32) func(*client.Config) {
	return func(c *client.Config) { c.Protocol = protocol }
}

// Agents and owners of neighbouring protocols work together by the lower one.
func TestProtocol_OfNeighboursAgree(t *testing.T) {
	const next = api.Protocol + 1
	for _, c := range []struct{ agent, owner, stream uint32 }{
		{api.Protocol, api.Protocol, api.Protocol}, {next, next, next}, {api.Protocol, next, api.Protocol}, {next, api.Protocol, api.Protocol},
	} {
		t.Run(fmt.Sprintf("agent %d owner %d", c.agent, c.owner), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.protocol = c.owner
				n := w.start("r1")
				a := w.agent(speaking(c.agent))
				<-a.Opened()
				a.mu.Lock()
				require.Equal(t, c.stream, a.protocol)
				a.mu.Unlock()
				_, err := a.Fresh(t.Context())
				require.NoError(t, err)
				w.end(n, a)
			})
		})
	}
}

// Protocols further apart do not: the agent ends with one line that has both.
func TestProtocol_TooFarApart(t *testing.T) {
	for _, c := range []struct{ agent, owner uint32 }{{api.Protocol, api.Protocol + 2}, {api.Protocol + 2, api.Protocol}} {
		t.Run(fmt.Sprintf("agent %d owner %d", c.agent, c.owner), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.protocol = c.owner
				n := w.start("r1")
				a := w.agent(speaking(c.agent))
				var refused *client.RefusedError
				require.ErrorAs(t, <-a.ended, &refused)
				require.Equal(t, client.OtherProtocol, refused.Refusal)
				require.EqualError(t, refused.Err, fmt.Sprintf("refused by the control plane at r1:7050: the control plane speaks protocol %d, this agent %d", c.owner, c.agent))
				sessions, _ := w.shown(n)
				require.Empty(t, sessions)
				w.end(n)
			})
		})
	}
}

// An agent whose session is open stays while an owner of another protocol is there, and goes on with the next one.
func TestProtocol_OpenSessionOutlastsAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.SessionTimeout = time.Hour
		first := w.start("r1")
		a := w.agent()
		<-a.Opened()
		session := a.ID()
		w.stop(first)
		w.protocol = api.Protocol + 2
		second := w.start("r1")
		time.Sleep(5 * time.Minute) // the bubble's time
		require.Empty(t, a.ended)
		require.False(t, a.Connected())
		w.stop(second)
		w.protocol = api.Protocol
		third := w.start("r1")
		w.waitFor("a stream", a.Connected)
		require.Equal(t, session, a.ID())
		w.end(third, a)
	})
}

// Agents ask each other too: two of them that are two protocols apart are not connected at once, whatever the owner's protocol is.
func TestProtocol_OfAgentsTooFarApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.protocol = api.Protocol + 1
		n := w.start("r1")
		old := w.agent(speaking(api.Protocol))
		<-old.Opened()
		var refused *client.RefusedError
		require.ErrorAs(t, <-w.agent(speaking(api.Protocol+2)).ended, &refused)
		require.EqualError(t, refused.Err, fmt.Sprintf("refused by the control plane at r1:7050: another agent of the cluster speaks protocol %d, this agent %d",
			api.Protocol, api.Protocol+2))
		old.leave()
		young := w.agent(speaking(api.Protocol + 2))
		<-young.Opened()
		w.end(n, young)
	})
}

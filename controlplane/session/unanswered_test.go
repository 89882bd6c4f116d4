package session_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

// An agent dies while its session is on its way into the log: the session is opened for nobody, and is closed like that
// of any other agent that falls silent, though there never was a stream under it.
func TestSession_OpenedForNobodyIsClosed(t *testing.T) {
	for name, roles := range map[string][]api.Role{
		"of an agent that clients are sent to": nil, "of one that runs jobs": {api.Role_ROLE_JOBS},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				n := w.start("r1")
				w.topic(n, "t", 1) // the owner's own first commands are in the log
				appending := make(chan struct{}, 100)
				n.net.SetFaults(func(op memlog.Op) memlog.Fault {
					if op.Kind != memlog.OpAppend {
						return memlog.Pass
					}
					appending <- struct{}{}
					return memlog.LoseRequest
				})
				a := w.agent(func(c *client.Config) { c.Roles = roles })
				<-appending
				a.leave()
				synctest.Wait()
				n.net.SetFaults(nil)

				var opened int
				w.waitFor("the session's end", func() bool {
					open := 0
					opened = 0
					_, err := n.Owner().Read(func(s *metadata.State) {
						for info := range s.Sessions() {
							opened++
							if !info.Closed {
								open++
							}
						}
					})
					require.NoError(t, err)
					return opened > 0 && open == 0
				})
				require.Equal(t, 1, opened)
				w.stop(n)
			})
		})
	}
}

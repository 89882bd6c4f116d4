package session_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestSession_PeerSecret: Welcome has the secret by which agents know each other. Connected agents are told a new one on the stream that
// they have.
func TestSession_PeerSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		early := w.agent()
		early.opened()
		told := func(a *agent, secrets ...string) {
			t.Helper()
			synctest.Wait()
			a.read(func() {
				require.Equal(t, secrets, a.secrets)
				require.Equal(t, 1, a.welcomes)
			})
		}
		told(early, peerSecret)
		n.sessions.SetPeerSecret(peerSecret)
		told(early, peerSecret)
		n.sessions.SetPeerSecret("another")
		told(early, peerSecret, "another")
		late := w.agent()
		late.opened()
		told(late, "another")
		early.leave()
		late.leave()
		w.end(n)
	})
}

package session_test

import (
	"crypto/tls"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/client"
)

// An agent that no replica has ever let in ends once they refused it for long enough.
func TestSession_EndsWhereEveryReplicaRefusesItsSettings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*client.Config)
		why    client.Refusal
	}{
		"key":             {func(c *client.Config) { c.AgentKey = "another" }, client.UnknownKey},
		"virtual cluster": {func(c *client.Config) { c.VirtualCluster = "another" }, client.UnknownCluster},
		"tls":             {func(c *client.Config) { c.TLS = &tls.Config{ServerName: "r1"} }, client.SpeaksPlain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n := newOwnedWorld(t)
				began := time.Now()
				a := w.agent(c.change)
				var refused *client.RefusedError
				require.ErrorAs(t, <-a.ended, &refused)
				require.Equal(t, c.why, refused.Refusal)
				require.Equal(t, "r1:7050", refused.Address)
				require.GreaterOrEqual(t, time.Since(began), 30*time.Second, "a key that was changed comes to the replicas one by one")
				require.Less(t, time.Since(began), 45*time.Second)
				w.end(n)
			})
		})
	}
}

// A replica that does not answer may know the key.
func TestSession_StaysWhileOneReplicaDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		a := w.agent(func(c *client.Config) {
			c.AgentKey = "another"
			c.Replicas = append(c.Replicas, "gone:7050")
		})
		time.Sleep(5 * time.Minute)
		require.Empty(t, a.ended)
		a.leave()
		w.end(n)
	})
}

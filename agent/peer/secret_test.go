package peer

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// TestSecret: the former secret opens an agent for a minute after a change. Without a secret nothing opens it.
func TestSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Secret
		valid := func(secrets ...string) {
			t.Helper()
			require.Equal(t, secrets, s.valid())
			for _, shown := range []string{"", "a", "b", "c", "agent key"} {
				require.Equal(t, len(secrets) > 0 && (shown == secrets[0] || shown == secrets[len(secrets)-1]), s.opens(shown), shown)
			}
		}
		valid()
		s.Set("")
		valid()
		s.Set("a")
		valid("a")
		s.Set("a")
		valid("a")
		s.Set("b")
		valid("b", "a")
		time.Sleep(SecretGrace / 2) // sleeps: the clock is fake
		s.Set("b")                  // told again by the next Welcome
		valid("b", "a")
		time.Sleep(SecretGrace/2 - 1) // sleeps: the clock is fake
		valid("b", "a")
		time.Sleep(time.Nanosecond) // sleeps: the clock is fake
		valid("b")
		s.Set("c")
		valid("c", "b")
		s.Set("b")
		valid("b", "c")
		s.Set("")
		valid()
		s.Set("c")
		valid("c")
	})
}

// TestZone_SecretChanges: agents of a zone learn of a new secret one after the other. Each bundle still costs the zone one GET, no agent
// is left out, and streams open.
func TestZone_SecretChanges(t *testing.T) {
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, asks: unforgiving, server: func(cfg *ServerConfig) {
		cfg.Upgrades = map[string]Upgrade{"p": echo}
	}}
	for range 3 {
		c.start(testZone)
	}
	bundles := int32(0)
	exchange := func() {
		t.Helper()
		for _, owner := range c.agents {
			bundles++
			made, extents := c.bundle(c.owned(owner, c.agents[0], written(id.Session(1000*bundles), 1)), 1, 100)
			for _, reader := range c.agents {
				c.read(reader, made, &extents[0])
				if reader != owner {
					_ = c.stream(reader, owner).Close()
				}
			}
		}
		require.Equal(t, bundles, c.bucket.gets.Load())
	}
	exchange()
	for _, secret := range []string{"second", "third"} {
		for _, a := range c.agents {
			a.secret.Set(secret)
			exchange()
		}
		for _, a := range c.agents { // the grace ends
			a.secret.Set("")
			a.secret.Set(secret)
		}
		exchange()
	}
	for _, a := range c.agents {
		require.Zero(t, a.metric(t, "freshet_peer_fallbacks_total"))
		require.Zero(t, a.metric(t, "freshet_peer_left_out"))
	}
}

// TestZone_WithoutSecret: an agent that the owner has told no secret reads the object store and opens no stream. It sends no request,
// and answers none.
func TestZone_WithoutSecret(t *testing.T) {
	c := newCluster(t, 2)
	told, untold := c.agents[0], c.agents[1]
	untold.secret.Set("")
	made, extents := c.bundle(c.owned(told, untold, written(900, 1)), 1, 100)
	c.read(untold, made, &extents[0])
	_, _, err := untold.asks.Stream(t.Context(), told.session, "p")
	require.ErrorIs(t, err, ErrNoStream)
	require.Zero(t, untold.metric(t, "freshet_peer_requests_total"))
	require.Zero(t, told.metric(t, "freshet_peer_served_total"))
	require.Zero(t, untold.metric(t, "freshet_peer_left_out"))

	for _, shown := range []string{"", testSecret} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+untold.address+streamPath, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+shown)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_ = response.Body.Close()
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	}
}

package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestServer_ClosesIdleConnections: a connection without a call ends after 2 min, whether or not its client has an agent key. The stream of an
// idle agent stays.
func TestServer_ClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		a := w.join()
		conn, err := grpc.NewClient("passthrough:///r1:7050", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(w.dial), grpc.WithIdleTimeout(0))
		require.NoError(t, err)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+agentKey)
		locate := func() {
			_, err := api.NewControlPlaneClient(conn).Locate(ctx, &api.LocateRequest{})
			require.NoError(t, err)
		}
		for range 3 {
			locate()
			time.Sleep(80 * time.Second)
			require.Equal(t, connectivity.Ready, conn.GetState())
		}
		time.Sleep(80 * time.Second)
		require.Equal(t, connectivity.Idle, conn.GetState())
		locate()
		require.NoError(t, conn.Close())
		a.read(func() { require.Equal(t, 1, a.welcomes) })
		w.end(n, a)
	})
}

// TestSession_ProbesWhileIdle: an idle agent probes once in 12.5 s, in the same message as other items. An agent that commits probes twice a second.
func TestSession_ProbesWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		r := prometheus.NewRegistry()
		a := w.join(func(c *client.Config) { c.Registerer = r })
		items := func(d time.Duration, each func()) float64 {
			before := sentItems(t, r)
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				each()
			}
			return sentItems(t, r) - before
		}
		time.Sleep(50 * time.Millisecond) // not at a tick
		require.InDelta(t, 10, items(125*time.Second, func() {}), 1)
		require.InDelta(t, 100+20, items(10*time.Second, func() {
			_, err := a.submit(plain(tp))
			require.NoError(t, err)
		}), 1)
		w.end(n, a)
	})
}

func sentItems(t *testing.T, r *prometheus.Registry) float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "freshet_agent_session_sent_items_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// Bytes to and from the object store count as traffic.
func TestAgent_TrafficOfTheObjectStore(t *testing.T) {
	cfg := lonely(t)
	cfg.Hedge = false
	a, err := New(t.Context(), cfg)
	require.NoError(t, err)
	defer a.Close()
	a.owned.gate.Open()
	require.NoError(t, a.bucket.Put(t.Context(), "k", objstore.NewBody(make([]byte, 1000))))
	_, err = objstoretest.Get(t.Context(), a.bucket, "k", 100, 300)
	require.NoError(t, err)
	in, out := a.traffic()
	require.EqualValues(t, 300, in)
	require.EqualValues(t, 1000, out)
}

func TestAgent_ReportsConnectionsAndUptime(t *testing.T) {
	a, err := New(t.Context(), lonely(t))
	require.NoError(t, err)
	defer a.Close()
	a.began = a.began.Add(-time.Minute)
	l := a.currentLoad()
	require.NotNil(t, l.Connections)
	require.Zero(t, *l.Connections)
	require.GreaterOrEqual(t, l.GetUptimeMs(), uint64(60_000))
	require.Less(t, l.GetUptimeMs(), uint64(120_000))
}

func TestConfig_NetworkLimit(t *testing.T) {
	cfg := lonely(t)
	cfg.ApplyDefaults()
	cfg.NetworkLimit = -1
	require.ErrorContains(t, cfg.Validate(), "network limit")
}

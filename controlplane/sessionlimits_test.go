package controlplane

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/session"
)

// TestLimits_OfStoredSessions: a virtual cluster of etcd has its own default bounds, unless the replica's settings have others.
func TestLimits_OfStoredSessions(t *testing.T) {
	cfg := Config{MemoryLimit: 8 << 30}
	cfg.ApplyDefaults()
	stored := &directory.Spec{Stored: true, Memory: directory.DefaultMemory}
	limits := cfg.limitsOf(stored)
	require.Equal(t, maxStoredSessions, limits.Sessions)
	require.EqualValues(t, leastForwards, limits.ForwardBytes)
	limits = cfg.limitsOf(&directory.Spec{Memory: 8 << 30})
	require.Equal(t, session.DefaultSessions, limits.Sessions)
	require.EqualValues(t, 1<<30, limits.ForwardBytes)
	plane := &ControlPlane{cfg: cfg, clusters: &clusters{}}
	require.Equal(t, 4*maxStoredSessions, plane.maxConnections("unknown"))
	settings := &directory.Spec{Name: "settings", Memory: 8 << 30}
	plane.clusters.mu.byName = map[string]*entry{"settings": {spec: settings, running: &cluster{spec: settings}}}
	require.Equal(t, 4*session.DefaultSessions, plane.maxConnections("settings"))
	cfg.Limits = session.Limits{Sessions: 7, ForwardBytes: 5}
	limits = cfg.limitsOf(stored)
	require.Equal(t, 7, limits.Sessions)
	require.EqualValues(t, 5, limits.ForwardBytes)
}

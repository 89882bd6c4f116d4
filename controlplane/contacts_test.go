package controlplane

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
)

// TestContacts_NoteAll notes each virtual cluster of etcd once after an agent's call. One that fails waits, and the others are noted.
func TestContacts_NoteAll(t *testing.T) {
	s := newClusters(nil, nil, keys.NewSet(), prometheus.NewRegistry(), zap.NewNop())
	for _, from := range []source{{ofEtcd, "a"}, {ofEtcd, "b"}, {ofEtcd, "quiet"}, {ofSettings, "settings"}} {
		spec := &directory.Spec{ID: from.key, Name: from.key, State: directory.Active}
		s.mu.bySource[from] = &entry{source: from, spec: spec, running: &cluster{spec: spec}}
		s.mu.byName[from.key] = s.mu.bySource[from]
	}
	broken := map[string]bool{"a": true}
	var noted []string
	c := newContacts(s, func(_ context.Context, clusterID string) error {
		if broken[clusterID] {
			return errBroken
		}
		noted = append(noted, clusterID)
		return nil
	}, zap.NewNop(), prometheus.NewRegistry())
	look := func(failed int) {
		t.Helper()
		got, _ := c.noteAll(t.Context())
		require.Equal(t, failed, got)
	}
	look(0)
	require.Empty(t, noted)
	for _, name := range []string{"a", "b", "settings"} {
		_, err := s.session(name)
		require.NoError(t, err)
	}
	look(1)
	require.Equal(t, []string{"b"}, noted)
	look(1)
	broken["a"] = false
	look(0)
	look(0)
	require.Equal(t, []string{"b", "a"}, noted)
}

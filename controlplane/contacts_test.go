package controlplane

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/registry"
)

// TestContacts_NoteAll notes each virtual cluster of etcd after an agent's call, at most once in registry.ContactEvery. One that fails waits, and the others
// are noted. Agents with a session are noted without a call.
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
	served, looks := "", 0
	c.serves = func(of *cluster) bool {
		looks++
		return of.spec.ID == served
	}
	now := time.Now()
	look := func(failed int) {
		t.Helper()
		got, _ := c.noteAll(t.Context(), now)
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
	_, err := s.session("b")
	require.NoError(t, err)
	now = now.Add(registry.ContactEvery - 1)
	look(0)
	require.Len(t, noted, 2)
	require.Zero(t, looks)

	noted, now = nil, now.Add(1)
	look(0)
	require.Equal(t, []string{"b"}, noted, "a second call")
	look(0)
	require.Equal(t, 1, looks, "a has no session, and is not looked at again soon")
	now, served = now.Add(sessionLook), "a"
	look(0)
	require.Equal(t, []string{"b", "a"}, noted, "a session without a call")
	now = now.Add(registry.ContactEvery)
	broken["a"] = true
	look(1)
	served = ""
	look(1)
	broken["a"] = false
	look(0)
	require.Equal(t, []string{"b", "a", "a"}, noted, "a session that ended since the failure")
}

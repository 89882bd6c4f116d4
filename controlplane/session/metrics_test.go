package session_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/session"
)

func TestMetrics_NamesAreWellFormed(t *testing.T) {
	r := prometheus.NewRegistry()
	for _, name := range []string{"one", "two"} { // virtual clusters may count together
		session.NewCluster(session.ClusterConfig{Name: name, Registerer: r})
	}
	_, err := client.New(client.Config{
		Replicas: []string{"a:1"}, VirtualCluster: "one", Endpoints: []*api.Endpoint{{}}, Handler: new(agent), Registerer: r,
	})
	require.NoError(t, err)
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
	families, err := r.Gather()
	require.NoError(t, err)
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		require.NotEmpty(t, f.GetHelp())
	}
	require.Equal(t, []string{
		"freshet_agent_session_connected",
		"freshet_agent_session_reconnects_total",
		"freshet_agent_session_repeats_total",
		"freshet_agent_session_sent_items_total",
		"freshet_agent_session_sent_messages_total",
		"freshet_agent_sessions_closed_total",
		"freshet_session_closed_total",
		"freshet_session_held_commits",
		"freshet_session_hidden_total",
		"freshet_session_lookup_partitions_total",
		"freshet_session_notices_total",
		"freshet_session_parked_resubmissions", "freshet_session_refused_loads_total",
		"freshet_session_sent_items_total",
		"freshet_session_sent_messages_total",
		"freshet_session_stamps_total",
		"freshet_session_streams",
	}, names)
}

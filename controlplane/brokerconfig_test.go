package controlplane

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/group"
	"github.com/freshet-io/freshet/controlplane/group/assignor"
	"github.com/freshet-io/freshet/controlplane/txn"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/metadata"
)

// TestBrokerConfigs_DefaultsAreWhatRuns: what brokers show unless told otherwise is what the parts do by themselves.
func TestBrokerConfigs_DefaultsAreWhatRuns(t *testing.T) {
	var b brokerconfig.Settings
	require.EqualValues(t, metadata.TransactionalIDExpirationMs, b.Int(brokerconfig.TransactionalIDExpirationMs))
	require.EqualValues(t, metadata.ProducerIDExpirationMs, b.Int(brokerconfig.ProducerIDExpirationMs))
	require.Equal(t, txn.DefaultMaxTimeout, b.Duration(brokerconfig.TransactionMaxTimeoutMs))
	require.Equal(t, assignor.Names(), brokerconfig.Assignors)

	want := group.Settings{MaxSize: math.MaxInt32, ConsumerMaxSize: math.MaxInt32, ConsumerAssignors: assignor.Names()}
	want.ApplyDefaults()
	got := group.SettingsOf(b)
	require.NoError(t, got.Validate())
	got.ApplyDefaults()
	require.Equal(t, want, got)
}

// TestBrokerConfigs_ReachTheCoordinators sets every config of groups to something else.
func TestBrokerConfigs_ReachTheCoordinators(t *testing.T) {
	var b brokerconfig.Settings
	for name, value := range map[string]string{
		brokerconfig.MinSessionTimeoutMs: "1", brokerconfig.MaxSessionTimeoutMs: "2", brokerconfig.InitialRebalanceDelayMs: "0",
		brokerconfig.MaxSize: "3", brokerconfig.ConsumerSessionTimeoutMs: "5", brokerconfig.ConsumerHeartbeatIntervalMs: "4",
		brokerconfig.ConsumerAssignmentIntervalMs: "0", brokerconfig.ConsumerMaxSize: "6", brokerconfig.ConsumerAssignors: "range",
		brokerconfig.ConsumerMigrationPolicy: "upgrade", brokerconfig.OffsetMetadataMaxBytes: "7",
		brokerconfig.OffsetsRetentionMinutes: "8", brokerconfig.OffsetsRetentionCheckMs: "9",
	} {
		require.NoError(t, b.Set(name, value))
	}
	got := group.SettingsOf(b)
	require.Equal(t, group.Settings{
		MinSession: 1e6, MaxSession: 2e6, InitialRebalanceDelay: -1, MaxSize: 3, ConsumerSession: 5e6, ConsumerHeartbeat: 4e6,
		ConsumerAssignment: -1, ConsumerMaxSize: 6, ConsumerAssignors: []string{"range"}, ConsumerMigration: "upgrade",
		OffsetMetadataMaxBytes: 7, OffsetsRetention: 8 * time.Minute, OffsetsRetentionCheck: 9e6,
	}, got)
	got.ApplyDefaults()
	require.NoError(t, got.Validate())
	got.ConsumerMigration = "sideways"
	require.ErrorContains(t, got.Validate(), "sideways")
}

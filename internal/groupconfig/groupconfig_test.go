package groupconfig

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/topicconfig"
)

func TestTable(t *testing.T) {
	require.True(t, slices.IsSortedFunc(table, func(a, b Def) int { return strings.Compare(a.Name, b.Name) }))
	for _, d := range All() {
		require.NoError(t, Validate(map[string]string{d.Name: d.Default}, brokerconfig.Settings{}), d.Name)
		require.NotEmpty(t, d.Doc, d.Name)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct{ name, value, message string }{
		{"consumer.session.timeout.ms", "50000", ""},
		{"consumer.session.timeout.ms", "x", "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"},
		{"consumer.session.timeout.ms", "0", "Invalid value 0 for configuration consumer.session.timeout.ms: Value must be at least 1"},
		{"consumer.session.timeout.ms", "5", "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"consumer.heartbeat.interval.ms", "50000", "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
		{"streams.num.standby.replicas", "3", "streams.num.standby.replicas must be less than or equal to 2"},
		{"share.partition.max.record.locks", "9999", "share.partition.max.record.locks must be in the range 100 to 4000 inclusive."},
		{"share.auto.offset.reset", "by_duration:P1DT2H0.5S", ""},
		{
			"share.auto.offset.reset", "by_duration:PT",
			"Invalid value by_duration:PT for configuration share.auto.offset.reset: Invalid value `by_duration:PT` for configuration share.auto.offset.reset. " +
				"The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
		},
		{"streams.assignor.name", "mine", "streams.assignor.name 'mine' is not a registered task assignor. Registered assignors are: [sticky]."},
		{"streams.assignment.interval.ms", "15001", "streams.assignment.interval.ms must be in the range 0 to 15000 inclusive."},
		{"share.isolation.level", "none", "Invalid value none for configuration share.isolation.level: String must be one of: read_committed, read_uncommitted"},
		{"bogus", "5", "Unknown group config name: bogus"},
	} {
		err := Validate(map[string]string{c.name: c.value}, brokerconfig.Settings{})
		if c.message == "" {
			require.NoError(t, err, c)
			continue
		}
		require.ErrorIs(t, err, topicconfig.ErrInvalid)
		require.EqualError(t, err, c.message)
	}
}

func TestEffective(t *testing.T) {
	var brokers brokerconfig.Settings
	require.Equal(t, "45000", Effective(nil, brokers, ConsumerSessionTimeoutMs))
	require.NoError(t, brokers.Set("group.consumer.session.timeout.ms", "50000"))
	require.Equal(t, "50000", Effective(nil, brokers, ConsumerSessionTimeoutMs))
	require.Equal(t, "60000", Effective(map[string]string{ConsumerSessionTimeoutMs: " 60000"}, brokers, ConsumerSessionTimeoutMs))
}

// TestValidate_BrokersBounds checks that broker configs set the bounds and the default of a group's configs.
func TestValidate_BrokersBounds(t *testing.T) {
	var brokers brokerconfig.Settings
	group := map[string]string{ConsumerSessionTimeoutMs: "9000"}
	require.EqualError(t, Validate(group, brokers), "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.")
	require.NoError(t, brokers.Set("group.consumer.min.session.timeout.ms", "1000"))
	require.NoError(t, Validate(group, brokers))
	require.NoError(t, brokers.Set("group.consumer.heartbeat.interval.ms", "10000"))
	require.EqualError(t, Validate(group, brokers), "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms")
	require.NoError(t, brokers.Set("group.consumer.max.session.timeout.ms", "8000"))
	require.EqualError(t, Validate(group, brokers), "consumer.session.timeout.ms must be in the range 1000 to 8000 inclusive.")
}

// TestTable_BrokerDefaults checks that both tables have the same defaults and bounds for the configs in both.
func TestTable_BrokerDefaults(t *testing.T) {
	shared := 0
	for _, d := range All() {
		if b, ok := brokerconfig.Lookup(d.Broker); ok {
			shared++
			require.Equal(t, b.Default, d.Default, d.Name)
			require.NoError(t, d.checkBounds(d.high, brokerconfig.Settings{}))
			require.Error(t, d.checkBounds(d.high+1, brokerconfig.Settings{}))
		}
	}
	require.Equal(t, 3, shared)
}

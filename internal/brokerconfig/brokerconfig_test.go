package brokerconfig_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/topicconfig"
)

func TestTable(t *testing.T) {
	all := brokerconfig.All()
	require.True(t, slices.IsSortedFunc(all, func(a, b brokerconfig.Def) int { return strings.Compare(a.Name, b.Name) }))
	for _, d := range all {
		require.NotEmpty(t, d.Doc, d.Name)
		var s brokerconfig.Settings
		err := s.Set(d.Name, d.Default)
		if d.Fixed {
			require.EqualError(t, err, d.Name+" cannot be set")
			continue
		}
		require.NoError(t, err, d.Name)
		value, set := s.Value(d.Name)
		require.True(t, set)
		require.Equal(t, d.Default, value)
		require.NoError(t, s.Validate())
	}
}

func TestSettings_Set(t *testing.T) {
	for _, c := range []struct{ name, value, shown, fault string }{
		{"group.max.size", " 200", "200", ""},
		{"group.max.size", "0", "", "Invalid value 0 for configuration group.max.size: Value must be at least 1"},
		{"group.max.size", "many", "", "Invalid value many for configuration group.max.size: Not a number of type INT"},
		{"group.max.size", "4294967296", "", "Invalid value 4294967296 for configuration group.max.size: Not a number of type INT"},
		{"group.initial.rebalance.delay.ms", "0", "0", ""},
		{"group.consumer.migration.policy", "UPGRADE", "upgrade", ""},
		{"group.consumer.migration.policy", "sideways", "", "Invalid value sideways for configuration group.consumer.migration.policy: " +
			"String must be one of (case insensitive): BIDIRECTIONAL, DISABLED, DOWNGRADE, UPGRADE"},
		{"group.consumer.assignors", "range, uniform", "range,uniform", ""},
		{"group.consumer.assignors", "range,range", "", "Invalid value range,range for configuration group.consumer.assignors: " +
			"Configuration 'group.consumer.assignors' values must not be duplicated"},
		{"group.consumer.assignors", "", "", "Invalid value  for configuration group.consumer.assignors: " +
			"Configuration 'group.consumer.assignors' must not be empty. Valid values include: any non-empty value"},
		{"group.consumer.assignors", "org.example.Mine", "", "Invalid value org.example.Mine for configuration group.consumer.assignors: there are uniform, range"},
		{"transactional.id.expiration.ms", "1", "", "transactional.id.expiration.ms cannot be set"},
		{"no.such", "1", "", "Unknown broker config name: no.such"},
	} {
		var s brokerconfig.Settings
		err := s.Set(c.name, c.value)
		if c.fault != "" {
			require.ErrorIs(t, err, topicconfig.ErrInvalid)
			require.EqualError(t, err, c.fault)
			continue
		}
		require.NoError(t, err)
		value, set := s.Value(c.name)
		require.True(t, set)
		require.Equal(t, c.shown, value)
	}
}

func TestSettings_ValidateTellsAll(t *testing.T) {
	var s brokerconfig.Settings
	require.NoError(t, s.Validate())
	require.NoError(t, s.Set("group.min.session.timeout.ms", "3600000"))
	require.NoError(t, s.Set("group.consumer.session.timeout.ms", "5000"))
	require.NoError(t, s.Set("group.consumer.max.heartbeat.interval.ms", "4000"))
	require.NoError(t, s.Set("group.consumer.assignment.interval.ms", "15001"))
	require.EqualError(t, s.Validate(), `group.max.session.timeout.ms must be greater than or equal to group.min.session.timeout.ms
group.consumer.max.heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms
group.consumer.max.heartbeat.interval.ms must be greater than or equal to group.consumer.heartbeat.interval.ms
group.consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms
group.consumer.max.assignment.interval.ms must be greater than or equal to group.consumer.assignment.interval.ms
group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms`)
}

func TestSettings_CloneIsIndependent(t *testing.T) {
	var s brokerconfig.Settings
	require.NoError(t, s.Set("group.max.size", "5"))
	c := s.Clone()
	require.NoError(t, s.Set("group.max.size", "6"))
	require.EqualValues(t, 5, c.Int("group.max.size"))
}

func TestSettings_FlagsEnvironmentAndFile(t *testing.T) {
	var s brokerconfig.Settings
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Bind(f)
	require.NoError(t, f.Parse([]string{"--group-max-size", "7", "--group-consumer-migration-policy=disabled"}))
	require.NoError(t, config.Load(f, config.Sources{Environ: func() []string {
		return []string{"FRESHET_GROUP_MIN_SESSION_TIMEOUT_MS=10", "FRESHET_GROUP_CONSUMER_ASSIGNORS=range"}
	}}))
	require.EqualValues(t, 7, s.Int("group.max.size"))
	require.Equal(t, 10*time.Millisecond, s.Duration("group.min.session.timeout.ms"))
	require.Equal(t, []string{"range"}, s.List("group.consumer.assignors"))
	_, set := s.Value("group.consumer.max.size")
	require.False(t, set)
	require.Nil(t, f.Lookup("producer-id-expiration-ms"), "cannot be set")
	require.ErrorContains(t, f.Parse([]string{"--group-max-size", "0"}), "at least 1")
	require.Contains(t, config.Usage(f), "--group-min-session-timeout-ms number\n        shortest session time-out")
}

package groupconfig

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/topicconfig"
)

func TestTable(t *testing.T) {
	require.True(t, slices.IsSortedFunc(table, func(a, b Def) int { return strings.Compare(a.Name, b.Name) }))
	for _, d := range All() {
		require.NoError(t, Validate(map[string]string{d.Name: d.Default}), d.Name)
		require.NotEmpty(t, d.Doc, d.Name)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct{ name, value, message string }{
		{"consumer.session.timeout.ms", "50000", ""},
		{"consumer.session.timeout.ms", "x", "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"},
		{"consumer.session.timeout.ms", "0", "Invalid value 0 for configuration consumer.session.timeout.ms: Value must be at least 1"},
		{"consumer.session.timeout.ms", "5", "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"},
		{"consumer.heartbeat.interval.ms", "50000", "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms"},
		{"streams.num.standby.replicas", "3", "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"},
		{"share.partition.max.record.locks", "9999", "share.partition.max.record.locks must be less than or equal to group.share.max.partition.max.record.locks"},
		{"share.auto.offset.reset", "by_duration:P1DT2H0.5S", ""},
		{"share.auto.offset.reset", "by_duration:PT", "Invalid value by_duration:PT for configuration share.auto.offset.reset: String must be one of: earliest, latest"},
		{"share.isolation.level", "none", "Invalid value none for configuration share.isolation.level: String must be one of: read_committed, read_uncommitted"},
		{"bogus", "5", "Unknown group config name: bogus"},
	} {
		err := Validate(map[string]string{c.name: c.value})
		if c.message == "" {
			require.NoError(t, err, c)
			continue
		}
		require.ErrorIs(t, err, topicconfig.ErrInvalid)
		require.EqualError(t, err, c.message)
	}
}

func TestResolve(t *testing.T) {
	require.Equal(t, Values{45 * time.Second, 5 * time.Second, time.Second}, Resolve(nil))
	v := Resolve(map[string]string{ConsumerSessionTimeoutMs: " 60000"})
	require.Equal(t, time.Minute, v.ConsumerSessionTimeout)
}

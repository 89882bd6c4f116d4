package clientmetrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/topicconfig"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, config, value, message string
		is                           error
	}{
		{"s", "metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer.", "", nil},
		{"s", "interval.ms", "100", "", nil},
		{"s", "interval.ms", "99", "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)", ErrRequest},
		{"s", "interval.ms", "x", "Invalid value x for configuration interval.ms: Not a number of type INT", topicconfig.ErrInvalid},
		{"s", "match", "client_id=", "Illegal client matching pattern: client_id=", topicconfig.ErrInvalid},
		{"s", "match", "client_id=a=b", "Illegal client matching pattern: client_id=a=b", topicconfig.ErrInvalid},
		{"s", "match", "bogus=x", "Illegal client matching pattern: bogus=x", topicconfig.ErrInvalid},
		{"s", "match", "client_id=a,client_id=a", "Illegal client matching pattern: client_id=a", topicconfig.ErrInvalid},
		{"s", "match", "client_id=[", "Illegal client matching pattern: client_id=[", topicconfig.ErrInvalid},
		{"s", "bogus", "x", "Unknown client metrics configuration: bogus", ErrRequest},
		{"", "metrics", "x", "Subscription name can't be empty", ErrRequest},
	} {
		_, err := Parse(c.name, map[string]string{c.config: c.value})
		if c.is == nil {
			require.NoError(t, err, c)
			continue
		}
		require.ErrorIs(t, err, c.is)
		require.EqualError(t, err, c.message)
	}
}

func TestSubscription_Matches(t *testing.T) {
	s, err := Parse("s", map[string]string{"match": "client_id=app-.*, client_software_name=java", "interval.ms": "1000"})
	require.NoError(t, err)
	require.Equal(t, time.Second, s.Interval)
	require.True(t, s.Matches(&Client{ClientID: "app-1", SoftwareName: "java"}, NewBudget()))
	require.False(t, s.Matches(&Client{ClientID: "an-app-1", SoftwareName: "java"}, NewBudget()), "the whole value")
	require.False(t, s.Matches(&Client{ClientID: "app-1", SoftwareName: "librdkafka"}, NewBudget()), "all patterns")
	every, err := Parse("s", map[string]string{"metrics": "*"})
	require.NoError(t, err)
	require.True(t, every.Matches(&Client{}, NewBudget()))
}

// Client IDs have up to 32 KiB, and a pattern up to 10,000 instructions: without a bound, one match takes seconds.
func TestSubscription_MatchesWithinABudget(t *testing.T) {
	slow, err := Parse("slow", map[string]string{"match": "client_id=" + strings.Repeat("(?:a|b|a?){90}", 18) + "x"})
	require.NoError(t, err)
	budget := NewBudget()
	require.False(t, slow.Matches(&Client{ClientID: strings.Repeat("a", 32_000)}, budget))
	require.Negative(t, *budget)
	quick, err := Parse("quick", map[string]string{"match": "client_id=a"})
	require.NoError(t, err)
	require.False(t, quick.Matches(&Client{ClientID: "a"}, budget))
	require.True(t, quick.Matches(&Client{ClientID: "a"}, NewBudget()))
}

func TestParse_BoundOfMetrics(t *testing.T) {
	metrics := make([]string, MaxMetrics)
	for i := range metrics {
		metrics[i] = fmt.Sprint("m", i)
	}
	_, err := Parse("s", map[string]string{"metrics": strings.Join(metrics, ",")})
	require.NoError(t, err)
	_, err = Parse("s", map[string]string{"metrics": strings.Join(append(metrics, "one more"), ",")})
	require.ErrorIs(t, err, topicconfig.ErrInvalid)
}

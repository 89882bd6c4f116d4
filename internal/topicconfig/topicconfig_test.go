package topicconfig

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	require.True(t, slices.IsSortedFunc(table, func(a, b Def) int { return strings.Compare(a.Name, b.Name) }))
	for _, d := range All() {
		text, err := d.Normalize(d.Default)
		require.NoError(t, err, d.Name)
		require.Equal(t, d.Default, text, d.Name)
		require.NotEmpty(t, d.Doc, d.Name)
		require.NotNil(t, d.rule.check, d.Name)
		require.Len(t, strings.Fields(d.Name), 1)
		found, ok := Lookup(d.Name)
		require.True(t, ok)
		require.Equal(t, d.Name, found.Name)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct{ name, value, message string }{
		{"cleanup.policy", "compact,delete", ""},
		{"cleanup.policy", " delete , compact ", ""},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "compact,compact", ""},
		{"cleanup.policy", "keep", "Invalid value keep for configuration cleanup.policy: String must be one of: compact, delete"},
		{"retention.ms", "-1", ""},
		{"retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.ms", "soon", "Invalid value soon for configuration retention.ms: Not a number of type LONG"},
		{"max.message.bytes", "3000000000", "Invalid value 3000000000 for configuration max.message.bytes: Not a number of type INT"},
		{"min.cleanable.dirty.ratio", "1.5", "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{"compression.gzip.level", "0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.type", "zstd", ""},
		{"compression.type", "none", "Invalid value none for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"leader.replication.throttled.replicas", "0:1,1:2", ""},
		{"remote.storage.enable", "false", ""},
		{"remote.storage.enable", "True", "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."},
		{"remote.log.copy.disable", "FALSE", ""},
		{
			"remote.log.copy.disable", "true",
			"Invalid value true for configuration remote.log.copy.disable: Value must be false, since segments are not copied to remote storage",
		},
		{
			"remote.log.delete.on.disable", "true",
			"Invalid value true for configuration remote.log.delete.on.disable: Value must be false, since segments are not copied to remote storage",
		},
		{"no.such.config", "1", "Unknown topic config name: no.such.config"},
		{"message.format.version", "2.8", "Unknown topic config name: message.format.version"},
		{"min.compaction.lag.ms", "9223372036854775807", ""},
	} {
		err := Validate(map[string]string{c.name: c.value}, nil)
		if c.message == "" {
			require.NoError(t, err, c)
			continue
		}
		require.ErrorIs(t, err, ErrInvalid)
		require.EqualError(t, err, c.message)
	}
	err := Validate(map[string]string{MinCompactionLagMs: "10"}, map[string]string{"log.cleaner.max.compaction.lag.ms": "5"})
	require.EqualError(t, err, "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)")
}

func TestResolve(t *testing.T) {
	defaults := Resolve(nil, nil)
	require.Equal(t, int32(1048588), defaults.MaxMessageBytes)
	require.Equal(t, CreateTime, defaults.TimestampType)
	require.Equal(t, int64(math.MaxInt64), defaults.TimestampBeforeMax)
	require.Equal(t, int64(3600000), defaults.TimestampAfterMax)
	require.Equal(t, "producer", defaults.CompressionType)
	require.True(t, defaults.Delete)
	require.False(t, defaults.Compact)
	require.Equal(t, 7*24*time.Hour, defaults.Retention)
	require.Greater(t, defaults.MaxCompactionLag, 200*365*24*time.Hour)

	v := Resolve(map[string]string{
		MaxMessageBytes: "100", MessageTimestampType: "LogAppendTime", CompressionType: "zstd", CompressionZstdLevel: "7",
		CleanupPolicy: "compact", RetentionMs: "-1",
	}, map[string]string{"message.max.bytes": "200", "log.retention.bytes": "5"})
	require.Equal(t, "compact,delete", Effective(map[string]string{CleanupPolicy: "compact, delete,compact"}, nil, CleanupPolicy))
	require.Equal(t, int32(100), v.MaxMessageBytes)
	require.Equal(t, LogAppendTime, v.TimestampType)
	require.Equal(t, 7, v.CompressionLevel)
	require.True(t, v.Compact)
	require.False(t, v.Delete)
	require.Negative(t, v.Retention)
	require.Equal(t, int64(5), v.RetentionBytes)
}

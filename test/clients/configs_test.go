package clients

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// values are, for each topic config, values that Kafka's validators judge differently. A config that is not named here
// gets those of its type.
var values = map[string][]string{
	"cleanup.policy":                          {"compact", "delete", "compact,delete", "", "keep", "delete,delete", " compact "},
	"compression.type":                        {"producer", "uncompressed", "gzip", "zstd", "none", "GZIP"},
	"compression.gzip.level":                  {"-1", "0", "1", "9", "10"},
	"compression.lz4.level":                   {"0", "1", "17", "18"},
	"compression.zstd.level":                  {"-131073", "-131072", "0", "22", "23"},
	"message.timestamp.type":                  {"CreateTime", "LogAppendTime", "createtime"},
	"leader.replication.throttled.replicas":   {"", "*", "0:1,1:2", "0"},
	"follower.replication.throttled.replicas": {"", "*", "0:1,1:2", "x:y"},
	"min.cleanable.dirty.ratio":               {"0", "0.5", "1", "1.1", "-0.1", "x"},
	"segment.bytes":                           {"1048575", "1048576", "14"},
}

// ordinary are values that numbers and booleans are tried with.
var ordinary = []string{"-3", "-2", "-1", "0", "1", "3", "4", "9223372036854775807", "9223372036854775808", "True", "soon", "", " 5 "}

// compareConfigs: every topic config that Kafka has is known here and, but for Freshet's own, no other, and each takes and
// refuses the same values, in creation and in change, and shows the same afterwards.
func compareConfigs(t *testing.T, broker *harness.Kafka) {
	t.Helper()
	kafka, freshet := newSide(t, broker.Bootstrap), newSide(t, harness.StartDev(t).Bootstrap)
	sides := []*side{freshet, kafka}
	names := make([]map[string]string, 2)
	for i, s := range sides {
		create := kmsg.NewPtrCreateTopicsRequest()
		create.TimeoutMillis, create.Topics = 30_000, append(create.Topics, newTopic("configs", 1))
		require.Zero(t, ask[*kmsg.CreateTopicsResponse](t, s.conn, create, 7).Topics[0].ErrorCode)
		awaitLeader(t, s, "configs", 0)
		names[i] = described(t, s)
	}
	require.Contains(t, names[0], "freshet.latency")
	maps.DeleteFunc(names[0], func(name, _ string) bool { return strings.HasPrefix(name, ownConfigs) })
	delete(names[0], "min.insync.replicas") // its source differs: elr
	delete(names[1], "min.insync.replicas")
	require.Equal(t, names[1], names[0], "names, defaults, types and sources")
	names[0]["min.insync.replicas"] = ""
	for name := range names[0] {
		tried := values[name]
		if tried == nil {
			tried = ordinary
		}
		for _, value := range tried {
			codes := make([]string, 2)
			for i, s := range sides {
				codes[i] = setConfig(t, s, name, value)
			}
			if reason := configDiffers(name, value); reason != "" {
				require.NotEqual(t, codes[1], codes[0], "no longer different: %s=%q (%s)", name, value, reason)
				for _, s := range sides {
					require.Equal(t, "0", unsetConfig(t, s, name))
				}
				continue
			}
			if codes[0] != codes[1] {
				t.Errorf("%s=%q: freshet %s, kafka %s", name, value, codes[0], codes[1])
			}
			if name == "min.insync.replicas" {
				continue // its source differs: elr
			}
			// Kafka's broker shows a change when its controller told it.
			var shown, want string
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				if shown, want = described(t, freshet)[name], described(t, kafka)[name]; shown == want {
					break
				}
				<-time.After(askAgain)
			}
			if shown != want {
				t.Errorf("%s=%q shows as %q, in kafka %q", name, value, shown, want)
			}
		}
		for _, s := range sides {
			require.Equal(t, "0", unsetConfig(t, s, name), name)
		}
	}
}

// copyLags are values of ordinary that Kafka takes though it does not tier either.
var copyLags = map[string][]string{
	"remote.copy.lag.bytes": {"0", "1", "3", "4", " 5 ", "9223372036854775807"},
	"remote.copy.lag.ms":    {"-1", "1", "3", "4", " 5 ", "9223372036854775807"},
}

// configDiffers says why a value is judged otherwise than in Kafka.
func configDiffers(name, value string) string {
	switch {
	case slices.Contains(copyLags[name], value), strings.HasPrefix(name, "remote.log.") && strings.EqualFold(value, "true"):
		return "nothing is copied to remote storage"
	case name == "errors.deadletterqueue.group.enable" && strings.EqualFold(value, "true"):
		return "there are no share groups"
	}
	return ""
}

// described gives a topic's configs: name to value, type and source.
func described(t *testing.T, s *side) map[string]string {
	t.Helper()
	resp := ask[*kmsg.DescribeConfigsResponse](t, s.conn, describeOf("configs").req(s, 0).(*kmsg.DescribeConfigsRequest), 4)
	out := map[string]string{}
	for _, c := range resp.Resources[0].Configs {
		value := "null"
		if c.Value != nil {
			value = *c.Value
		}
		out[c.Name] = fmt.Sprint(value, " ", c.ConfigType, " ", c.Source, " ", c.ReadOnly, c.IsSensitive)
	}
	return out
}

func setConfig(t *testing.T, s *side, name, value string) string {
	t.Helper()
	return alterConfig(t, s, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Value: &value})
}

func unsetConfig(t *testing.T, s *side, name string) string {
	t.Helper()
	return alterConfig(t, s, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: kmsg.IncrementalAlterConfigOpDelete})
}

// alterConfig changes a config of the topic "configs" and gives the code.
func alterConfig(t *testing.T, s *side, c kmsg.IncrementalAlterConfigsRequestResourceConfig) string {
	t.Helper()
	req, r := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.Configs = kmsg.ConfigResourceTypeTopic, "configs", append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	return code(ask[*kmsg.IncrementalAlterConfigsResponse](t, s.conn, req, 1).Resources[0].ErrorCode)
}

// TestConfigs_Effects: the configs that say they act do, at once and after a change; those without effect have none.
func TestConfigs_Effects(t *testing.T) {
	t.Parallel()
	s := newSide(t, harness.StartDev(t).Bootstrap)
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 30_000
	create.Topics = append(create.Topics, newTopic("configs", 1, "min.insync.replicas", "3", "flush.messages", "1", "segment.bytes", "1048576"))
	require.Zero(t, ask[*kmsg.CreateTopicsResponse](t, s.conn, create, 7).Topics[0].ErrorCode)
	s.learn(t)
	produce := func(spec batchSpec) string {
		t.Helper()
		resp := ask[*kmsg.ProduceResponse](t, s.conn, produceTo("configs", s.ids["configs"], 0, spec.raw()), 9)
		return code(resp.Topics[0].Partitions[0].ErrorCode)
	}
	// A change is in force at an agent when the agent was told; until then the old answer is right.
	becomes := func(want string, spec batchSpec) {
		t.Helper()
		require.Eventually(t, func() bool { return produce(spec) == want }, time.Minute, 5*time.Millisecond, want)
	}
	now := time.Now().UnixMilli()
	plain := batchSpec{timestamp: now}
	keyless := batchSpec{timestamp: now, records: []kmsg.Record{{Value: []byte("v")}}}
	large := batchSpec{timestamp: now, change: gzipped, records: []kmsg.Record{{Key: []byte("k"), Value: make([]byte, 64<<10)}}}
	require.Equal(t, "0", produce(plain), "configs without effect are without effect")
	for _, c := range []struct {
		name, value string
		refused     batchSpec
		code        *kerr.Error
	}{
		{"max.message.bytes", "65", plain, kerr.MessageTooLarge},
		{"max.decompressed.message.bytes", "65536", large, kerr.InvalidRecord},
		{"message.timestamp.before.max.ms", "1000", batchSpec{timestamp: now - 60_000}, kerr.InvalidTimestamp},
		{"message.timestamp.after.max.ms", "1000", batchSpec{timestamp: now + 60_000}, kerr.InvalidTimestamp},
		{"cleanup.policy", "compact", keyless, kerr.InvalidRecord},
		{"cleanup.policy", "compact,delete", keyless, kerr.InvalidRecord},
	} {
		require.Equal(t, "0", setConfig(t, s, c.name, c.value))
		becomes(c.code.Message, c.refused)
		require.Equal(t, "0", unsetConfig(t, s, c.name))
		becomes("0", c.refused)
	}
	for _, codec := range []string{"gzip", "snappy", "lz4", "zstd", "uncompressed"} {
		require.Equal(t, "0", setConfig(t, s, "compression.type", codec))
		want := map[string]int16{"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
		require.Eventually(t, func() bool { return lastAttributes(t, s, plain)&7 == want }, time.Minute, 5*time.Millisecond, codec)
	}
	require.Equal(t, "0", setConfig(t, s, "message.timestamp.type", "LogAppendTime"))
	require.Eventually(t, func() bool { return lastAttributes(t, s, plain)&8 != 0 }, time.Minute, 5*time.Millisecond)
}

// lastAttributes produces a batch and gives the attributes that it is stored with.
func lastAttributes(t *testing.T, s *side, spec batchSpec) int16 {
	t.Helper()
	produced := ask[*kmsg.ProduceResponse](t, s.conn, produceTo("configs", s.ids["configs"], 0, spec.raw()), 9).Topics[0].Partitions[0]
	require.Zero(t, produced.ErrorCode, code(produced.ErrorCode))
	fetched := ask[*kmsg.FetchResponse](t, s.conn, fetchFrom("configs", s.ids["configs"], 0, produced.BaseOffset), 12).Topics[0].Partitions[0]
	var b kmsg.RecordBatch
	require.NoError(t, b.ReadFrom(fetched.RecordBatches))
	require.Equal(t, produced.BaseOffset, b.FirstOffset)
	return b.Attributes
}

package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 5 << 30: "5.0 GiB", 1<<63 - 1: "8.0 EiB",
	} {
		require.Equal(t, want, sizeText(n))
	}
}

// TestSumOf: a topic is as large as its partitions and as new as the newest, and unknown if one of them is.
func TestSumOf(t *testing.T) {
	now := time.UnixMilli(100_000)
	of := func(bytes, newest int64) stored { return stored{&bytes, &newest} }
	show := func(s stored) string { return s.size() + ", " + s.age(now) }
	require.Equal(t, "0 B, none", show(sumOf(nil)))
	require.Equal(t, "30 B, 20 s ago", show(sumOf([]stored{of(10, 80_000), of(20, -1)})))
	require.Equal(t, "-, -", show(sumOf([]stored{of(10, 80_000), {}})))
}

// TestListTopics_SizesUnknown: the reason for missing sizes is on standard error, and the topics are listed.
func TestListTopics_SizesUnknown(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "t"), kfake.SeedTopics(1, "__consumer_offsets"))
	require.NoError(t, err)
	defer cluster.Close()
	var refused int16
	cluster.ControlKey(int16(kmsg.DescribeLogDirs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return &kmsg.DescribeLogDirsResponse{Version: req.GetVersion(), ErrorCode: refused}, nil, true
	})
	for code, want := range map[int16]string{0: "no agent answered for 2 partitions\n", kerr.RequestTimedOut.Code: "REQUEST_TIMED_OUT: "} {
		refused = code
		var out, errs bytes.Buffer
		c := TopicConfig{ClientConfig: ClientConfig{Bootstrap: cluster.ListenAddrs()}}
		require.NoError(t, ListTopics(t.Context(), c, Streams{Out: &out, Err: &errs}))
		require.Contains(t, errs.String(), "freshet: sizes of topics are unknown: "+want)
		require.Regexp(t, `(?m)^TOPIC +PARTITIONS +SIZE +NEWEST RECORD\n(.*\n)?t +2 +- +none$`, out.String())
	}
}

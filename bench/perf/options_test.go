package perf

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	c := DefaultConfig()
	f := pflag.NewFlagSet("perf", pflag.ContinueOnError)
	BindFlags(f, &c)
	err := f.Parse(SpreadLists(args))
	if err == nil {
		c.ApplyDefaults()
		err = c.Validate()
	}
	return c, err
}

// The defaults of the tool, option by option.
func TestBindFlags_Defaults(t *testing.T) {
	c := DefaultConfig()
	f := pflag.NewFlagSet("perf", pflag.ContinueOnError)
	BindFlags(f, &c)
	got := map[string]string{}
	f.VisitAll(func(o *pflag.Flag) { got["-"+o.Shorthand+" --"+o.Name] = o.DefValue })
	require.Equal(t, map[string]string{
		"-B --bootstrap-server": "localhost:9092", "- --reuse-topics": "false", "- --catchup-topic-prefix": "",
		"-F --common-config-file": "", "-A --common-configs": "", "-T --topic-configs": "", "-P --producer-configs": "",
		"-C --consumer-configs": "", "- --reset": "false", "-X --topic-prefix": "", "-t --topics": "1", "-n --partitions-per-topic": "1",
		"-g --groups-per-topic": "1", "-c --consumers-per-group": "1", "- --await-topic-ready": "true",
		"-m --max-consume-record-rate": "1000000000", "- --consumers-during-catchup": "100", "-p --producers-per-topic": "1",
		"-s --record-size": "1024", "-R --random-ratio": "0", "-S --random-pool-size": "1000", "-r --send-rate": "1000",
		"-f --send-throughput": "0", "-a --send-rate-during-catchup": "0", "-b --backlog-duration": "0", "-G --group-start-delay": "0",
		"-w --warmup-duration": "1", "-d --test-duration": "5", "-i --reporting-interval": "1", "- --value-schema": "",
		"- --values-file": "", "- --catchup-limit": "86400",
	}, got)
	c.ApplyDefaults()
	require.NoError(t, c.Validate())
	require.Regexp(t, `^topic_\d{13}_[A-Za-z0-9]{4}$`, c.TopicPrefix)
	require.Equal(t, 1000, c.CatchupRate)
}

func TestParse(t *testing.T) {
	c, err := parse(t, "-t", "10", "-T", "retention.ms=1", "segment.ms=2", "-P", "batch.size=0", "-C", "a=b=c",
		"--await-topic-ready", "false", "-f", "80", "-s", "52224", "-b", "600", "-G", "30", "-g", "3", "-w", "10", "-i", "500ms")
	require.NoError(t, err)
	require.Equal(t, 10, c.Topics)
	require.Equal(t, map[string]string{"retention.ms": "1", "segment.ms": "2"}, c.TopicConfigs)
	require.Equal(t, map[string]string{"batch.size": "0"}, c.Producer)
	require.Equal(t, map[string]string{"a": "b=c"}, c.Consumer)
	require.False(t, c.AwaitReady)
	require.Equal(t, 1606, c.SendRate, "80 MiB/s of 52,224 bytes")
	require.Equal(t, 1606, c.CatchupRate)
	require.Equal(t, 10*time.Minute, c.Backlog)
	require.Equal(t, 30*time.Second, c.GroupDelay)
	require.Equal(t, 10*time.Minute, c.Warmup)
	require.Equal(t, 500*time.Millisecond, c.Interval)
}

func TestParse_Faults(t *testing.T) {
	for args, want := range map[string]string{
		"-b 299":                        "--backlog-duration must be 0 or at least 5m0s, not 4m59s",
		"-b 300 -g 4 -G 80":             "--backlog-duration 5m0s must be at least --groups-per-topic x --group-start-delay, which is 5m20s",
		"-b 300 -g 0":                   "catching up needs --groups-per-topic above 0",
		"-t 0 -p -1":                    "--topics must be above 0, not 0\n--producers-per-topic must be above 0, not -1",
		"-R 1.5":                        "--random-ratio must be from 0 to 1, not 1.5",
		"-P batch.size":                 "want name=value, not \"batch.size\"",
		"--await-topic-ready yes":       "want true or false, not \"yes\"",
		"-w soon":                       "want minutes, or a duration such as 90s, not \"soon\"",
		"--values-file v":               "--values-file needs --value-schema",
		"-m 0":                          "--max-consume-record-rate must be from 1 to 1000000000, not 0",
		"--consumers-during-catchup -5": "--consumers-during-catchup must be from 0 to 100, not -5",
	} {
		_, err := parse(t, strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
	}
}

func TestParseOptions(t *testing.T) {
	c, err := ParseOptions("# a comment\n--topics 3\n\n-P batch.size=0 linger.ms=1\n")
	require.NoError(t, err)
	require.Equal(t, 3, c.Topics)
	require.Equal(t, map[string]string{"batch.size": "0", "linger.ms": "1"}, c.Producer)
	_, err = ParseOptions("--topics 3\n--topcs 4\n")
	require.ErrorContains(t, err, "line 2: unknown flag: --topcs")
	_, err = ParseOptions("topics 3\n")
	require.ErrorContains(t, err, `line 1: want an option before "topics"`)
}

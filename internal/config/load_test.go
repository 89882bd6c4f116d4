package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/config"
)

type settings struct {
	Bucket   string
	Flush    int32
	Interval time.Duration
	Brokers  []string
	Level    string
	Auto     bool
	Help     string
}

func bind(s *settings) *pflag.FlagSet {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.StringVar(&s.Bucket, "bucket", "mem://", "where objects are")
	f.Var(config.Size(&s.Flush), "flush-bytes", "size of a bundle")
	f.DurationVar(&s.Interval, "flush-interval", 250*time.Millisecond, "age of a bundle")
	f.Var(config.List(&s.Brokers), "control-plane", "addresses")
	f.Var(config.Choice(&s.Level, "debug", "info"), "log-level", "least level")
	f.BoolVar(&s.Auto, "auto", false, "switch")
	f.StringVar(&s.Help, "only-here", "", "command line only")
	config.CommandLineOnly(f, "only-here")
	return f
}

func load(t *testing.T, s *settings, yaml string, env, args []string) error {
	t.Helper()
	f := bind(s)
	require.NoError(t, f.Parse(args))
	src := config.Sources{Environ: func() []string { return env }}
	if yaml != "" {
		src.File = filepath.Join(t.TempDir(), "freshet.yaml")
		require.NoError(t, os.WriteFile(src.File, []byte(yaml), 0o600))
	}
	src.Others = []string{"linger", "bootstrap-server"}
	return config.Load(f, src)
}

// TestLoad_OneFileServesAllCommands: a key of another command is skipped, and a key of none is named with the nearest of all.
func TestLoad_OneFileServesAllCommands(t *testing.T) {
	var s settings
	require.NoError(t, load(t, &s, "bucket: [b]\nlinger: [no, duration]\n", nil, nil))
	require.Equal(t, "b", s.Bucket, "a list of one value, as another command may take several")
	for key, near := range map[string]string{
		"lingers": ` (is "linger" meant?)`, "bootstrap": ` (is "bootstrap-server" meant?)`, "Flush.Bytes": ` (is "flush-bytes" meant?)`,
		"Linger": ` (is "linger" meant?)`, "retention": "", "only-here": "",
	} {
		err := load(t, &s, key+": x\n", nil, nil)
		require.Error(t, err)
		require.Regexp(t, regexp.QuoteMeta(`freshet.yaml: unknown setting "`+key+`"`+near)+"$", err.Error())
	}
}

func TestLoad_Precedence(t *testing.T) {
	s := settings{Flush: 8 << 20, Brokers: []string{"default:1"}}
	err := load(t, &s,
		"bucket: from-file\nflush-bytes: 1MiB\nflush-interval: 1s\ncontrol-plane: [a:1, b:2]\nauto: true\n",
		[]string{"FRESHET_FLUSH_BYTES=2MiB", "FRESHET_FLUSH_INTERVAL=2s", "FRESHET_PORT=tcp://10.0.0.1:9092", "HOME=/"},
		[]string{"--flush-interval=3s"})
	require.NoError(t, err)
	require.Equal(t, settings{
		Bucket: "from-file", Flush: 2 << 20, Interval: 3 * time.Second, Brokers: []string{"a:1", "b:2"}, Auto: true,
	}, s)
}

func TestLoad_DefaultsStay(t *testing.T) {
	s := settings{Flush: 8 << 20, Brokers: []string{"default:1"}}
	require.NoError(t, load(t, &s, "", nil, nil))
	require.Equal(t, int32(8<<20), s.Flush)
	require.Equal(t, []string{"default:1"}, s.Brokers)
}

func TestLoad_ListOnCommandLineReplacesDefaultAndAppends(t *testing.T) {
	s := settings{Brokers: []string{"default:1"}}
	require.NoError(t, load(t, &s, "", nil, []string{"--control-plane=a:1,b:2", "--control-plane=c:3"}))
	require.Equal(t, []string{"a:1", "b:2", "c:3"}, s.Brokers)
}

func TestLoad_ReportsAllFaults(t *testing.T) {
	var s settings
	err := load(t, &s, "buckets: x\nbucket: [a, b]\nflush_bytes: 1\nlog-level: loud\nonly-here: y\nauto: {a: b}\nflush-interval:\n",
		[]string{"FRESHET_FLUSH_BYTES=99999GiB"}, nil)
	require.Error(t, err)
	for _, want := range []string{
		`unknown setting "buckets"`,
		`unknown setting "flush_bytes" (is "flush-bytes" meant?)`,
		`unknown setting "only-here"`,
		`log-level: invalid value "loud": want one of debug, info`,
		`auto: want a single value or a list of them, not a mapping`,
		`flush-interval: has no value`,
		`bucket: want a single value, not a list`,
		`environment FRESHET_FLUSH_BYTES: invalid value "99999GiB"`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestLoad_FileFaults(t *testing.T) {
	var s settings
	require.ErrorContains(t, load(t, &s, "bucket: [", nil, nil), "freshet.yaml")
	require.ErrorIs(t, config.Load(bind(&s), config.Sources{File: "absent.yaml"}), os.ErrNotExist)
	require.ErrorContains(t, load(t, &s, "bucket: a\nbucket: b\n", nil, nil), "already defined")
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]config.Bytes{
		"0": 0, "17": 17, "64KiB": 64 << 10, "8MiB": 8 << 20, "1.5GiB": 3 << 29, "10MB": 10e6, " 2 kB ": 2000, "1TiB": 1 << 40,
	} {
		got, err := config.ParseBytes(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "MiB", "-1", "12XB", "9999999TiB", "-0.5MiB", "NaN", "Inf"} {
		_, err := config.ParseBytes(in)
		require.Error(t, err, in)
	}
}

func TestBytes_StringReadsBack(t *testing.T) {
	for _, b := range []config.Bytes{0, 1, 1000, 1024, 8 << 20, 3 << 29, 1 << 40, 1<<20 + 1} {
		got, err := config.ParseBytes(b.String())
		require.NoError(t, err)
		require.Equal(t, b, got, b.String())
	}
	require.Equal(t, "1536MiB", config.Bytes(3<<29).String())
}

func TestUsage_ShowsGroups(t *testing.T) {
	var s settings
	f := bind(&s)
	config.SetGroups(f, config.Group{Flags: []string{"log-level"}}, config.Group{Heading: "Store", Flags: []string{"flush-interval", "absent", "bucket"}})
	require.Regexp(t, `(?s)^  --auto\n.*  --log-level .*\nStore:\n  --flush-interval .*  --bucket `, config.Usage(f))
}

func TestUsage_NamesDefaultAndEnvironment(t *testing.T) {
	s := settings{Flush: 8 << 20}
	usage := config.Usage(bind(&s))
	require.Contains(t, usage, "--flush-bytes size\n        size of a bundle (default 8MiB; FRESHET_FLUSH_BYTES)\n")
	require.Contains(t, usage, "--log-level debug|info\n        least level (no default; FRESHET_LOG_LEVEL)\n")
	require.Contains(t, usage, "command line only (no default)\n")
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

// command runs one command line as a shell would and gives what it wrote.
func command(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := freshet()
	p.Streams, p.Environ = cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, func() []string { return environ }
	code = p.Run(t.Context(), args)
	return code, out.String(), errs.String()
}

func TestRun_Version(t *testing.T) {
	code, out, errs := command(t, []string{"FRESHET_VERSION=of-an-image"})
	require.Equal(t, program.ExitOK, code, errs)
	require.NotContains(t, out, "FRESHET_VERSION")
	code, out, errs = command(t, nil, "version")
	require.Equal(t, program.ExitOK, code, errs)
	require.Regexp(t, `^freshet \S+ go1\.\S+ \S+/\S+\n$`, out)
	code, out, errs = command(t, nil, "version", "-o", "json")
	require.Equal(t, program.ExitOK, code, errs)
	var facts map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &facts))
	require.Equal(t, "freshet", facts["program"])
	require.Equal(t, runtime.GOOS+"/"+runtime.GOARCH, facts["os"]+"/"+facts["arch"])
}

// TestRun_WrongSettingsEndTheStart: what would fail later, or never be told, ends the process with one line.
func TestRun_WrongSettingsEndTheStart(t *testing.T) {
	control := []string{"controlplane", "--bucket", "mem://", "--agent-key", "k", "--http-listen", "none", "--grpc-listen", "127.0.0.1:0"}
	agent := []string{"agent", "--bucket", "mem://", "--agent-key", "k", "--control-plane", "127.0.0.1:1", "--peer-listen", "none", "--kafka-listen", ":0"}
	for says, args := range map[string][]string{
		`--etcd "etcd-1" has no port: write host:port, such as etcd-1:2379`:                                                              append(control, "--etcd", "etcd-1", "--virtual-cluster", "main"),
		`--etcd "http://etcd-1" has no port: write host:port, such as etcd-1:2379`:                                                       append(control, "--etcd", "http://etcd-1", "--virtual-cluster", "main"),
		`--virtual-cluster "my cluster" is no name of a virtual cluster: set it to 1 to 249 of a-z A-Z 0-9 . _ -`:                        append(control, "--etcd", "127.0.0.1:1", "--virtual-cluster", "my cluster"),
		`--virtual-cluster "a/b" is no name of a virtual cluster: set it to 1 to 249 of a-z A-Z 0-9 . _ -`:                               append(agent, "--virtual-cluster", "a/b"),
		`--advertise 0.0.0.0:0 is an address that nobody can connect to: set it to a name or address of this machine that clients reach`: append(agent, "--virtual-cluster", "main", "--advertise", "0.0.0.0"),
	} {
		code, _, errs := command(t, nil, args...)
		require.Equal(t, program.ExitUsage, code, errs)
		require.Equal(t, "freshet: "+says+"\nsee freshet "+args[0]+" --help\n", errs)
	}
}

func TestRun_ConfigOfATopicIsNoFile(t *testing.T) {
	for _, args := range [][]string{{"topic", "create", "t"}, {"topic", "alter", "t"}} {
		code, _, errs := command(t, nil, append(args, "--config", "retention.ms=1000")...)
		require.Equal(t, program.ExitUsage, code)
		require.Equal(t, "freshet: --config retention.ms=1000: --config names a YAML file with settings; set a topic config with --topic-config retention.ms=1000, or -c for short\n"+
			"see freshet "+args[0]+" "+args[1]+" --help\n", errs)
	}
}

// TestHelp_DevAndItsPartsHaveTheSameDefaults: an agent and a control plane behave as dev does.
func TestHelp_DevAndItsPartsHaveTheSameDefaults(t *testing.T) {
	root := freshet().Root()
	find := func(name string) *pflag.FlagSet {
		cmd, _, err := root.Find([]string{name})
		require.NoError(t, err)
		return cmd.Flags()
	}
	dev := find("dev")
	for part, names := range map[string][]string{"agent": {"auto-create-topics"}, "controlplane": {"default-partitions"}} {
		for _, name := range names {
			require.NotNil(t, dev.Lookup(name), name)
			require.Equal(t, find(part).Lookup(name).DefValue, dev.Lookup(name).DefValue, name)
		}
	}
}

func TestRun_NamesUnknownVariablesOnce(t *testing.T) {
	code, _, errs := command(t, []string{
		"FRESHET_BUKET=mem://", "FRESHET_AGENT_KEYZ=k", "FRESHET_SERVICE_HOST=10.0.0.1", "FRESHET_PORT=tcp://10.0.0.1:9092", "FRESHET_BUCKET=mem://",
	}, "version")
	require.Equal(t, program.ExitOK, code)
	require.Equal(t, "freshet: ignored environment variables that are no setting: FRESHET_AGENT_KEYZ (is FRESHET_AGENT_KEY meant?), "+
		"FRESHET_BUKET (is FRESHET_BUCKET meant?)\n", errs)
}

func TestRun_UsageFaultsExitWith2(t *testing.T) {
	for fault, args := range map[string][]string{
		"unknown command bogus":                                                  {"bogus"},
		"unknown flag: --bogus":                                                  {"topic", "list", "--bogus"},
		"unknown flag: --bootstrap; is --bootstrap-server meant?":                {"topic", "list", "--bootstrap", "a:1"},
		"unknown flag: --time-out; is --timeout meant?":                          {"topic", "list", "--time-out", "1s"},
		"want one topic":                                                         {"consume"},
		"nothing to alter":                                                       {"topic", "alter", "t"},
		"want one or more groups":                                                {"group", "describe"},
		`--to "newest": want earliest`:                                           {"group", "reset-offsets", "g", "--to", "newest"},
		"want one of none, gzip":                                                 {"produce", "t", "-z", "brotli"},
		`--partitions: invalid value "many": want a number`:                      {"topic", "create", "t", "-p", "many"},
		`--partitions: invalid value "3000000000": out of range`:                 {"topic", "create", "t", "-p", "3000000000"},
		`--partition: invalid value "a": want numbers, comma-separated`:          {"consume", "t", "-p", "a"},
		`--linger: invalid value "5": want a duration`:                           {"produce", "t", "--linger", "5"},
		`--idempotent: invalid value "perhaps": want true or false`:              {"produce", "t", "--idempotent=perhaps"},
		`--flush-bytes: invalid value "8XB": size "8XB": want a number with KiB`: {"agent", "--flush-bytes", "8XB"},
		`--put-budget: invalid value "0": want auto or a number above 0`:         {"dev", "--put-budget", "0"},
		`--put-budget: invalid value "NaN": want auto or`:                        {"agent", "--put-budget", "NaN"},
		"--linger is not above 0":                                                {"agent", "--linger", "0s"},
		"--idempotent needs --acks all":                                          {"produce", "t", "--acks", "1", "--idempotent"},
	} {
		code, _, errs := command(t, nil, args...)
		require.Equal(t, program.ExitUsage, code, errs)
		require.Contains(t, errs, fault)
		require.Contains(t, errs, "--help")
	}
}

func TestRun_FaultsOfEnvironmentAndFileTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "freshet.yaml")
	require.NoError(t, os.WriteFile(file, []byte("bootstraps: x\n"), 0o600))
	code, _, errs := command(t, []string{"FRESHET_TIMEOUT=soon", "FRESHET_CONFIG=" + file}, "topic", "list")
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, `unknown setting "bootstraps"`)
	require.Contains(t, errs, "FRESHET_TIMEOUT")
}

// TestRun_OneFileServesAllCommands: a command skips the settings of other commands in the file, and names a key of none.
func TestRun_OneFileServesAllCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "freshet.yaml")
	settings := "flush-bytes: 8MiB\ncontrol-plane-http: [127.0.0.1:1]\nvirtual-cluster: main\nagent-key: k\nlog-level: debug\nexit-at-end: true\nlease: 10s\n"
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	code, _, errs := command(t, nil, "topic", "alter", "lines", "--config", file)
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, "nothing to alter")
	require.NotContains(t, errs, "unknown setting")

	require.NoError(t, os.WriteFile(file, []byte(settings+"flush-byte: 1\n"), 0o600))
	for _, args := range [][]string{{"topic", "list"}, {"agent"}, {"version"}} {
		code, _, errs = command(t, nil, append(args, "--config", file)...)
		require.Equal(t, program.ExitUsage, code)
		require.Contains(t, errs, "freshet: file "+file+`: unknown setting "flush-byte" (is "flush-bytes" meant?)`+"\n")
	}
}

// TestRun_PartsTellAllThatIsMissing: one run of a command is enough to see everything it needs.
func TestRun_PartsTellAllThatIsMissing(t *testing.T) {
	for name, wants := range map[string][]string{
		"agent":        {"no control-plane address", "no agent key", "no bucket", "request size limit"},
		"controlplane": {"--etcd", "--bucket", "--virtual-cluster", "--agent-key", "renewal period", "group.consumer.session.timeout.ms must be"},
		"dev":          {"group.consumer.session.timeout.ms must be"},
	} {
		code, _, errs := command(t, []string{
			"FRESHET_REQUEST_MAX_BYTES=1", "FRESHET_LEASE_RENEW=1h", "FRESHET_GROUP_CONSUMER_SESSION_TIMEOUT_MS=1",
		}, name)
		require.Equal(t, program.ExitUsage, code, errs)
		for _, want := range wants {
			require.Contains(t, errs, want, name)
		}
	}
}

// TestHelp_EveryFlagIsExplained walks all commands: no flag without a sentence, none that shadows another.
func TestRun_OneZoneDurabilityIsAskedForByName(t *testing.T) {
	bucket := "--bucket=s3://records--use1-az4--x-s3?region=us-east-1&access-key=k&secret-key=s"
	for _, args := range [][]string{
		{"agent", "--control-plane", "127.0.0.1:1", "--agent-key", "k", "--virtual-cluster", "v", "--zone", "a", "--peer-listen", "none"},
		{"controlplane", "--etcd", "127.0.0.1:1", "--agent-key", "k", "--virtual-cluster", "v"},
		{"dev", "--data-dir", t.TempDir()},
	} {
		code, _, errs := command(t, nil, append(args, bucket, "--http-listen=127.0.0.1:0")...)
		require.NotEqual(t, program.ExitOK, code)
		require.Contains(t, errs, "--one-zone-durability", args[0])
	}
}

// TestHelp_ServersGroupTheirFlags: the help of dev and its parts begins with the flags of every set-up, and each other flag is under a heading.
func TestHelp_ServersGroupTheirFlags(t *testing.T) {
	root := freshet().Root()
	for name, first := range map[string]string{"dev": "data-dir", "agent": "control-plane", "controlplane": "etcd"} {
		cmd, _, err := root.Find([]string{name})
		require.NoError(t, err)
		common := 0
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			heading, ok := config.Heading(f)
			require.True(t, ok, "%s --%s has no group", name, f.Name)
			if heading == "" {
				common++
			}
		})
		require.LessOrEqual(t, common, 16, name)
		_, out, _ := command(t, nil, name, "--help")
		_, flags, ok := strings.Cut(out, "\nFlags:\n")
		require.True(t, ok)
		require.True(t, strings.HasPrefix(flags, "  --"+first+" "), flags)
		require.Regexp(t, `(?s)--log-level .*\n(Writing:\n  --put-budget|TLS, .*Access to etcd:\n  --etcd-prefix)`, flags)
	}
	_, out, _ := command(t, nil, "consume", "--help")
	require.Regexp(t, `(?s)\nFlags:\n  -b, --bootstrap-server .*-o, --output .*--group .*--verbose.*\nConnection:\n  --data-dir .*--tls-key .*\nFlags of all commands:\n  --config`, out)
	require.NotContains(t, out, "--help\n")
	_, out, _ = command(t, nil, "zone", "list", "--help")
	require.Regexp(t, `(?s)\nFlags:\n  -o, --output .*--agents.*\nConnection:\n  --control-plane-http .*--data-dir `, out)
	for _, name := range []string{"topic", "group", "job"} {
		_, out, _ = command(t, nil, name, "--help")
		require.Contains(t, out, "\n\nFlags of all commands:\n  --config", name)
	}
	_, out, _ = command(t, nil, "--help")
	require.Regexp(t, `(?s)\nCommands:\n  dev .*\n  agent .*\n  topic .*\n  consume .*\n  version `, out)
}

func TestHelp_EveryFlagIsExplained(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			require.NotEmpty(t, f.Usage, "%s --%s", c.CommandPath(), f.Name)
			require.Nil(t, c.InheritedFlags().Lookup(f.Name), "%s --%s hides a flag of all commands", c.CommandPath(), f.Name)
		})
		for _, child := range c.Commands() {
			if !child.Hidden {
				walk(child)
			}
		}
	}
	root := freshet().Root()
	walk(root)
	require.NotEmpty(t, root.Commands())
}

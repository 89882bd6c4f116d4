package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// numbers are lines "first".."last".
func numbers(first, last int) string {
	var b strings.Builder
	for i := first; i <= last; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// TestDev_CommandLineRoundTrip is the README's first minute.
func TestDev_CommandLineRoundTrip(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	cli := func(in string, args ...string) string {
		t.Helper()
		return harness.CLI(t, d.Bootstrap, strings.NewReader(in), args...)
	}
	require.Equal(t, "created topic lines with 3 partitions\n", cli("", "topic", "create", "lines", "--partitions", "3"))
	cli(numbers(1, 1000), "produce", "lines", "--partition", "1")
	require.Equal(t, numbers(1, 1000), cli("", "consume", "lines", "--from", "earliest", "--exit-at-end"))
	require.Equal(t, numbers(501, 510), cli("", "consume", "lines", "--from", "500", "--partition", "1", "--count", "10"))
	require.Empty(t, cli("", "consume", "lines", "--from", "latest", "--exit-at-end"))

	cli("a=1\nb=NULL\n", "produce", "lines", "-K", "=", "--null-marker", "NULL", "-H", "h=x", "-z", "zstd", "-p", "0")
	require.Equal(t, "0 0 a=1 h:x\n0 1 b= h:x\n",
		cli("", "consume", "lines", "-p", "0", "--from", "earliest", "-e", "-f", `%p %o %k=%v %h{%k:%v}\n`))

	described := cli("", "topic", "describe", "lines")
	require.Contains(t, described, "topic lines")
	require.Regexp(t, `^topic lines, 3 partitions, 1 replica, \d\S* (B|KiB), newest record: \d+ (s|min|h) ago\n`, described)
	require.Regexp(t, `(?m)^1 +\d+ +0 +1000 +1000 +[1-9]\S* (B|KiB) +\d+ (s|min|h) ago$`, described)
	require.Regexp(t, `(?m)^2 +\d+ +0 +0 +0 +0 B +none$`, described)
	cli("", "topic", "alter", "lines", "--partitions", "5", "-c", "retention.ms=1000000")
	require.Contains(t, cli("", "topic", "describe", "lines"), "config retention.ms=1000000")
	require.Regexp(t, `^TOPIC  PARTITIONS  SIZE +NEWEST RECORD\nlines  5           [1-9]\S* (B|KiB)  \d+ (s|min|h) ago\n$`, cli("", "topic", "list"))
	cli("", "topic", "delete", "lines")
	require.Equal(t, "TOPIC  PARTITIONS  SIZE  NEWEST RECORD\n", cli("", "topic", "list"))
}

// TestDev_IsFoundWithoutAnAddress: commands find the process by --data-dir, and by ./data.
func TestDev_IsFoundWithoutAnAddress(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	d := harness.NewDev(t, "--data-dir", dir) // the later flag counts
	d.Launch()
	d.AwaitReady()
	harness.CLI(t, d.Bootstrap, nil, "topic", "create", "lines")
	for in, args := range map[string][]string{filepath.Dir(dir): nil, t.TempDir(): {"--data-dir", dir}} {
		for _, command := range [][]string{{"topic", "list", "-o", "json"}, {"zone", "list"}} {
			list := exec.CommandContext(t.Context(), harness.Freshet(t), append(command, args...)...)
			list.Dir = in
			out, err := list.CombinedOutput()
			require.NoError(t, err, string(out))
			if command[0] == "topic" {
				require.Contains(t, string(out), `"topic": "lines"`)
			}
		}
	}
}

func TestDev_CommandLineFaults(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--auto-create-topics=false")
	for want, args := range map[string][]string{
		"freshet topic create absent":        {"consume", "absent"},
		`topic "absent" does not exist`:      {"topic", "delete", "absent"},
		"no partition 7; it has 1 partition": {"consume", "there", "--partition", "7"},
		`topic "there" exists already`:       {"topic", "create", "there"},
		"no such offset":                     {"consume", "there", "--from", "1000", "--count", "1"},
		"Unknown topic config name: bogus":   {"topic", "create", "more", "-c", "bogus=1"},
	} {
		harness.TryCLI(t, d.Bootstrap, nil, "topic", "create", "there", "--if-not-exists")
		r := harness.TryCLI(t, d.Bootstrap, nil, args...)
		require.Equal(t, 1, r.Code, "%v: %s", args, r.Err)
		require.Contains(t, r.Err, want, "%v", args)
	}
	r := harness.TryCLI(t, d.Bootstrap, strings.NewReader("x\n"), "produce", "absent")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "freshet topic create absent")
}

// TestDev_KcatRoundTrip: a topic made by producing to it, every codec kcat has, keys and headers.
func TestDev_KcatRoundTrip(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := "kcat-" + codec
			in := numbers(1, 5000)
			harness.Kcat(t, d.Bootstrap, strings.NewReader(in), nil, "-P", "-t", topic, "-z", codec, "-H", "source=kcat")
			var out bytes.Buffer
			harness.Kcat(t, d.Bootstrap, nil, &out, "-C", "-t", topic, "-o", "beginning", "-e", "-f", "%s\n")
			require.Equal(t, in, out.String())
			out.Reset()
			harness.Kcat(t, d.Bootstrap, nil, &out, "-C", "-t", topic, "-o", "-1", "-e", "-f", "%o %h\n")
			require.Equal(t, "4999 source=kcat\n", out.String())
		})
	}
}

func TestDev_SecondProcessOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	other := harness.NewDev(t, "--data-dir", d.DataDir)
	other.Launch()
	require.Eventually(t, func() bool { return strings.Contains(other.Output(), "in use by another process") }, time.Minute, 20*time.Millisecond)
}

func TestDev_HTTP(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/pprof/"} {
		resp, err := http.Get(d.HTTP + path)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
	}
}

// TestDev_ObjectsInADirectory: the records are in the bucket given, and nowhere else but there.
func TestDev_ObjectsInADirectory(t *testing.T) {
	t.Parallel()
	bucket := t.TempDir()
	d := harness.StartDev(t, "--bucket", "file://"+bucket)
	harness.CLI(t, d.Bootstrap, strings.NewReader("needle in a haystack\n"), "produce", "t")
	d.Kill()
	found := 0
	require.NoError(t, walkFiles(bucket, func(path string) {
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte("needle in a haystack")) {
			found++
		}
	}))
	require.Equal(t, 1, found)
	require.NoError(t, walkFiles(d.DataDir, func(path string) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(content), "needle in a haystack", path)
	}))
}

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

var bundleObject = regexp.MustCompile(`/bundles/[0-9a-f]{4}/([0-9a-f]{8})/([0-9a-f]{8})$`)

// bundleObjects returns the paths of the bundles in a data directory by session/n.
func bundleObjects(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "objects"), func(path string, e fs.DirEntry, err error) error {
		if m := bundleObject.FindStringSubmatch(filepath.ToSlash(path)); err == nil && !e.IsDir() && m != nil {
			session, _ := strconv.ParseUint(m[1], 16, 32)
			n, _ := strconv.ParseUint(m[2], 16, 32)
			found[fmt.Sprintf("%d/%d", session, n)] = path
		}
		return err
	}))
	return found
}

// TestDev_LostBundle deletes the object of a live bundle behind the server's back. Compaction goes round it and says so, and once an operator
// has cut it out, consumers read everything else.
func TestDev_LostBundle(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--no-jobs")
	cli := func(in string, args ...string) string {
		t.Helper()
		return harness.CLI(t, d.Bootstrap, strings.NewReader(in), args...)
	}
	cli("", "topic", "create", "orders")
	cli(numbers(1, 100), "produce", "orders")
	first := bundleObjects(t, d.DataDir)
	cli(numbers(101, 200), "produce", "orders")
	lost := bundleObjects(t, d.DataDir)
	for name := range first {
		delete(lost, name)
	}
	cli(numbers(201, 300), "produce", "orders")
	require.NotEmpty(t, lost)
	d.Kill()
	for _, path := range lost {
		require.NoError(t, os.Remove(path))
	}
	dir := d.DataDir
	d = harness.NewDev(t, "--compact-after", "1s", "--data-dir", dir) // the later flag counts
	d.DataDir = dir
	d.Launch()
	d.AwaitReady()
	harness.Await(t, "compaction of what lies around", func() bool { return strings.Contains(strings.Join(jobs(t, d), " "), "compact1") })
	require.Contains(t, d.Output(), "a bundle that holds records cannot be read")

	for name := range lost {
		before := len(jobs(t, d))
		out, err := exec.CommandContext(t.Context(), harness.Freshet(t), "bundle", "cut", name, "--yes", "--data-dir", d.DataDir).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "orders-0: offsets 1")
		harness.Await(t, "the end of the job", func() bool { return len(jobs(t, d)) > before })
	}
	require.Equal(t, numbers(1, 100)+numbers(201, 300), cli("", "consume", "orders", "--from", "earliest", "--exit-at-end"))
}

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sys/unix"

	"github.com/freshet-io/freshet/test/harness"
)

// TestStore_FullFileSystem: while the store is full, producers get a retriable error. The log names the begin and the end once each,
// and records are acknowledged again by themselves once there is room.
func TestStore_FullFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a file system that can be filled needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	d := harness.StartDev(t, "--bucket", "file://"+dir)
	harness.CLI(t, d.Bootstrap, nil, "topic", "create", "t")
	harness.CLI(t, d.Bootstrap, strings.NewReader("before\n"), "produce", "t")

	filler := filepath.Join(dir, "filler")
	require.ErrorIs(t, os.WriteFile(filler, make([]byte, 32<<20), 0o600), syscall.ENOSPC)
	agent, err := harness.Dial(d.Bootstrap)
	require.NoError(t, err)
	defer agent.Close()
	const attempts = 3
	for range attempts {
		_, err := agent.Produce(t.Context(), "t", 0, "refused")
		require.ErrorIs(t, err, kerr.KafkaStorageError)
		require.True(t, kerr.IsRetriable(err))
	}
	require.NoError(t, os.Remove(filler))
	harness.CLI(t, d.Bootstrap, strings.NewReader("after\n"), "produce", "t")
	require.Equal(t, "before\nafter\n", harness.CLI(t, d.Bootstrap, nil, "consume", "t", "--from", "earliest", "-e"))
	const ends = "object store takes bundles again"
	require.Eventually(t, func() bool { return strings.Contains(d.Output(), ends) }, time.Minute, 20*time.Millisecond)
	begins := regexp.MustCompile(`ERROR object store refuses a bundle; .* cause=full .*logger=agent.writer`)
	require.Len(t, begins.FindAllString(d.Output(), -1), 1, d.Output())
	require.Equal(t, 1, strings.Count(d.Output(), ends), d.Output())
}

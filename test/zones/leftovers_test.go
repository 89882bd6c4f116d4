package zones

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamespaces_LeftoversOfTheDeadAreRemoved: a process that was killed leaves its namespaces behind, until the next one.
func TestNamespaces_LeftoversOfTheDeadAreRemoved(t *testing.T) {
	if _, err := newNamespaces(t); err != nil {
		t.Skipf("network namespaces are not allowed here: %v", err)
	}
	dead := exec.Command(os.Args[0], "-test.list", "^$")
	require.NoError(t, dead.Run())
	left := namePrefix + strconv.Itoa(dead.Process.Pid) + "-1-zone-a"
	alive := namePrefix + strconv.Itoa(os.Getppid()) + "-1-zone-a"
	for _, name := range []string{left, alive} {
		require.NoError(t, ip("", "netns", "add", name))
		t.Cleanup(func() { _ = ip("", "netns", "delete", name) }) // perhaps it is gone
	}
	require.NoError(t, removeLeftovers())
	require.NoFileExists(t, filepath.Join("/run/netns", left))
	require.FileExists(t, filepath.Join("/run/netns", alive))
}

package testservers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNetwork_Leftovers: the next network removes the namespaces of a killed process, and only these.
func TestNetwork_Leftovers(t *testing.T) {
	if _, err := (Topology{Nodes: []string{"node"}}).Start(t); err != nil {
		t.Skipf("network namespaces are not allowed here: %v", err)
	}
	dead := exec.Command(os.Args[0], "-test.list", "^$")
	require.NoError(t, dead.Run())
	left := networkPrefix + strconv.Itoa(dead.Process.Pid) + "-1-a"
	alive := networkPrefix + strconv.Itoa(os.Getppid()) + "-1-a"
	for _, name := range []string{left, alive} {
		require.NoError(t, IP("", "netns", "add", name))
		t.Cleanup(func() { _ = IP("", "netns", "delete", name) }) // perhaps it is gone
	}
	require.NoError(t, removeLeftovers())
	require.NoFileExists(t, filepath.Join("/run/netns", left))
	require.FileExists(t, filepath.Join("/run/netns", alive))
}

// TestNetwork_Links: nodes reach each other only over a link.
func TestNetwork_Links(t *testing.T) {
	network, err := Topology{
		Nodes:  []string{"left", "middle", "right"},
		Linked: func(x, y string) bool { return x == "middle" || y == "middle" },
	}.Start(t)
	if err != nil {
		t.Skipf("network namespaces are not allowed here: %v", err)
	}
	address := network.Place("right", 1).FreeAddress(t)
	_, err = network.Place("middle", 0).Dial(t.Context(), "tcp", address)
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "the namespace answers")
	_, err = network.Place("left", 0).Dial(t.Context(), "tcp", address)
	require.ErrorIs(t, err, syscall.ENETUNREACH)
}

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/program"
)

// Command lines that lack nothing but what a test adds.
func controlPlaneArgs(more ...string) []string {
	return append([]string{
		"controlplane", "--bucket", "mem://", "--agent-key", "main=k", "--virtual-cluster", "main", "--etcd", "127.0.0.1:1",
		"--http-listen", "none", "--grpc-listen", "127.0.0.1:0", "--log-level", "error",
	}, more...)
}

func agentArgs(more ...string) []string {
	return append([]string{
		"agent", "--bucket", "mem://", "--agent-key", "k", "--virtual-cluster", "main", "--control-plane", "127.0.0.1:1", "--zone", "a",
		"--http-listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--kafka-listen", "127.0.0.1:0", "--log-level", "error",
	}, more...)
}

func devArgs(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{
		"dev", "--data-dir", filepath.Join(t.TempDir(), "data"), "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--log-level", "error",
	}, more...)
}

// TestRun_InvalidSettingsAreNamed: each invalid value ends the command with one line that names the setting, the value and the remedy.
func TestRun_InvalidSettingsAreNamed(t *testing.T) {
	long := strings.Repeat("x", 300)
	const (
		noHost    = ` is no name or address of a host: set it to one, without scheme, path or spaces`
		name      = ` is no name of a virtual cluster: set it to 1 to 249 of a-z A-Z 0-9 . _ -`
		prefix    = ` is no prefix of keys: set it to / and printable ASCII without spaces and without / at the end, such as /freshet/v1`
		listener  = ` is no name of a listener: set it to 1 to 249 of a-z A-Z 0-9 . _ -`
		bracketed = ` is an IPv6 address without brackets: write [address]:port, such as [2001:db8::1]:`
	)
	for _, c := range []struct {
		args []string
		says string
	}{
		{controlPlaneArgs("--etcd", "::1"), `--etcd "::1"` + bracketed + `2379`},
		{controlPlaneArgs("--etcd", "http://2001:db8::1:2379"), `--etcd "http://2001:db8::1:2379"` + bracketed + `2379`},
		{controlPlaneArgs("--etcd", "etcd-1,,etcd-2:2379"), `--etcd "etcd-1" has no port: write host:port, such as etcd-1:2379`},
		{controlPlaneArgs("--etcd", "https://etcd-1"), `--etcd "https://etcd-1" has no port: write host:port, such as etcd-1:2379`},
		{agentArgs("--control-plane", "::1"), `--control-plane "::1"` + bracketed + `7050`},
		{agentArgs("--control-plane", "cp-1"), `--control-plane "cp-1" has no port: write host:port, such as cp-1:7050`},

		{controlPlaneArgs("--virtual-cluster", "a/b", "--agent-key", "a/b=k2"), `--virtual-cluster "a/b"` + name},
		{controlPlaneArgs("--virtual-cluster", "..", "--agent-key", "..=k2"), `--virtual-cluster ".."` + name},
		{controlPlaneArgs("--virtual-cluster", "ä"), `--virtual-cluster "ä"` + name},
		{controlPlaneArgs("--virtual-cluster", long), `--virtual-cluster "` + long + `"` + name},
		{agentArgs("--virtual-cluster", "ä"), `--virtual-cluster "ä"` + name},
		{agentArgs("--virtual-cluster", long), `--virtual-cluster "` + long + `"` + name},
		{agentArgs("--zone", long), `--zone: invalid zone name: "` + long + `" has 300 bytes: shorten it to 255`},
		{agentArgs("--zone", "a\tb"), `--zone: invalid zone name: "a\tb" has control characters or is not UTF-8: remove them`},
		{agentArgs("--kafka-listen", "a b=127.0.0.1:0"), `--kafka-listen "a b=127.0.0.1:0": "a b"` + listener},
		{agentArgs("--kafka-listen", "a/b=127.0.0.1:0"), `--kafka-listen "a/b=127.0.0.1:0": "a/b"` + listener},
		{agentArgs("--kafka-listen", "=127.0.0.1:0"), `--kafka-listen "=127.0.0.1:0": ""` + listener},
		{agentArgs("--kafka-listen", "127.0.0.1"), `--kafka-listen: listen address "127.0.0.1": want host:port or host:first-last`},
		{agentArgs("--listener-zones", "extrnal=a"), `--listener-zones "extrnal=a": there is no listener "extrnal": add it to --kafka-listen`},
		{agentArgs("--zone-listeners", "9292=b"), `--zone-listeners "9292=b": the agent's own zone "a" is not there: add it at the end, at all agents`},
		{agentArgs("--listener-zones", "=a\tb"), `--listener-zones: listener's zone "=a\tb": want listener=zone: invalid zone name: "a\tb" has control characters or is not UTF-8: remove them`},
		{agentArgs("--client-zones", "10.0.0.0/8"), `--client-zones: client network "10.0.0.0/8": want prefix=zone, as 10.0.1.0/24=eu-1a: no zone`},
		{controlPlaneArgs("--etcd-prefix", "/"), `--etcd-prefix "/"` + prefix},
		{controlPlaneArgs("--etcd-prefix", "/freshet/"), `--etcd-prefix "/freshet/"` + prefix},
		{controlPlaneArgs("--etcd-prefix", "freshet"), `--etcd-prefix "freshet"` + prefix},
		{controlPlaneArgs("--etcd-prefix", "/ä"), `--etcd-prefix "/ä"` + prefix},
		{[]string{"topic", "create", ""}, `want one or more topics: freshet topic create TOPIC... [flags]`},
		{[]string{"produce", ""}, `want one topic: freshet produce TOPIC [flags]`},

		{agentArgs("--advertise", "a b"), `--advertise "a b"` + noHost},
		{agentArgs("--advertise", "a/b"), `--advertise "a/b"` + noHost},
		{agentArgs("--advertise", ":9092"), `--advertise: advertised address ":9092": want host:port`},
		{agentArgs("--peer-advertise", "a b:1"), `--peer-advertise "a b"` + noHost},
		{controlPlaneArgs("--advertise", "a b:7050"), `--advertise "a b"` + noHost},
		{devArgs(t, "--kafka-listen", "127.0.0.1"), `--kafka-listen: listen address "127.0.0.1": want host:port or host:first-last`},
	} {
		code, _, errs := command(t, nil, c.args...)
		require.Equal(t, program.ExitUsage, code, "%v: %s", c.args, errs)
		said, _, _ := strings.Cut(errs, "\nsee freshet ")
		require.Equal(t, "freshet: "+c.says, strings.Replace(said, "control plane: ", "", 1), "%v", c.args)
	}
}

// TestRun_WrongPortsAreNamed: an agent and a control plane end with the right port if an address can never be one.
func TestRun_WrongPortsAreNamed(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	address := s.Listener.Addr().String()
	args := agentArgs()
	args[slices.Index(args, "--control-plane")+1] = address
	code, _, errs := command(t, nil, args...)
	require.Equal(t, program.ExitFailed, code)
	require.Contains(t, errs, "freshet: --control-plane "+address+" speaks HTTP, not gRPC; name the address of a control plane for agents (its --grpc-listen, port 7050 by default)\n")
	args = controlPlaneArgs()
	args[slices.Index(args, "--etcd")+1] = address
	code, _, errs = command(t, nil, args...)
	require.Equal(t, program.ExitFailed, code)
	require.Contains(t, errs, "freshet: --etcd "+address+" speaks HTTP, not gRPC; name a client address of etcd (port 2379 by default)\n")
}

func TestRun_TooLittleMemoryIsNamed(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	_, _, errs := command(t, nil, agentArgs("--memory-limit", "1MiB")...)
	require.Contains(t, errs, "freshet: --memory-limit: memory limit of 1048576 bytes is below the least, 134217728\n")
	_, _, errs = command(t, nil, devArgs(t, "--memory-limit", "191MiB")...)
	require.Contains(t, errs, "freshet: --memory-limit: memory limit of 200278016 bytes is below the least, 201326592\n")
}

// TestRun_DevLimitsTheRuntime: `freshet dev` leaves an eighth of its memory to the program and the kernel, as a control plane does.
func TestRun_DevLimitsTheRuntime(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	_, _, errs := command(t, nil, devArgs(t, "--memory-limit", "512MiB", "--kafka-listen", "127.0.0.1")...)
	require.Contains(t, errs, "--kafka-listen", "ends after the limit is set")
	require.EqualValues(t, 448<<20, debug.SetMemoryLimit(-1))
}

// TestRun_DevMakesNothingForInvalidSettings: the data directory is made for settings that are right.
func TestRun_DevMakesNothingForInvalidSettings(t *testing.T) {
	args := devArgs(t, "--kafka-listen", "127.0.0.1")
	code, _, errs := command(t, nil, args...)
	require.Equal(t, program.ExitUsage, code, errs)
	require.NoDirExists(t, args[2])
}

// TestRun_NamesTheListenerWhoseAddressIsTaken: the line names the setting of the address, of the several that a process listens on.
func TestRun_NamesTheListenerWhoseAddressIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
	for _, c := range []struct {
		args []string
		flag string
	}{
		{agentArgs(), "--kafka-listen"},
		{agentArgs(), "--peer-listen"},
		{agentArgs(), "--http-listen"},
		{controlPlaneArgs(), "--grpc-listen"},
		{controlPlaneArgs(), "--http-listen"},
		{devArgs(t), "--kafka-listen"},
		{devArgs(t), "--http-listen"},
	} {
		debug.SetMemoryLimit(limit) // each command lowers it, and the next one would take that for GOMEMLIMIT
		code, _, errs := command(t, nil, append(c.args, c.flag+"="+address)...)
		require.Equal(t, program.ExitFailed, code, errs)
		require.Equal(t, "freshet: "+c.flag+" "+address+": bind: address already in use: stop the process that listens there, or set "+
			c.flag+" to another address\n", errs, c.args[0])
	}
	code, _, errs := command(t, nil, agentArgs("--zone-listeners", address+"=a")...)
	require.Equal(t, program.ExitFailed, code)
	require.Equal(t, "freshet: --zone-listeners "+address+": bind: address already in use: stop the process that listens there, or set "+
		"--zone-listeners to another address\n", errs)
	code, _, errs = command(t, nil, agentArgs("--http-listen", "127.0.0.1")...)
	require.Equal(t, program.ExitFailed, code)
	require.Equal(t, "freshet: --http-listen 127.0.0.1: address 127.0.0.1: missing port in address: set --http-listen to host:port with an address of this machine\n", errs)
}

// TestRun_NamesTheVariableOfAnInvalidSetting: a line about a setting says where its value comes from, if that is not the command line.
func TestRun_NamesTheVariableOfAnInvalidSetting(t *testing.T) {
	code, _, errs := command(t, []string{"FRESHET_LINGER=0s"}, agentArgs()...)
	require.Equal(t, program.ExitUsage, code)
	require.Equal(t, "freshet: --linger is not above 0 (from FRESHET_LINGER)\nsee freshet agent --help\n", errs)

	file := filepath.Join(t.TempDir(), "freshet.yaml")
	require.NoError(t, os.WriteFile(file, []byte("linger: 0s\n"), 0o600))
	_, _, errs = command(t, nil, agentArgs("--config", file)...)
	require.Equal(t, "freshet: --linger is not above 0 (from file "+file+")\nsee freshet agent --help\n", errs)

	_, _, errs = command(t, []string{"FRESHET_LINGER=1s"}, agentArgs("--linger", "0s")...)
	require.Equal(t, "freshet: --linger is not above 0\nsee freshet agent --help\n", errs, "the command line goes before the environment")
}

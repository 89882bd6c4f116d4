package kube

import (
	"bufio"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// known lists the connections that a running cluster makes. test/chart checks that the NetworkPolicies allow them, this test that there
// are no others.
const known = "../chart/testdata/connections.txt"

// connected compares the connections into the pods of the chart with the known ones.
func (s *scene) connected() {
	s.t.Helper()
	text, err := os.ReadFile(known)
	require.NoError(s.t, err)
	lines := strings.Split(string(text), "\n")
	components := s.seen.copy()
	namespaces, err := filepath.Glob("/run/netns/cni-*") // pods
	require.NoError(s.t, err)
	for _, ns := range namespaces {
		out, err := run("", "sockets", filepath.Base(ns))
		if err != nil {
			continue // the pod has gone
		}
		for _, c := range inbound(out, components) {
			if len(c) > 0 && !slices.ContainsFunc(c, func(c string) bool { return slices.Contains(lines, c) }) {
				s.broken("a connection that %s does not have: %q", known, c)
			}
		}
	}
}

// addresses are those that pods of the chart have had, with their components.
type addresses struct {
	mu sync.Mutex
	of map[string][]string
}

// watchAddresses notes addresses from now on: a pod may come and go between two looks.
func watchAddresses(t *testing.T) *addresses {
	t.Helper()
	a := &addresses{of: make(map[string][]string)}
	const fields = `jsonpath={.status.podIP} {.metadata.labels.app\.kubernetes\.io/component}{"\n"}`
	cmd := exec.Command("./cluster.sh", "kubectl", "--namespace", namespace, "get", "pods", "--watch", "--selector", "app.kubernetes.io/name=freshet", "--output", fields)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // kubectl is a child of the script
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if address, component, _ := strings.Cut(lines.Text(), " "); address != "" {
				a.note(address, component)
			}
		}
	})
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		reading.Wait()
		_ = cmd.Wait() // it was killed
	})
	return a
}

func (a *addresses) note(address, component string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.of[address], component) {
		a.of[address] = append(a.of[address], component)
	}
}

func (a *addresses) copy() map[string][]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.of)
}

// inbound returns the connections to listening ports of a pod from the output of ss, each as all SOURCE DESTINATION PORT that it
// may be: an address can have been another pod's before.
func inbound(sockets string, components map[string][]string) (all [][]string) {
	listening := make(map[uint16]bool)
	for pass := range 2 {
		for line := range strings.Lines(sockets) {
			fields := strings.Fields(line) // state, queues, local address, remote address
			if len(fields) < 5 {
				continue
			}
			local, port := cutPort(fields[3])
			if fields[0] == "LISTEN" {
				listening[port] = true
			} else if pass == 1 && listening[port] {
				remote, _ := cutPort(fields[4])
				all = append(all, readings(components[remote], components[local], port))
			}
		}
	}
	return all
}

// readings combines sources and destinations. Without a known source, it is the kubelet or a client.
func readings(sources, destinations []string, port uint16) (all []string) {
	if len(sources) == 0 {
		sources = []string{outsider(port)}
	}
	for _, from := range sources {
		for _, to := range destinations {
			all = append(all, fmt.Sprintf("%s %s %d", from, to, port))
		}
	}
	return all
}

// outsider returns "node" for ports of probes and metrics, else "client": clients have a node's address here.
func outsider(port uint16) string {
	switch port {
	case 8080, 8090, 2381:
		return "node"
	}
	return "client"
}

// cutPort parses the addresses of ss; the host of a listener on all addresses is empty.
func cutPort(address string) (host string, port uint16) {
	if rest, ok := strings.CutPrefix(address, "*:"); ok {
		_, _ = fmt.Sscan(rest, &port) // * for any port
		return "", port
	}
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", 0
	}
	return a.Addr().Unmap().String(), a.Port()
}

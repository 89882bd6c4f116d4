package testservers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	// networkPrefix begins the names of all network namespaces. The process id follows.
	networkPrefix = "freshet-test-"
	// ClientHost is the last part of the address of a node's clients.
	ClientHost = 100
	// maxServers is the largest last part of the address of a node's server.
	maxServers = 4
)

var networks atomic.Int64 // of this process

// Topology describes nodes, each a network namespace of its own, and the links between them. A node's address on all its
// links is 10.200.<Index>.<host>. Names of nodes must be no abbreviations of words of `ip link`, such as "a" for address.
type Topology struct {
	Nodes []string
	// Linked reports whether two nodes have a link. Without a link there is no route. nil means that all nodes are linked.
	Linked func(a, b string) bool
}

// Network is a Topology in network namespaces of the kernel. The interface at one end of a link has the name of the node at the other
// end.
type Network struct {
	Topology
	prefix string
}

// Index returns the number of a node in addresses, from 1 on, or 0 for an unknown node.
func (t Topology) Index(node string) int { return slices.Index(t.Nodes, node) + 1 }

// Address returns an IP address of a node. Host 0 is the subnet.
func (t Topology) Address(node string, host int) string {
	return fmt.Sprintf("10.200.%d.%d", t.Index(node), host)
}

func (t Topology) linked(a, b string) bool { return a != b && (t.Linked == nil || t.Linked(a, b)) }

// hardware returns the address of a node's interface to another node.
func (t Topology) hardware(node, to string) string {
	return fmt.Sprintf("02:00:00:00:%02x:%02x", t.Index(node), t.Index(to))
}

// Start makes the network, which ends with the test. The error says why the system does not allow it. Start also removes namespaces of
// dead processes.
func (t Topology) Start(tb testing.TB) (*Network, error) {
	tb.Helper()
	if err := removeLeftovers(); err != nil {
		return nil, err
	}
	n := &Network{Topology: t, prefix: fmt.Sprintf("%s%d-%d-", networkPrefix, os.Getpid(), networks.Add(1))}
	tb.Cleanup(func() {
		for _, node := range n.Nodes {
			_ = IP("", "netns", "delete", n.Namespace(node)) // it may be missing after a failed build
		}
	})
	if err := n.build(); err != nil {
		return nil, err
	}
	return n, nil
}

// Namespace returns the name of a node's network namespace.
func (n *Network) Namespace(node string) string { return n.prefix + node }

// Place returns the place of a node's k-th server, from 1 on, or for k = 0 of the node's clients.
func (n *Network) Place(node string, k int) Place {
	if k == 0 {
		k = ClientHost
	}
	return Place{Address: n.Address(node, k), Namespace: n.Namespace(node)}
}

func (n *Network) build() error {
	var batch strings.Builder
	for _, node := range n.Nodes {
		fmt.Fprintf(&batch, "netns add %s\n", n.Namespace(node))
	}
	for i, a := range n.Nodes {
		for _, b := range n.Nodes[i+1:] {
			if n.linked(a, b) {
				fmt.Fprintf(&batch, "link add %s address %s netns %s type veth peer name %s address %s netns %s\n",
					b, n.hardware(a, b), n.Namespace(a), a, n.hardware(b, a), n.Namespace(b))
			}
		}
	}
	if err := IP(batch.String(), "-batch", "-"); err != nil {
		return err
	}
	for _, node := range n.Nodes {
		if err := IP(n.inside(node), "-netns", n.Namespace(node), "-batch", "-"); err != nil {
			return err
		}
		if err := IP("", "netns", "exec", n.Namespace(node), "true"); err != nil {
			return err
		}
	}
	return nil
}

// inside returns the commands that set one namespace up. Neighbours are fixed and IPv6 has no addresses, so links carry only packets of
// the test's processes.
func (n *Network) inside(node string) string {
	var batch strings.Builder
	batch.WriteString("link set lo up\n")
	for _, host := range hosts() {
		fmt.Fprintf(&batch, "addr add %s/32 dev lo\n", n.Address(node, host))
	}
	for _, other := range n.Nodes {
		if !n.linked(node, other) {
			continue
		}
		fmt.Fprintf(&batch, "link set %s addrgenmode none\nlink set %s up\n", other, other)
		fmt.Fprintf(&batch, "route add %s/24 dev %s src %s\n", n.Address(other, 0), other, n.Address(node, ClientHost))
		for _, host := range hosts() {
			fmt.Fprintf(&batch, "neigh add %s lladdr %s dev %s nud permanent\n", n.Address(other, host), n.hardware(other, node), other)
		}
	}
	return batch.String()
}

func hosts() []int {
	all := []int{ClientHost}
	for k := 1; k <= maxServers; k++ {
		all = append(all, k)
	}
	return all
}

// IP runs the command ip of iproute2 with an input.
func IP(in string, args ...string) error {
	_, err := IPOutput(in, args...)
	return err
}

// IPOutput is IP that returns the standard output.
func IPOutput(in string, args ...string) ([]byte, error) {
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("ip %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// removeLeftovers deletes network namespaces of dead processes.
func removeLeftovers() error {
	left, err := filepath.Glob("/run/netns/" + networkPrefix + "*")
	if err != nil {
		return err
	}
	for _, path := range left {
		name := filepath.Base(path)
		owner, _, _ := strings.Cut(strings.TrimPrefix(name, networkPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		if err := IP("", "netns", "delete", name); err != nil {
			return fmt.Errorf("remove a namespace of a dead process: %w", err)
		}
	}
	return nil
}

package zones

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/freshet-io/freshet/internal/testservers"
)

const (
	// namePrefix begins the names of all namespaces of this package; the process id follows.
	namePrefix = "freshet-zones-"
	// clientHost is the last part of the address that a namespace's clients have, serversMost the largest one of servers.
	clientHost, serversMost = 100, 4
)

var made atomic.Int64 // networks of this process

// namespaces is one network namespace per node and one link between each two, whose interface at either end is called
// like the node at the other.
type namespaces struct {
	t      *testing.T
	prefix string
}

// newNamespaces makes them; they go with the test. It begins with removing those that a process left which is dead.
func newNamespaces(t *testing.T) (*namespaces, error) {
	t.Helper()
	if err := removeLeftovers(); err != nil {
		return nil, err
	}
	n := &namespaces{t: t, prefix: fmt.Sprintf("%s%d-%d-", namePrefix, os.Getpid(), made.Add(1))}
	t.Cleanup(func() {
		for _, node := range nodes {
			_ = ip("", "netns", "delete", n.name(node)) // perhaps it was never made
		}
	})
	if err := n.build(); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *namespaces) name(node string) string { return n.prefix + node }

func (n *namespaces) build() error {
	var batch strings.Builder
	for _, node := range nodes {
		fmt.Fprintf(&batch, "netns add %s\n", n.name(node))
	}
	for i, a := range nodes {
		for _, b := range nodes[i+1:] {
			fmt.Fprintf(&batch, "link add %s address %s netns %s type veth peer name %s address %s netns %s\n",
				b, hardware(a, b), n.name(a), a, hardware(b, a), n.name(b))
		}
	}
	if err := ip(batch.String(), "-batch", "-"); err != nil {
		return err
	}
	for _, node := range nodes {
		if err := ip(n.inside(node), "-netns", n.name(node), "-batch", "-"); err != nil {
			return err
		}
		if err := ip("", "netns", "exec", n.name(node), "true"); err != nil {
			return err
		}
	}
	return nil
}

// inside gives the commands that set one namespace up. Neighbours are fixed and IPv6 has no addresses, so that nothing is on a
// link but what processes send.
func (n *namespaces) inside(node string) string {
	var batch strings.Builder
	batch.WriteString("link set lo up\n")
	for _, host := range hosts() {
		fmt.Fprintf(&batch, "addr add %s/32 dev lo\n", address(node, host))
	}
	for _, other := range nodes {
		if other == node {
			continue
		}
		fmt.Fprintf(&batch, "link set %s addrgenmode none\nlink set %s up\n", other, other)
		fmt.Fprintf(&batch, "route add %s/24 dev %s src %s\n", address(other, 0), other, address(node, clientHost))
		for _, host := range hosts() {
			fmt.Fprintf(&batch, "neigh add %s lladdr %s dev %s nud permanent\n", address(other, host), hardware(other, node), other)
		}
	}
	return batch.String()
}

func hosts() []int {
	all := []int{clientHost}
	for k := 1; k <= serversMost; k++ {
		all = append(all, k)
	}
	return all
}

func address(node string, host int) string { return fmt.Sprintf("10.200.%d.%d", index(node), host) }

// hardware is the address of a node's interface to another.
func hardware(node, to string) string {
	return fmt.Sprintf("02:00:00:00:%02x:%02x", index(node), index(to))
}

// ip runs iproute2's command.
func ip(in string, args ...string) error {
	_, err := ipOutput(in, args...)
	return err
}

func ipOutput(in string, args ...string) ([]byte, error) {
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

// removeLeftovers deletes namespaces of processes that do not live any more.
func removeLeftovers() error {
	left, err := filepath.Glob("/run/netns/" + namePrefix + "*")
	if err != nil {
		return err
	}
	for _, path := range left {
		name := filepath.Base(path)
		owner, _, _ := strings.Cut(strings.TrimPrefix(name, namePrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		if err := ip("", "netns", "delete", name); err != nil {
			return fmt.Errorf("remove what a dead process left: %w", err)
		}
	}
	return nil
}

func (n *namespaces) String() string {
	return "network namespaces: bytes of frames, as the kernel counts them at the links' interfaces"
}

func (n *namespaces) place(node string, k int) testservers.Place {
	if k == 0 {
		k = clientHost
	}
	return testservers.Place{Address: address(node, k), Namespace: n.name(node)}
}

func (n *namespaces) front(_, address string) string { return address }

func (n *namespaces) belongs(string, *testservers.Process) {}

// count reads what each interface has sent.
func (n *namespaces) count() matrix {
	n.t.Helper()
	m := make(matrix)
	for _, node := range nodes {
		out, err := ipOutput("", "-netns", n.name(node), "-statistics", "-json", "link")
		if err != nil {
			n.t.Fatal(err)
		}
		var links []struct {
			Name  string `json:"ifname"`
			Stats struct {
				Sent struct {
					Bytes int64 `json:"bytes"`
				} `json:"tx"`
			} `json:"stats64"`
		}
		if err := json.Unmarshal(out, &links); err != nil {
			n.t.Fatal(err)
		}
		for _, l := range links {
			to := l.Name
			if to == "lo" {
				to = node
			}
			m.add(node, to, l.Stats.Sent.Bytes)
		}
	}
	return m
}

package zones

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/freshet-io/freshet/internal/testservers"
)

// network is what zones are made of, and counts.
type network interface {
	// String says what is counted.
	String() string
	// place says where a node's k-th server runs, from 1 on, or its clients: k is 0.
	place(node string, k int) testservers.Place
	// front gives the address that others are told instead of one that a node's server listens at.
	front(node, address string) string
	// belongs says of which node a process is, before it connects to anything.
	belongs(node string, p *testservers.Process)
	// count gives all bytes so far.
	count() matrix
}

// newNetwork makes namespaces; where that is not allowed, or not wanted, loopback addresses.
func newNetwork(t *testing.T, loopback bool) network {
	t.Helper()
	if loopback {
		return newLoopback(t)
	}
	n, err := newNamespaces(t)
	if err != nil {
		t.Logf("network namespaces are not allowed here, so bytes are counted by loopback address: %v", err)
		return newLoopback(t)
	}
	return n
}

// home gives a process of the harness its node, and which of the node's it is: agents go around the zones.
func home(process string) (node string, k int) {
	kind, number, _ := strings.Cut(process, "-")
	i, _ := strconv.Atoi(number) // etcd and s3 have none: 0
	switch kind {
	case "agent":
		return zones[i%len(zones)], 1 + i/len(zones)
	case "controlplane":
		return control, 1
	case "s3":
		return store, 1
	default:
		return process, 1
	}
}

// index is a node's number in addresses.
func index(node string) int { return topology.Index(node) }

// forcedLoopback says whether loopback addresses are asked for.
func forcedLoopback() bool { return os.Getenv("FRESHET_ZONES_LOOPBACK") == "1" }

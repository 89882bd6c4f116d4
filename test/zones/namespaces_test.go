package zones

import (
	"encoding/json"
	"testing"

	"github.com/freshet-io/freshet/internal/testservers"
)

// topology has a link between each two nodes.
var topology = testservers.Topology{Nodes: nodes}

// namespaces is one network namespace per node.
type namespaces struct {
	t *testing.T
	*testservers.Network
}

// newNamespaces makes them. They end with the test.
func newNamespaces(t *testing.T) (*namespaces, error) {
	t.Helper()
	n, err := topology.Start(t)
	return &namespaces{t, n}, err
}

func address(node string, host int) string { return topology.Address(node, host) }

func (n *namespaces) String() string {
	return "network namespaces: bytes of frames, as the kernel counts them at the links' interfaces"
}

func (n *namespaces) place(node string, k int) testservers.Place { return n.Place(node, k) }

func (n *namespaces) front(_, address string) string { return address }

func (n *namespaces) belongs(string, *testservers.Process) {}

// count reads the bytes that each interface has sent.
func (n *namespaces) count() matrix {
	n.t.Helper()
	m := make(matrix)
	for _, node := range nodes {
		out, err := testservers.IPOutput("", "-netns", n.Namespace(node), "-statistics", "-json", "link")
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

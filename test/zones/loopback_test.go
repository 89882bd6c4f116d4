package zones

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/freshet-io/freshet/internal/testproxy"
	"github.com/freshet-io/freshet/internal/testservers"
)

// nobody is the node of a connection whose process is not known.
const nobody = "nobody"

// loopback is one loopback network per node, with a proxy before every server that others are told of.
type loopback struct {
	t *testing.T

	mu        sync.Mutex
	fronts    []front
	processes []*testservers.Process
	nodes     []string // of processes
}

type front struct {
	node  string
	proxy *testproxy.Proxy
}

func newLoopback(t *testing.T) *loopback {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 and tells whose a connection is")
	}
	return &loopback{t: t}
}

func (l *loopback) String() string {
	return "loopback addresses: bytes of TCP connections, as proxies before the servers count them"
}

func (l *loopback) place(node string, k int) testservers.Place {
	if k == 0 {
		return testservers.Place{} // clients listen nowhere
	}
	return testservers.Place{Address: fmt.Sprintf("127.0.%d.%d", index(node), k)}
}

func (l *loopback) front(node, address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		l.t.Fatal(err)
	}
	proxy := testproxy.StartAt(l.t, host, address, l.nodeOf)
	proxy.Block(testproxy.ToServer, nobody)
	proxy.Block(testproxy.ToClient, nobody)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fronts = append(l.fronts, front{node, proxy})
	return proxy.Address()
}

func (l *loopback) belongs(node string, p *testservers.Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes, l.nodes = append(l.processes, p), append(l.nodes, node)
}

// nodeOf tells from which node a connection comes. One that its process has closed already, or that the kernel's table
// passes over again and again, is nobody's: nothing of it goes on, and so nothing goes uncounted.
func (l *loopback) nodeOf(accepted net.Conn) string {
	l.mu.Lock()
	all, nodes := slices.Clone(l.processes), slices.Clone(l.nodes)
	l.mu.Unlock()
	if p := testservers.Dialer(accepted, all...); p != nil {
		return nodes[slices.Index(all, p)]
	}
	return nobody
}

func (l *loopback) count() matrix {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := make(matrix)
	for _, f := range l.fronts {
		for client, bytes := range f.proxy.Passed(testproxy.ToServer) {
			m.add(client, f.node, bytes)
		}
		for client, bytes := range f.proxy.Passed(testproxy.ToClient) {
			m.add(f.node, client, bytes)
		}
	}
	return m
}

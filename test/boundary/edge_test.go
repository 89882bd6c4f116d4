package boundary

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// publicName is the address of a control plane for agents. Only the edge resolves it.
func publicName(controlPlane string) string {
	return "control" + strings.TrimPrefix(controlPlane, "controlplane") + ".test:443"
}

// edge is an HTTPS proxy that connects to the public names of control planes alone.
type edge struct {
	t        *testing.T
	url      string
	place    testservers.Place
	listener net.Listener

	mu        sync.Mutex
	addresses map[string]string // behind each public name
	asked     map[string]int    // CONNECT requests by target
}

func startEdge(t *testing.T, place testservers.Place) *edge {
	t.Helper()
	e := &edge{t: t, place: place, listener: place.Listen(t), addresses: map[string]string{}, asked: map[string]int{}}
	t.Cleanup(func() { _ = e.listener.Close() }) // once
	e.url = "http://" + e.listener.Addr().String()
	return e
}

// serve begins to accept connections.
func (e *edge) serve(c *harness.Cluster) {
	for i, p := range c.ControlPlanes {
		e.addresses[publicName(fmt.Sprintf("controlplane-%d", i))] = p.GRPC
	}
	go func() {
		for {
			in, err := e.listener.Accept()
			if err != nil {
				return
			}
			go e.connect(in)
		}
	}()
}

func (e *edge) connect(in net.Conn) {
	defer in.Close()
	buffered := bufio.NewReader(in)
	req, err := http.ReadRequest(buffered)
	if err != nil {
		return
	}
	e.mu.Lock()
	e.asked[req.Method+" "+req.Host]++
	address, ok := e.addresses[req.Host]
	e.mu.Unlock()
	if !ok {
		_, _ = io.WriteString(in, "HTTP/1.1 403 Forbidden\r\n\r\n")
		return
	}
	out, err := e.place.Dial(e.t.Context(), "tcp", address)
	if err != nil {
		_, _ = io.WriteString(in, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer out.Close()
	if _, err := io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pass(out, buffered) })
	both.Go(func() { pass(in, out) })
	both.Wait()
}

// pass copies until either side ends, and then ends the other one.
func pass(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from) // a broken connection is passed on
	_ = to.Close()
}

// compare checks that the proxy was asked for all public names, and for nothing else.
func (e *edge) compare(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	t.Logf("requests at the proxy: %v", e.asked)
	for name := range e.addresses {
		require.Positive(t, e.asked["CONNECT "+name])
	}
	require.Len(t, e.asked, len(e.addresses))
}

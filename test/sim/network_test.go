package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// network is what agents reach control-plane replicas through: listeners by address, in memory.
type network struct {
	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
}

func newNetwork() *network { return &network{listeners: map[string]*bufconn.Listener{}} }

// listen opens an address again and again: a replica that restarts is found at the same one.
func (n *network) listen(address string) *bufconn.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := bufconn.Listen(1 << 20)
	n.listeners[address] = l
	return l
}

func (n *network) close(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.listeners[address]; l != nil {
		_ = l.Close()
		delete(n.listeners, address)
	}
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("%s: connection refused", address)
	}
	return l.DialContext(ctx)
}

var errDown = errors.New("link is down")

// link is one agent's way to the control plane.
type link struct {
	net *network

	mu    sync.Mutex
	down  bool
	deaf  chan struct{} // gate of connections to come; nil: none
	conns map[*conn]struct{}
}

func newLink(n *network) *link { return &link{net: n, conns: map[*conn]struct{}{}} }

func (l *link) dial(ctx context.Context, address string) (net.Conn, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return nil, errDown
	}
	inner, err := l.net.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &conn{Conn: inner, link: l, closed: make(chan struct{}), gate: l.deaf}
	l.conns[c] = struct{}{}
	return c, nil
}

func (l *link) all() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.conns))
}

// cut breaks the connections there are; new ones can be made at once.
func (l *link) cut() {
	for _, c := range l.all() {
		_ = c.Close()
	}
}

// setDown breaks the connections and lets no new one through until it is set back.
func (l *link) setDown(down bool) {
	l.mu.Lock()
	l.down = down
	l.mu.Unlock()
	if down {
		l.cut()
	}
}

// blackhole lets nothing that the control plane sends on the connections there are now arrive any more, until release
// is called; nobody is told. What the agent sends arrives. New connections are not affected.
func (l *link) blackhole() (release func()) {
	gate := make(chan struct{})
	for _, c := range l.all() {
		c.setGate(gate)
	}
	return sync.OnceFunc(func() { close(gate) })
}

// deafen lets nothing arrive that the control plane sends, on any connection, until hear is called.
func (l *link) deafen() {
	l.mu.Lock()
	l.deaf = make(chan struct{})
	gate := l.deaf
	l.mu.Unlock()
	for _, c := range l.all() {
		c.setGate(gate)
	}
}

func (l *link) hear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf != nil {
		close(l.deaf)
		l.deaf = nil
	}
}

// conn is a connection whose incoming bytes can be held back.
type conn struct {
	net.Conn
	link   *link
	once   sync.Once
	closed chan struct{}

	mu   sync.Mutex
	gate chan struct{} // nil: open
}

func (c *conn) setGate(gate chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate = gate
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	gate := c.gate
	c.mu.Unlock()
	if gate == nil {
		return n, err
	}
	select {
	case <-gate:
		return n, err
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.link.mu.Lock()
		delete(c.link.conns, c)
		c.link.mu.Unlock()
	})
	return c.Conn.Close()
}

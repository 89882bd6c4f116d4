package elastic

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
)

// balancer is the load balancer of a zone: it spreads connections to each of its ports over the agents that it has, and refuses
// them while it has none, as a Service without endpoints does.
type balancer struct {
	t     *testing.T
	ports []*balancerPort
}

type balancerPort struct {
	address string
	wg      sync.WaitGroup

	mu struct {
		sync.Mutex
		listener net.Listener // nil while there is no agent
		agents   []string     // addresses
		turn     int
		conns    map[net.Conn]struct{}
		closed   bool
	}
}

// newBalancer has a number of ports and no agent.
func newBalancer(t *testing.T, ports int) *balancer {
	t.Helper()
	b := &balancer{t: t}
	for range ports {
		p := &balancerPort{address: testservers.Place{}.FreeAddress(t)}
		p.mu.conns = make(map[net.Conn]struct{})
		b.ports = append(b.ports, p)
		t.Cleanup(p.close)
	}
	return b
}

// entries are the addresses as --shared-advertise takes them.
func (b *balancer) entries(listener, zone string) string {
	var entries []string
	for _, p := range b.ports {
		entries = append(entries, fmt.Sprintf("%s/%s=%s", listener, zone, p.address))
	}
	return strings.Join(entries, ",")
}

// add sends new connections to an agent too. addresses are one per port.
func (b *balancer) add(addresses []string) {
	b.t.Helper()
	for i, p := range b.ports {
		require.NoError(b.t, p.add(addresses[i]))
	}
}

// remove sends an agent no new connections. Those that it has stay.
func (b *balancer) remove(addresses []string) {
	for i, p := range b.ports {
		p.remove(addresses[i])
	}
}

func (p *balancerPort) add(agent string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.agents = append(p.mu.agents, agent)
	if p.mu.listener != nil || p.mu.closed {
		return nil
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return err
	}
	p.mu.listener = listener
	p.wg.Go(func() { p.accept(listener) })
	return nil
}

func (p *balancerPort) remove(agent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.agents = slices.DeleteFunc(p.mu.agents, func(a string) bool { return a == agent })
	if len(p.mu.agents) == 0 && p.mu.listener != nil {
		_ = p.mu.listener.Close()
		p.mu.listener = nil
	}
}

func (p *balancerPort) close() {
	p.mu.Lock()
	p.mu.closed = true
	if p.mu.listener != nil {
		_ = p.mu.listener.Close()
	}
	for c := range p.mu.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *balancerPort) accept(listener net.Listener) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.serve(in) })
	}
}

// serve passes one connection on to the agent whose turn it is, or to the next that can be reached.
func (p *balancerPort) serve(in net.Conn) {
	defer func() { _ = in.Close() }()
	out := p.dial()
	if out == nil || !p.hold(in, out) {
		return
	}
	defer p.release(in, out)
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.(*net.TCPConn).CloseWrite()
	}
	both.Go(func() { pass(out, in) })
	both.Go(func() { pass(in, out) })
	both.Wait()
}

func (p *balancerPort) dial() net.Conn {
	p.mu.Lock()
	agents, turn := slices.Clone(p.mu.agents), p.mu.turn
	p.mu.turn++
	p.mu.Unlock()
	for i := range agents {
		if out, err := net.Dial("tcp", agents[(turn+i)%len(agents)]); err == nil {
			return out
		}
	}
	return nil
}

// hold has connections closed with the balancer.
func (p *balancerPort) hold(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	for _, c := range conns {
		p.mu.conns[c] = struct{}{}
	}
	return true
}

func (p *balancerPort) release(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.mu.conns, c)
	}
}

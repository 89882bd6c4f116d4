// Package testproxy is a TCP proxy that tests put between two processes, to hold back what one says to the other while
// the connection stays open, as a network that swallows packets does, or to cut the connection.
package testproxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// Direction is a way through the proxy.
type Direction int

// The two directions.
const (
	ToServer Direction = iota
	ToClient
)

// chunk is how much is read at once; what was read while a direction is blocked is delivered when it is not any more.
const chunk = 32 << 10

// Proxy listens on a port of its own and passes connections on to its target. It ends with the test.
type Proxy struct {
	listener net.Listener
	target   string
	identify func(client net.Conn) string
	wg       sync.WaitGroup

	mu struct {
		sync.Mutex
		changed chan struct{} // closed and replaced when blocks change
		blocks  map[block]bool
		links   map[*link]bool
		closed  bool
		passed  map[block]int64 // bytes by direction and client
	}
}

// block names bytes: one client's in one direction; where it says what is held back, with client "" everybody's.
type block struct {
	direction Direction
	client    string
}

type link struct {
	client  string
	in, out net.Conn
}

// Start begins to listen on a free loopback port. identify names the client of a connection that was accepted; nil: no
// client has a name.
func Start(tb testing.TB, target string, identify func(client net.Conn) string) *Proxy {
	tb.Helper()
	return StartAt(tb, "127.0.0.1", target, identify)
}

// StartAt is Start on a free port of another address of this machine.
func StartAt(tb testing.TB, host, target string, identify func(client net.Conn) string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	if identify == nil {
		identify = func(net.Conn) string { return "" }
	}
	p := &Proxy{listener: l, target: target, identify: identify}
	p.mu.changed = make(chan struct{})
	p.mu.blocks = make(map[block]bool)
	p.mu.links = make(map[*link]bool)
	p.mu.passed = make(map[block]int64)
	p.wg.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Address is where the proxy listens, host:port.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Block holds back what goes in a direction to or from a client, on connections there are and on new ones. Client ""
// is everybody.
func (p *Proxy) Block(d Direction, client string) { p.set(block{d, client}, true) }

// Unblock ends a Block of the same direction and client: what was held back is delivered.
func (p *Proxy) Unblock(d Direction, client string) { p.set(block{d, client}, false) }

// Cut closes the connections of a client, or with "" all, without delivering what is held back.
func (p *Proxy) Cut(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.mu.links {
		if client == "" || l.client == client {
			l.close()
		}
	}
}

// Passed gives how many bytes went in a direction to or from each client so far, by its name.
func (p *Proxy) Passed(d Direction) map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes := make(map[string]int64)
	for b, n := range p.mu.passed {
		if b.direction == d {
			bytes[b.client] = n
		}
	}
	return bytes
}

func (p *Proxy) set(b block, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.mu.blocks[b] = true
	} else {
		delete(p.mu.blocks, b)
	}
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() { p.serve(in) })
	}
}

// serve passes one connection on until both its directions have ended. To tell whose it is may take a while, which servers
// would not wait for that expect something to be said.
func (p *Proxy) serve(in net.Conn) {
	client := p.identify(in)
	out, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = in.Close() // the client sees the target gone
		return
	}
	l := &link{client: client, in: in, out: out}
	if !p.add(l) {
		l.close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(ToServer, l.client, in, out) })
	both.Go(func() { p.pump(ToClient, l.client, out, in) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.links, l)
	l.close()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.closed {
		p.mu.links[l] = true
	}
	return !p.mu.closed
}

// pump copies one direction. Its end is passed on as such: the other direction may go on.
func (p *Proxy) pump(d Direction, client string, from, to net.Conn) {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		p.pass(d, client, n)
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				err = failed
			}
		}
		if errors.Is(err, io.EOF) {
			_ = to.(*net.TCPConn).CloseWrite() // gone already, perhaps
			return
		}
		if err != nil {
			_, _ = from.Close(), to.Close() // reset: the other direction ends too
			return
		}
	}
}

// pass waits until the direction is open for the client, and counts n bytes then.
func (p *Proxy) pass(d Direction, client string, n int) {
	for {
		p.mu.Lock()
		held := !p.mu.closed && (p.mu.blocks[block{d, client}] || p.mu.blocks[block{d, ""}])
		changed := p.mu.changed
		if !held {
			p.mu.passed[block{d, client}] += int64(n)
		}
		p.mu.Unlock()
		if !held {
			return
		}
		<-changed
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.mu.closed = true
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
	for l := range p.mu.links {
		l.close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (l *link) close() {
	_, _ = l.in.Close(), l.out.Close()
}

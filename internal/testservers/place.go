package testservers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Place is where a server or a client runs: at an address and, on Linux, perhaps in a network namespace, in which there
// are other addresses than in the test's own. The zero value is this machine's loopback address.
type Place struct {
	Address   string // the IP address that servers listen at; "": 127.0.0.1
	Namespace string // a network namespace as `ip netns` names it; "": the test's own
}

// Command returns the program and the arguments that run a program there.
func (p Place) Command(program string, args []string) (string, []string) {
	if p.Namespace == "" {
		return program, args
	}
	// It replaces itself by the program: the process id is the program's.
	return "ip", append([]string{"netns", "exec", p.Namespace, program}, args...)
}

// Host is the IP address that servers listen at.
func (p Place) Host() string {
	if p.Address == "" {
		return "127.0.0.1"
	}
	return p.Address
}

// FreeAddress gives an address and port, host:port, that is free and stays so until a server is started there, or started
// again: nobody is given the port by the kernel, and no other test process by FreeAddress.
func (p Place) FreeAddress(tb testing.TB) string {
	tb.Helper()
	var address string
	err := p.enter(func() error {
		for {
			port, err := ports.next()
			if err != nil {
				return err
			}
			l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", net.JoinHostPort(p.Host(), strconv.Itoa(port)))
			if errors.Is(err, syscall.EADDRINUSE) {
				continue
			}
			if err != nil {
				return err
			}
			address = l.Addr().String()
			return l.Close()
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	return address
}

// Dial connects to an IP address and port as a process there does. A socket stays in the namespace that it was made in.
func (p Place) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = p.enter(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen accepts TCP connections at a free port of the place's address.
func (p Place) Listen(tb testing.TB) net.Listener {
	tb.Helper()
	var l net.Listener
	err := p.enter(func() (err error) {
		l, err = new(net.ListenConfig).Listen(tb.Context(), "tcp", net.JoinHostPort(p.Host(), "0"))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// ListenPacket receives datagrams at an IP address and port as a process there does.
func (p Place) ListenPacket(ctx context.Context, network, address string) (c net.PacketConn, err error) {
	err = p.enter(func() error {
		c, err = new(net.ListenConfig).ListenPacket(ctx, network, address)
		return err
	})
	return c, err
}

// HTTP gives a client that connects as a process there does, anew for each request.
func (p Place) HTTP(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: p.Dial}}
}

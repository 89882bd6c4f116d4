package testservers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Place is where a server or a client runs: at an address and, on Linux, perhaps in a network namespace, in which there
// are other addresses than in the test's own. The zero value is this machine's loopback address.
type Place struct {
	Address   string // the IP address that servers listen at; "": 127.0.0.1
	Namespace string // a network namespace as `ip netns` names it; "": the test's own
}

// command gives the program and the arguments that run a program there.
func (p Place) command(program string, args []string) (string, []string) {
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

// Ports that FreeAddress gives are below those that the kernel gives to connections, so that they are still free when a
// server is started much later. Each is given once in a process.
const firstPort, lastPort = 10_000, 32_000

var givenPorts sync.Map

// FreeAddress gives an address and port, host:port, that was free a moment ago.
func (p Place) FreeAddress(tb testing.TB) string {
	tb.Helper()
	var address string
	err := p.enter(func() error {
		var err error
		for range portAttempts * 20 {
			port := firstPort + rand.IntN(lastPort-firstPort)
			if _, given := givenPorts.LoadOrStore(port, true); given {
				continue
			}
			var l net.Listener
			if l, err = new(net.ListenConfig).Listen(tb.Context(), "tcp", net.JoinHostPort(p.Host(), strconv.Itoa(port))); err == nil {
				address = l.Addr().String()
				return l.Close()
			}
		}
		return fmt.Errorf("no port is free: %w", err)
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

// HTTP gives a client that connects as a process there does, anew for each request.
func (p Place) HTTP(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: p.Dial}}
}

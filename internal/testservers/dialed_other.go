//go:build !linux

package testservers

import "net"

// Dialed cannot tell on this system.
func (p *Process) Dialed(net.Conn) bool { return false }

// Dialer cannot tell on this system.
func Dialer(net.Conn, ...*Process) *Process { return nil }

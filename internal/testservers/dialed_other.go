//go:build !linux

package testservers

import "net"

// Dialed cannot tell on this system.
func (p *Process) Dialed(net.Conn) bool { return false }

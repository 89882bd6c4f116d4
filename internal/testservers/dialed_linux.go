package testservers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Dialed tells whether a TCP connection over IPv4 that was accepted in this process was made by p's, as the kernel
// knows it: the socket at the other end is among that process's open files.
func (p *Process) Dialed(accepted net.Conn) bool {
	from, ok1 := accepted.RemoteAddr().(*net.TCPAddr)
	to, ok2 := accepted.LocalAddr().(*net.TCPAddr)
	pid := p.PID()
	if !ok1 || !ok2 || pid == 0 {
		return false
	}
	inode := socketInode(from, to)
	if inode == "" {
		return false
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, f := range files {
		if target, err := os.Readlink(f); err == nil && target == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// socketInode looks a connection up in the kernel's table of TCP sockets: its second and third column are the local
// and the remote address, its tenth the inode. One local port may serve connections with several remote ones.
func socketInode(from, to *net.TCPAddr) string {
	local, remote := tableAddress(from), tableAddress(to)
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil || local == "" || remote == "" {
		return ""
	}
	for line := range strings.Lines(string(table)) {
		if columns := strings.Fields(line); len(columns) > 9 && columns[1] == local && columns[2] == remote {
			return columns[9]
		}
	}
	return ""
}

// tableAddress writes an address as that table does: the IPv4 address as a little-endian number, and the port, in hex.
func tableAddress(a *net.TCPAddr) string {
	ip := a.IP.To4()
	if ip == nil {
		return ""
	}
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], a.Port)
}

package testservers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Dialed tells whether a TCP connection from that IPv4 address was made by this process, as the kernel knows it: its
// socket is among the process's open files.
func (p *Process) Dialed(from net.Addr) bool {
	addr, ok := from.(*net.TCPAddr)
	pid := p.PID()
	if !ok || pid == 0 {
		return false
	}
	inode := socketInode(addr)
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

// socketInode looks a local address up in the kernel's table of TCP sockets: its second column is the local address
// (the IPv4 address as a little-endian number, and the port, in hex), the tenth the inode.
func socketInode(addr *net.TCPAddr) string {
	ip := addr.IP.To4()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil || ip == nil {
		return ""
	}
	local := fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], addr.Port)
	for line := range strings.Lines(string(table)) {
		if columns := strings.Fields(line); len(columns) > 9 && columns[1] == local {
			return columns[9]
		}
	}
	return ""
}

package testservers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Dialed tells whether a TCP connection over IPv4 that was accepted in this process was made by p's, as the kernel
// knows it: the socket at the other end is among that process's open files.
func (p *Process) Dialed(accepted net.Conn) bool { return Dialer(accepted, p) != nil }

// looks is how often a connection is looked for in the kernel's table, where the kernel cannot be asked. It is not read in one
// piece: while other connections come and go an entry may be passed over. With thousands of them each look takes a tenth of
// a second.
const looks = 10

// Dialer gives the one of some processes that made a connection, as Dialed has it; nil: none of them did, or whoever did has
// closed it.
func Dialer(accepted net.Conn, among ...*Process) *Process {
	from, ok1 := accepted.RemoteAddr().(*net.TCPAddr)
	to, ok2 := accepted.LocalAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return nil
	}
	inode, err := askInode(from, to)
	if err != nil && !errors.Is(err, errNoSocket) {
		for look := 0; look < looks && inode == ""; look++ {
			inode = socketInode(from, to)
		}
	}
	if inode == "" {
		return nil
	}
	for _, p := range among {
		if p.opened(inode) {
			return p
		}
	}
	return nil
}

// opened tells whether a socket is among the process's open files.
func (p *Process) opened(inode string) bool {
	pid := p.PID()
	if pid == 0 {
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

// socketInode looks a connection up in the kernel's tables of TCP sockets: the second and third column are the local
// and the remote address, the tenth is the inode. One local port may serve connections with several remote ones. Sockets
// of IPv6 that speak IPv4, as the JVM's do, are in the other table.
func socketInode(from, to *net.TCPAddr) string {
	local, remote := tableAddress(from), tableAddress(to)
	if local == "" || remote == "" {
		return ""
	}
	const mapped = "0000000000000000FFFF0000"
	if inode := tableInode("/proc/net/tcp", local, remote); inode != "" {
		return inode
	}
	return tableInode("/proc/net/tcp6", mapped+local, mapped+remote)
}

func tableInode(path, local, remote string) string {
	table, err := os.ReadFile(path)
	if err != nil {
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

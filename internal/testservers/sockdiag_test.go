//go:build linux

package testservers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAskInode_FindsTheSocket: the kernel tells the same of a connection as its table does, also of one by a socket of IPv6,
// which JVMs have; and that there is none any more.
func TestAskInode_FindsTheSocket(t *testing.T) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer l.Close()
	to := l.Addr().(*net.TCPAddr)
	for name, family := range map[string]int{"IPv4": unix.AF_INET, "IPv6": unix.AF_INET6} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			var target unix.Sockaddr = &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}
			if family == unix.AF_INET6 {
				target = &unix.SockaddrInet6{Port: to.Port, Addr: [16]byte(to.IP.To16())}
			}
			require.NoError(t, unix.Connect(fd, target))
			accepted, err := l.Accept()
			require.NoError(t, err)
			defer accepted.Close()
			from := accepted.RemoteAddr().(*net.TCPAddr)

			inode, err := askInode(from, to)
			if err != nil && !errors.Is(err, errNoSocket) {
				t.Skipf("the kernel cannot be asked: %v", err)
			}
			require.NoError(t, err)
			link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
			require.NoError(t, err)
			require.Equal(t, link, "socket:["+inode+"]")
			require.Equal(t, inode, socketInode(from, to))

			require.NoError(t, unix.Close(fd))
			accepted.Close()
			inode, err = askInode(from, to)
			require.True(t, err != nil || inode == "0", "inode %s, %v", inode, err) // it may be kept for a while, as nobody's
		})
	}
}

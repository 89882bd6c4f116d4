package testservers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// Layout of a request of sock_diag(7): a netlink header (16 bytes), struct inet_diag_req_v2, whose last part is a socket's
// addresses; and of its answer: a netlink header, struct inet_diag_msg with the addresses from byte 4 on.
const (
	headerBytes  = unix.NLMSG_HDRLEN
	requestBytes = 8 + socketBytes
	socketBytes  = 48
	answerBytes  = 4 + socketBytes + 20
	inodeAt      = 4 + socketBytes + 16
	diagTimeout  = 5 // s
)

// errNoSocket: the kernel has no such connection.
var errNoSocket = errors.New("no such socket")

// askInode asks the kernel for the inode of a socket of IPv4 by its connection, which takes it no longer with many of them.
func askInode(local, remote *net.TCPAddr) (string, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return "", fmt.Errorf("open a netlink socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: diagTimeout}); err != nil {
		return "", fmt.Errorf("bound the wait for an answer: %w", err)
	}
	if err := unix.Sendto(fd, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return "", fmt.Errorf("ask for a socket: %w", err)
	}
	answer := make([]byte, 4<<10)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return "", fmt.Errorf("hear of a socket: %w", err)
	}
	return diagInode(answer[:n], remote)
}

func diagRequest(local, remote *net.TCPAddr) []byte {
	r := make([]byte, headerBytes+requestBytes)
	binary.NativeEndian.PutUint32(r, uint32(len(r)))
	binary.NativeEndian.PutUint16(r[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(r[6:], unix.NLM_F_REQUEST)
	body := r[headerBytes:]
	body[0], body[1] = unix.AF_INET, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[4:], ^uint32(0)) // whatever its state
	socket := body[8:]
	binary.BigEndian.PutUint16(socket, uint16(local.Port))
	binary.BigEndian.PutUint16(socket[2:], uint16(remote.Port))
	copy(socket[4:], local.IP.To4())
	copy(socket[20:], remote.IP.To4())
	for i := 40; i < socketBytes; i++ {
		socket[i] = 0xff // no cookie
	}
	return r
}

// diagInode reads an answer. Where there is no such connection the kernel may tell of a listener.
func diagInode(answer []byte, remote *net.TCPAddr) (string, error) {
	if len(answer) < headerBytes+4 {
		return "", errors.New("answer about a socket is too short")
	}
	kind, body := binary.NativeEndian.Uint16(answer[4:]), answer[headerBytes:]
	if kind == unix.NLMSG_ERROR {
		if code := unix.Errno(-int32(binary.NativeEndian.Uint32(body))); code != unix.ENOENT { //nolint:gosec // the kernel's errno, negated
			return "", fmt.Errorf("ask for a socket: %w", code)
		}
		return "", errNoSocket
	}
	if kind != unix.SOCK_DIAG_BY_FAMILY || len(body) < answerBytes {
		return "", fmt.Errorf("answer about a socket is of kind %d, %d bytes", kind, len(answer))
	}
	if binary.BigEndian.Uint16(body[6:]) != uint16(remote.Port) {
		return "", errNoSocket
	}
	return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(body[inodeAt:])), 10), nil
}

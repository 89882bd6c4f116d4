package attacks

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	patience   = 40 * time.Second // bound of one attack
	attackTime = 6 * time.Second  // time of attackers that read no answer
)

// attacker is a connection that sends requests without waiting for answers. Answers stay unread until receive or ask reads them.
type attacker struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	next int32
}

func dial(t *testing.T, bootstrap string) *attacker {
	t.Helper()
	return dialFrom(t, bootstrap, "127.0.0.1")
}

// dialFrom is dial from an address of its own, where the bound that an attack meets is shared by address.
func dialFrom(t *testing.T, bootstrap, address string) *attacker {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.Dial("tcp", bootstrap)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	t.Cleanup(func() { _ = conn.Close() })
	return &attacker{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// frame returns the encoded frame of a request.
func (a *attacker) frame(in kmsg.Request, version int16) []byte {
	in.SetVersion(version)
	a.next++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("attacker")).AppendRequest(nil, in, a.next)
}

// send sends a request. It ignores errors, because the server may close the connection of an attacker.
func (a *attacker) send(in kmsg.Request, version int16) { _, _ = a.conn.Write(a.frame(in, version)) }

// receive reads a response and returns its size, or false if the connection was closed.
func (a *attacker) receive() (size int, ok bool) {
	var head [4]byte
	if _, err := io.ReadFull(a.in, head[:]); err != nil {
		return 0, false
	}
	size = int(binary.BigEndian.Uint32(head[:]))
	_, err := io.CopyN(io.Discard, a.in, int64(size))
	return size, err == nil
}

// ask sends a request and decodes its response. It serves the preparation of attacks.
func ask[Out kmsg.Response](a *attacker, in kmsg.Request, version int16) Out {
	a.t.Helper()
	a.send(in, version)
	var head [4]byte
	_, err := io.ReadFull(a.in, head[:])
	require.NoError(a.t, err)
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err = io.ReadFull(a.in, body)
	require.NoError(a.t, err)
	out := in.ResponseKind()
	out.SetVersion(version)
	r := kbin.Reader{Src: body}
	require.Equal(a.t, a.next, r.Int32())
	if out.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	require.NoError(a.t, out.ReadFrom(r.Src))
	return out.(Out)
}

// flood sends a request on many connections at the same time and waits for the answers. It returns the sizes of the answers and the number of closed
// connections.
func flood(t *testing.T, bootstrap string, connections int, in kmsg.Request, version int16) string {
	t.Helper()
	type outcome struct {
		size int
		ok   bool
	}
	outcomes := make(chan outcome)
	for range connections {
		a := dial(t, bootstrap)
		frame := a.frame(in, version)
		go func() {
			_, _ = a.conn.Write(frame)
			size, ok := a.receive()
			outcomes <- outcome{size, ok}
		}()
	}
	bytes, closed := 0, 0
	for range connections {
		o := <-outcomes
		bytes += o.size
		if !o.ok {
			closed++
		}
	}
	return fmt.Sprintf("%d requests, %d bytes answered, %d connections closed", connections, bytes, closed)
}

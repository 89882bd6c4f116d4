package testproxy

import (
	"bufio"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shout is a server that answers every line with the same line.
func shout(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

type client struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, address string) client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

func (c client) say(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(c, line+"\n")
	require.NoError(t, err)
}

func (c client) hear(t *testing.T, line string) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	got, err := c.lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, line+"\n", got)
}

func (c client) silent(t *testing.T) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err := c.lines.ReadString('\n')
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestProxy_HoldsBackAndDelivers(t *testing.T) {
	for name, d := range map[string]Direction{"to server": ToServer, "to client": ToClient} {
		t.Run(name, func(t *testing.T) {
			p := Start(t, shout(t), nil)
			c := dial(t, p.Address())
			c.say(t, "one")
			c.hear(t, "one")
			p.Block(d, "")
			c.say(t, "two")
			c.silent(t)
			p.Unblock(d, "")
			c.hear(t, "two")
		})
	}
}

func TestProxy_BlocksOneClient(t *testing.T) {
	names, named := make(chan string, 2), make(chan string, 2)
	names <- "first"
	names <- "second"
	p := Start(t, shout(t), func(net.Conn) string {
		name := <-names
		named <- name
		return name
	})
	first := dial(t, p.Address())
	require.Equal(t, "first", <-named)
	second := dial(t, p.Address())
	require.Equal(t, "second", <-named)
	p.Block(ToClient, "first")
	first.say(t, "x")
	second.say(t, "y")
	second.hear(t, "y")
	first.silent(t)
	p.Unblock(ToClient, "first")
	first.hear(t, "x")
}

func TestProxy_CutEndsConnections(t *testing.T) {
	p := Start(t, shout(t), nil)
	c := dial(t, p.Address())
	c.say(t, "one")
	c.hear(t, "one")
	p.Block(ToClient, "")
	c.say(t, "held")
	p.Cut("")
	_, err := c.lines.ReadString('\n')
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	p.Unblock(ToClient, "")
	again := dial(t, p.Address())
	again.say(t, "two")
	again.hear(t, "two")
}

package peer

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// TestZone_StreamBoundsHeaders: an agent that answers with headers without end costs this one no more memory than a request
// may have.
func TestZone_StreamBoundsHeaders(t *testing.T) {
	var sent atomic.Int64
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, asks: func(c *Config) {
		c.Dial = func(context.Context, string, string) (net.Conn, error) {
			mine, its := net.Pipe()
			go func() {
				defer its.Close()
				_, _ = http.ReadRequest(bufio.NewReader(its))
				n, err := io.WriteString(its, "HTTP/1.1 101 Switching Protocols\r\n")
				for err == nil && sent.Add(int64(n)) < 64<<20 {
					n, err = io.WriteString(its, "X: "+strings.Repeat("x", 1000)+"\r\n")
				}
			}()
			return mine, nil
		}
	}}
	asker, other := c.start(testZone), c.start(testZone)
	_, _, err := asker.asks.Stream(t.Context(), other.session, "p")
	require.ErrorIs(t, err, ErrNoStream)
	require.LessOrEqual(t, sent.Load(), int64(2*maxHeaderBytes))
}

// TestZone_StreamGoesOnBehindHeaders: what follows the headers is not bounded by theirs, and none of it is lost.
func TestZone_StreamGoesOnBehindHeaders(t *testing.T) {
	const size = 4 * maxHeaderBytes
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, server: func(cfg *ServerConfig) {
		cfg.Upgrades = map[string]Upgrade{"p": func(conn net.Conn, _ *bufio.Reader, _ id.Session) {
			_, _ = io.WriteString(conn, strings.Repeat("x", size))
			_ = conn.Close()
		}}
	}}
	asker, other := c.start(testZone), c.start(testZone)
	conn, in, err := asker.asks.Stream(t.Context(), other.session, "p")
	require.NoError(t, err)
	defer conn.Close()
	got, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Len(t, got, size)
}

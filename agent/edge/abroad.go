package edge

import (
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	// abroadIdle is how long a connection of a client abroad may be without requests.
	abroadIdle = time.Second
	// minAbroadPause is how long a client abroad that reconnects to the port it was closed at keeps its new connections. It doubles each time
	// up to maxAbroadPause: some clients connect to every node, whether or not they have requests for it.
	minAbroadPause, maxAbroadPause = 2 * time.Second, time.Minute
	// maxAbroad bounds the clients that are remembered. Beyond them, no connection is closed.
	maxAbroad = 10_000
)

// abroad remembers whose idle connections were closed lately. The sweep alone uses it.
type abroad struct {
	closed map[uint64]abroadClose // by clientAtPort
}

// clientAtPort returns a hash of a client and a port, by what outlives the client's connections. Its id is as long as the client makes it.
func clientAtPort(c *Client, id string) uint64 {
	return xxhash.Sum64String(strings.Join([]string{id, c.Host, c.Listener, strconv.Itoa(c.PortIndex)}, "\x00"))
}

// abroadClose is the last close of a client's connections, and how long connections accepted since then are kept.
type abroadClose struct {
	at    time.Time
	pause time.Duration
}

// shouldClose reports whether to close a connection, and if so records the close. A client's connections from before its last close
// are closed too, and do not restart the pause.
func (a *abroad) shouldClose(c *conn, now time.Time) bool {
	id, isAbroad := c.clientID.Load(), c.server.cfg.Abroad
	if isAbroad == nil || id == nil || c.arriving.Load() || c.stopped() || !c.quiet(now, abroadIdle) || !isAbroad(c.client, *id) {
		return false
	}
	client := clientAtPort(c.client, *id)
	last, known := a.closed[client]
	switch {
	case !known && len(a.closed) >= maxAbroad:
		return false
	case !known:
		last.pause = minAbroadPause
	case c.accepted.Before(last.at):
		return true
	case now.Sub(last.at) < last.pause:
		return false
	default:
		last.pause = min(2*last.pause, maxAbroadPause)
	}
	if a.closed == nil {
		a.closed = make(map[uint64]abroadClose)
	}
	last.at = now
	a.closed[client] = last
	return true
}

// forget forgets clients whose last close is older than any pause by far.
func (a *abroad) forget(now time.Time) {
	for client, last := range a.closed {
		if now.Sub(last.at) >= 2*maxAbroadPause {
			delete(a.closed, client)
		}
	}
}

// stopped reports whether a connection is being closed.
func (c *conn) stopped() bool {
	select {
	case <-c.stopping:
		return true
	default:
		return false
	}
}

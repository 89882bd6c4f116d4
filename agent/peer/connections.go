package peer

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxAgents is the largest zone that the default bound of connections is made for.
const maxAgents = 200

// connections bounds the connections of a server, by its ConnState hook. At the bound a new connection replaces the one that
// is idle for the longest: an asker whose idle connection was closed sends its request again by another.
type connections struct {
	limit int
	freed sync.Cond // a connection was closed, has become idle, or has become a stream

	mu struct {
		sync.Mutex
		open map[net.Conn]*list.Element // the connection's place in idle, nil if it is not idle
		idle list.List                  // of net.Conn, the longest idle first
		// stopping ends the bound: the server accepts no more, and waits until the last that it accepted is served.
		stopping bool
	}
}

func newConnections(limit int) *connections {
	c := &connections{limit: limit}
	c.freed.L = &c.mu
	c.mu.open = make(map[net.Conn]*list.Element)
	return c
}

// changed follows a connection. The server calls it for a new one before it accepts the next, which so waits in the backlog.
// Streams are not counted: the package that serves them bounds them.
func (c *connections) changed(conn net.Conn, to http.ConnState) {
	if to == http.StateNew {
		c.admit(conn)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, open := c.mu.open[conn]
	if !open {
		return // it was replaced
	}
	if at != nil {
		c.mu.idle.Remove(at)
	}
	switch to {
	case http.StateIdle:
		c.mu.open[conn] = c.mu.idle.PushBack(conn)
	case http.StateClosed, http.StateHijacked:
		delete(c.mu.open, conn)
	default:
		c.mu.open[conn] = nil
		return
	}
	c.freed.Signal()
}

// admit waits for room for a new connection.
func (c *connections) admit(conn net.Conn) {
	replaced := c.replace(conn)
	if replaced != nil {
		_ = replaced.Close()
	}
}

// replace counts a new connection. It returns the one that is to be closed for it, if any.
func (c *connections) replace(conn net.Conn) (replaced net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.mu.open) >= c.limit && c.mu.idle.Len() == 0 && !c.mu.stopping {
		c.freed.Wait()
	}
	if len(c.mu.open) >= c.limit && c.mu.idle.Len() > 0 {
		replaced = c.mu.idle.Remove(c.mu.idle.Front()).(net.Conn)
		delete(c.mu.open, replaced)
	}
	c.mu.open[conn] = nil
	return replaced
}

// stop lets a connection go on that waits.
func (c *connections) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.stopping = true
	c.freed.Signal()
}

// number returns how many connections are open.
func (c *connections) number() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.open)
}

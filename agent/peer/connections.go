package peer

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// maxAgents is the number of agents in the largest zone that the default bound of connections suffices for.
const maxAgents = 200

// connections bounds the connections of a server, by its ConnState hook. At the bound a new connection replaces the one that
// has been idle for longest. An agent that sends a request on a replaced connection repeats the request on another one.
type connections struct {
	limit int
	freed sync.Cond // signalled when a connection closes, becomes idle or becomes a stream

	mu struct {
		sync.Mutex
		open map[net.Conn]*list.Element // the connection's place in idle, nil if it is not idle
		idle list.List                  // of net.Conn, the longest idle first
		// stopping lifts the bound, so that the connection accepted last does not hold up http.Server.Shutdown.
		stopping bool
	}
}

func newConnections(limit int) *connections {
	c := &connections{limit: limit}
	c.freed.L = &c.mu
	c.mu.open = make(map[net.Conn]*list.Element)
	return c
}

// changed is the server's ConnState hook. http.Server calls it for a new connection before it accepts the next. While changed
// waits, further connections wait in the kernel's backlog. Streams are not counted: package zonewriter bounds them.
func (c *connections) changed(conn net.Conn, to http.ConnState) {
	if to == http.StateNew {
		c.admit(conn)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, open := c.mu.open[conn]
	if !open {
		return // conn was replaced
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

// admit waits for room for a new connection, and closes the connection that it replaces.
func (c *connections) admit(conn net.Conn) {
	replaced := c.replace(conn)
	if replaced != nil {
		_ = replaced.Close()
	}
}

// replace waits for room and counts a new connection. It returns the idle connection to close instead, or nil.
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

// stop lifts the bound and wakes a waiting connection.
func (c *connections) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.stopping = true
	c.freed.Signal()
}

// number returns the number of open connections.
func (c *connections) number() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.open)
}

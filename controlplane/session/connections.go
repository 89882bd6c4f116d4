package session

import (
	"cmp"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
	"github.com/freshet-io/freshet/controlplane/keys"
)

// Connections bounds the gRPC connections of each virtual cluster on this replica: those on which a call had one of its keys (I10). The
// connections are of a server with ServerOptions. Connections of operators and replicas do not count. It is safe for concurrent use.
type Connections struct {
	most    func(virtualCluster string) int
	log     *zap.Logger
	warning rate.Sometimes
	refused prometheus.Counter
	mu      struct {
		sync.Mutex
		open map[string]int // by virtual cluster
	}
}

// NewConnections returns Connections without any. most returns the bound of a virtual cluster.
func NewConnections(most func(virtualCluster string) int, log *zap.Logger, registerer prometheus.Registerer) *Connections {
	registerer = cmp.Or[prometheus.Registerer](registerer, prometheus.NewRegistry())
	c := &Connections{most: most, log: log, warning: rate.Sometimes{Interval: time.Minute}}
	c.refused = promreg.Register(registerer, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "freshet_grpc_connections_over_limit_total", Help: "Connections closed because the agents of their virtual cluster have too many.",
	}))
	c.mu.open = map[string]int{}
	return c
}

// Enter counts the connection of a call whose key is known. Beyond the bound the call is refused after refusalPause, and the connection closed
// once its client has had time to read the status. Error: ResourceExhausted.
func (c *Connections) Enter(ctx context.Context) error {
	grant, conn := keys.FromContext(ctx), connectionOf(ctx)
	if grant == nil || grant.VirtualCluster == "" || conn == nil {
		return nil
	}
	most := c.most(grant.VirtualCluster)
	counted, first := c.count(conn, grant.VirtualCluster, most)
	if counted {
		return nil
	}
	err := status.Errorf(codes.ResourceExhausted, "the agents of the virtual cluster have %d connections, the limit of this replica", most)
	if !first { // one call of a connection waits, so the bound of connections without a known key bounds the calls that wait
		return err
	}
	c.refused.Inc()
	c.warning.Do(func() {
		c.log.Warn("connection closed, its caller retries: stop other agents first; such refusals are logged once a minute",
			zap.String("virtual_cluster", grant.VirtualCluster), zap.Error(err))
	})
	pause(ctx)
	time.AfterFunc(lastWords, func() { _ = conn.Close() })
	return err
}

// count reports whether a connection counts, and if not, whether this is the first refusal of it.
func (c *Connections) count(conn *connection, virtualCluster string, most int) (counted, first bool) {
	c.mu.Lock()
	switch {
	case conn.counts != "":
		counted = true
	case !conn.refused && c.mu.open[virtualCluster] < most:
		counted, conn.counts = true, virtualCluster
		c.mu.open[virtualCluster]++
		conn.of.Store(c)
	default:
		first, conn.refused = !conn.refused, true
	}
	c.mu.Unlock()
	if conn.closed.Load() { // Close may have come before of was set
		c.leave(conn)
	}
	return counted, first
}

// leave ends the count of a closed connection. Further calls have no effect.
func (c *Connections) leave(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.counts == "" {
		return
	}
	if c.mu.open[conn.counts]--; c.mu.open[conn.counts] == 0 {
		delete(c.mu.open, conn.counts)
	}
	conn.counts = ""
}

// connection is the connection of a gRPC server, after its TLS handshake.
type connection struct {
	net.Conn
	of     atomic.Pointer[Connections] // nil while it does not count
	closed atomic.Bool

	// Guarded by Connections.mu.
	counts  string // the virtual cluster for which it counts, "" for none
	refused bool
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.closed.Store(true)
	if of := c.of.Load(); of != nil {
		of.leave(c)
	}
	return c.Conn.Close()
}

// connectionInfo leads from a call to its connection: gRPC hands it to each call as part of the peer.
type connectionInfo struct {
	credentials.AuthInfo
	conn *connection
}

// connectionOf returns the connection of a call, or nil.
func connectionOf(ctx context.Context) *connection {
	if p, ok := peer.FromContext(ctx); ok {
		info, _ := p.AuthInfo.(connectionInfo)
		return info.conn
	}
	return nil
}

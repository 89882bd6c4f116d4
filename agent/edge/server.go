package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/internal/connlimit"
)

// sweepInterval is how often connections are looked at for time-outs; it bounds how late these take effect.
const sweepInterval = time.Second

// Server accepts Kafka connections and hands their requests to the Handler.
type Server struct {
	cfg     Config
	m       *metrics
	produce *budget
	others  *budget
	limit   *connlimit.Limit
	unsent  atomic.Int64
	nextID  atomic.Uint64
	warns   *rate.Limiter
	muted   atomic.Int64 // warnings not logged since the last one
	reclaim atomic.Int64 // UnixNano of the last Reclaim that looked
	abroad  abroad

	draining chan struct{} // closed when Run's context has ended
	over     chan struct{} // closed when the drain's time is over

	mu struct {
		sync.Mutex
		sockets []net.Listener // one per Config.Listeners, once listening
		conns   map[*conn]struct{}
		closing bool
		hungUp  []string // names of drained listeners
	}
	wg sync.WaitGroup // accept loops and connections
}

// New builds a Server. It does not listen yet.
func New(cfg Config) (*Server, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("kafka listener: %w", err)
	}
	limit := connlimit.New(connlimit.Config{
		Server: "kafka", Max: cfg.MaxConnections, MaxPerAddress: cfg.MaxConnectionsPerIP,
		Setting: "--max-connections", SettingPerAddress: "--max-connections-per-ip",
		Log: cfg.Log, Prefix: "freshet_kafka_", Registerer: cfg.Registerer,
	})
	cfg.Listeners = slices.Clone(cfg.Listeners)
	for i := range cfg.Listeners {
		if l := &cfg.Listeners[i]; l.TLS != nil {
			// One for all connections: it has the keys of the tickets that clients resume their sessions by.
			l.TLS = limit.TLS(l.TLS)
			l.TLS.DynamicRecordSizingDisabled = true // answers are large, and already gathered to whole records
		}
	}
	s := &Server{cfg: cfg, limit: limit, warns: rate.NewLimiter(1, 5), draining: make(chan struct{}), over: make(chan struct{})}
	s.m = newMetrics(cfg.Registerer, s)
	s.produce = newBudget(cfg.ProduceMemory, s.m.budget("produce"))
	s.others = newBudget(cfg.OtherMemory, s.m.budget("other"))
	s.others.small = readBuffer // heartbeats and small fetches get memory even if large requests hold the rest
	s.mu.conns = make(map[*conn]struct{})
	return s, nil
}

// Listen opens the listeners, so that Addrs is known before Run. Run does it if it was not called.
func (s *Server) Listen(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.sockets != nil {
		return nil
	}
	var sockets []net.Listener
	for _, l := range s.cfg.Listeners {
		socket := l.Socket
		if socket == nil {
			var err error
			if socket, err = new(net.ListenConfig).Listen(ctx, "tcp", l.Address); err != nil {
				for _, opened := range sockets {
					_ = opened.Close()
				}
				return fmt.Errorf("listen for kafka clients on %s: %w", l.Address, err)
			}
		}
		sockets = append(sockets, socket)
	}
	s.mu.sockets = sockets
	return nil
}

// Addrs returns the listeners' addresses in the order of Config.Listeners; nil before Listen.
func (s *Server) Addrs() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	var addrs []net.Addr
	for _, l := range s.mu.sockets {
		addrs = append(addrs, l.Addr())
	}
	return addrs
}

// UnsentBytes returns how many response bytes wait for their clients to take them.
func (s *Server) UnsentBytes() int64 { return s.unsent.Load() }

// Run serves until ctx ends. Then it accepts no more, lets the requests that were read be answered for at most
// DrainTimeout, and closes every connection. It returns an error only if it cannot listen.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	for i, socket := range s.mu.sockets { // not changed any more
		s.wg.Go(func() { s.accept(base, socket, s.cfg.Listeners[i]) })
	}
	sweeper := time.NewTicker(sweepInterval)
	defer sweeper.Stop()
	for {
		select {
		case now := <-sweeper.C:
			s.sweep(now)
		case <-ctx.Done():
			s.drain()
			return nil
		}
	}
}

// accept takes connections of one listener until it is closed.
func (s *Server) accept(ctx context.Context, socket net.Listener, l Listener) {
	var backoff time.Duration
	for {
		raw, err := socket.Accept()
		if err == nil {
			backoff = 0
			s.admit(ctx, raw, l)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		backoff = min(max(2*backoff, 5*time.Millisecond), time.Second) // out of file descriptors, say
		s.cfg.Log.Warn("cannot accept kafka connections", zap.String("listener", l.Name), zap.Error(err))
		select {
		case <-time.After(backoff):
		case <-s.draining:
			return
		}
	}
}

// admit starts a connection, unless a bound of connections refuses it.
func (s *Server) admit(ctx context.Context, raw net.Conn, l Listener) {
	c := s.newConn(ctx, raw, l)
	c.place = s.limit.Admit(raw.RemoteAddr(), func(reason connlimit.Reason) {
		if reason == connlimit.Silent {
			c.abort(closeNoRequest)
		} else {
			c.abort(closeEvicted)
		}
	})
	if c.place == nil {
		c.abort(closeError)
		return
	}
	s.mu.Lock()
	ended := s.mu.closing || slices.Contains(s.mu.hungUp, l.Name) // accepted while its listener was being closed
	if !ended {
		s.mu.conns[c] = struct{}{}
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if ended {
		c.place.Leave()
		c.abort(closeError)
		return
	}
	s.m.accepted.Inc()
	go func() {
		defer s.wg.Done()
		c.serve()
		c.place.Leave()
		s.mu.Lock()
		delete(s.mu.conns, c)
		s.mu.Unlock()
		s.m.closed[*c.reason.Load()].Inc()
	}()
}

// connectionBytes bounds the frame bytes that the unanswered requests of one connection hold. At least one request is
// always taken.
const connectionBytes = 64 << 20

func (s *Server) newConn(ctx context.Context, raw net.Conn, l Listener) *conn {
	c := &conn{
		server: s, raw: raw, nc: raw,
		client: &Client{
			ID: s.nextID.Add(1), Host: host(raw.RemoteAddr()), Port: port(raw.RemoteAddr()), Principal: "User:ANONYMOUS",
			Listener: l.Name, PortIndex: l.PortIndex,
		},
		queue:    newQueue(s.cfg.MaxPipelined, connectionBytes),
		stopping: make(chan struct{}),
	}
	c.client.conn = c
	if l.TLS != nil {
		c.nc = tls.Server(connlimit.InTurn(raw), l.TLS)
	}
	c.out = &output{to: c.nc, tls: l.TLS != nil}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.accepted = time.Now()
	c.lastRead.Store(c.accepted.UnixNano())
	c.lastWrite.Store(c.accepted.UnixNano())
	return c
}

// port is the address's port, "" if it has none.
func port(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	_, p, _ := net.SplitHostPort(addr.String())
	return p
}

func host(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	h, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return h
}

// sweep closes connections whose time is up. Deadlines on sockets would cost every request a timer.
func (s *Server) sweep(now time.Time) {
	s.abroad.forget(now)
	for _, c := range s.connections() {
		if reason := c.expired(now); reason != "" {
			c.abort(reason)
		} else if s.abroad.shouldClose(c, now) {
			c.setReason(closeAbroad)
			c.stop()
		}
	}
}

// expired returns which of the connection's time-outs has passed, or "".
func (c *conn) expired(now time.Time) closeReason {
	since := func(nanos int64) time.Duration { return now.Sub(time.Unix(0, nanos)) }
	read, writing := c.lastRead.Load(), c.writing.Load()
	switch {
	case writing != 0 && since(writing) > c.server.cfg.WriteTimeout:
		return closeSlowReader
	case c.arriving.Load() && since(read) > frameTimeout:
		return closeStalled
	case c.quiet(now, c.server.cfg.IdleTimeout):
		return closeIdle
	}
	return ""
}

// quiet reports whether a connection has had nothing to do for longer than d.
func (c *conn) quiet(now time.Time, d time.Duration) bool {
	last := time.Unix(0, max(c.lastRead.Load(), c.lastWrite.Load()))
	return now.Sub(last) > d && c.queue.idle() && c.writing.Load() == 0
}

// Reclaim closes the connections of clients that do not take their answers, because others wait for the memory that
// those hold: clients that took less than writeChunk in stallTimeout, or a large answer without records too slowly. It may be called often.
func (s *Server) Reclaim() {
	now := time.Now()
	last := s.reclaim.Load()
	if now.UnixNano()-last < int64(evictInterval) || !s.reclaim.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	for _, c := range s.connections() {
		writing, due := c.writing.Load(), c.due.Load()
		if writing != 0 && now.Sub(time.Unix(0, writing)) >= stallTimeout || due != 0 && now.UnixNano() > due {
			s.warn("connection closed: it does not take its answers, and others wait for the memory; raise --memory-limit if this happens without an attack", c)
			c.abort(closeSlowReader)
		}
	}
}

// HangUp closes listeners by name before the server drains. Each of their connections closes once the requests read from it are
// answered. It does not wait for them.
func (s *Server) HangUp(listeners ...string) {
	s.mu.Lock()
	s.mu.hungUp = append(s.mu.hungUp, listeners...)
	for i, socket := range s.mu.sockets {
		if slices.Contains(listeners, s.cfg.Listeners[i].Name) {
			_ = socket.Close()
		}
	}
	s.mu.Unlock()
	for _, c := range s.connections() {
		if slices.Contains(listeners, c.client.Listener) {
			c.stop()
		}
	}
}

func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.mu.conns))
}

// drain ends the server: it reads no further requests, and answers the requests that it has read within DrainTimeout.
func (s *Server) drain() {
	s.mu.Lock()
	s.mu.closing = true
	sockets := s.mu.sockets
	s.mu.Unlock()
	close(s.draining)
	for _, socket := range sockets {
		_ = socket.Close()
	}
	for _, c := range s.connections() {
		c.stop()
	}
	limit := time.AfterFunc(s.cfg.DrainTimeout, func() {
		close(s.over)
		for _, c := range s.connections() {
			c.abort(closeDrain)
		}
	})
	defer limit.Stop()
	s.wg.Wait()
}

// warn logs what clients do wrong, at a bounded rate.
func (s *Server) warn(message string, c *conn, fields ...zap.Field) {
	if !s.warns.Allow() {
		s.muted.Add(1)
		return
	}
	s.cfg.Log.Warn(message, append(fields, zap.String("client_host", c.client.Host),
		zap.String("listener", c.client.Listener), zap.Int64("warnings_not_logged", s.muted.Swap(0)))...)
}

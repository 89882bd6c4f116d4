package connlimit

import (
	"cmp"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// DefaultFirstRequest is the default of Config.FirstRequest. Kafka clients give up a connection after the same time if it is not set up (KIP-601,
// socket.connection.setup.timeout.max.ms).
const DefaultFirstRequest = 30 * time.Second

// Config is the configuration of a Limit.
type Config struct {
	// Server names the server in logs.
	Server string
	// Max bounds the open connections.
	Max int
	// MaxPerAddress bounds the open connections of one address; 0 means no limit.
	MaxPerAddress int
	// FirstRequest is the time that a connection has for its first request (Arriving or Begin), TLS handshake included. Default 30 s.
	FirstRequest time.Duration
	// Setting and SettingPerAddress are the names of the settings of Max and MaxPerAddress, for logs; "" means a fixed bound.
	Setting, SettingPerAddress string
	Log                        *zap.Logger
	// Prefix is the prefix of the names of the metrics.
	Prefix     string
	Registerer prometheus.Registerer // nil means a private registry
}

// Reason is the cause of a close or a refusal, and a label of metrics.
type Reason string

// Reasons of closes, and of refusals.
const (
	Silent Reason = "no_request" // no request in Config.FirstRequest
	Fresh  Reason = "fresh"      // at the bound: no whole valid request yet
	Idle   Reason = "idle"       // at the bound: no request in progress

	Busy Reason = "busy" // at the bound: a request in progress, and its address has more than Max/2 of these

	Total   Reason = "total"   // at the bound: no other connection makes room
	Address Reason = "address" // at the bound for each address
)

// Limit bounds the open connections of a server. It is safe for concurrent use.
type Limit struct {
	cfg     Config
	metrics metrics
	report  report
	slots   chan struct{} // of TLS handshakes

	mu struct {
		sync.Mutex
		open      int
		order     uint64
		addresses map[netip.Addr]*address
		fresh     crowd
		idle      crowd
		busy      crowd
	}
}

// address is an address with open connections.
type address struct {
	key               netip.Addr
	open              int
	fresh, idle, busy line
}

// state is the state of a Place.
type state uint8

const (
	fresh state = iota
	idle
	busy
	gone // closed, evicted or released
)

// Place is the place of one open connection in its Limit.
type Place struct {
	limit  *Limit
	evict  func(Reason)
	timer  *time.Timer  // ends the time for the first request
	active atomic.Int32 // requests in progress

	// Guarded by the limit's mutex.
	from           *address
	previous, next *Place // in a line of from
	order          uint64 // rises with each move to the back of a line
	state          state
}

// New returns a Limit without connections.
func New(cfg Config) *Limit {
	cfg.FirstRequest = cmp.Or(cfg.FirstRequest, DefaultFirstRequest)
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	cfg.Registerer = cmp.Or[prometheus.Registerer](cfg.Registerer, prometheus.NewRegistry())
	l := &Limit{cfg: cfg, metrics: newMetrics(cfg.Prefix, cfg.Registerer), slots: newSlots()}
	l.mu.addresses = make(map[netip.Addr]*address)
	return l
}

// Admit returns a place for a new connection, or nil if the connection is refused. At the bound, another connection loses its
// place. If the new connection loses its place later, evict is called to close it. evict is called at most once, and must not block.
func (l *Limit) Admit(remote net.Addr, evict func(Reason)) *Place {
	p := &Place{limit: l, evict: evict}
	key := keyOf(remote)
	replaced, refused := l.enter(p, key)
	switch {
	case refused != "":
		l.metrics.refused.WithLabelValues(string(refused)).Inc()
		l.warn(refused, key)
		return nil
	case replaced.place != nil:
		l.metrics.evicted.WithLabelValues(string(replaced.reason)).Inc()
		l.warn(replaced.reason, replaced.key)
		replaced.place.evict(replaced.reason)
	}
	return p
}

// loss is a place lost to another connection.
type loss struct {
	place  *Place
	key    netip.Addr
	reason Reason
}

// enter gives p a place among the connections of an address. It returns the place that is lost for it, if any, or the reason of a refusal.
func (l *Limit) enter(p *Place, key netip.Addr) (lost loss, refused Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.mu.addresses[key]
	if from != nil && l.cfg.MaxPerAddress > 0 && from.open >= l.cfg.MaxPerAddress {
		return loss{}, Address
	}
	if l.mu.open >= l.cfg.Max {
		if lost = l.victim(from); lost.place == nil {
			return loss{}, Total
		}
		lost.key = lost.place.from.key
		l.leave(lost.place)
		from = l.mu.addresses[key] // may be gone with its last connection
	}
	if from == nil {
		from = &address{key: key}
		l.mu.addresses[key] = from
	}
	p.from = from
	from.open++
	l.mu.open++
	l.move(p, fresh)
	p.timer = time.AfterFunc(l.cfg.FirstRequest, p.expire)
	return lost, ""
}

// victim returns the connection that makes room for a new one of the address of, or no place. of is nil if the address has no connection yet. An address never
// loses a fresh or idle connection to an address with more connections. Called with the mutex held.
func (l *Limit) victim(of *address) loss {
	var own address // without connections
	if of == nil {
		of = &own
	}
	for _, from := range []struct {
		reason Reason
		crowd  *crowd
		own    *line
	}{{Fresh, &l.mu.fresh, &of.fresh}, {Idle, &l.mu.idle, &of.idle}} {
		if p := from.crowd.first(); p != nil && p.from.open >= of.open {
			return loss{place: p, reason: from.reason}
		}
		if p := from.own.front; p != nil {
			return loss{place: p, reason: from.reason}
		}
	}
	if p := l.mu.busy.first(); p != nil && p.from != of && 2*p.from.busy.length > l.cfg.Max {
		return loss{place: p, reason: Busy}
	}
	return loss{}
}

// move moves a place to the back of the line of another state. Called with the mutex held.
func (l *Limit) move(p *Place, to state) {
	switch p.state {
	case fresh:
		if p.order != 0 { // 0: in no line yet
			l.mu.fresh.remove(&p.from.fresh, p)
		}
	case idle:
		l.mu.idle.remove(&p.from.idle, p)
	case busy:
		l.mu.busy.remove(&p.from.busy, p)
	case gone:
	}
	l.mu.order++
	p.order, p.state = l.mu.order, to
	switch to {
	case fresh:
		l.mu.fresh.pushBack(&p.from.fresh, p)
	case idle:
		l.mu.idle.pushBack(&p.from.idle, p)
	case busy:
		l.mu.busy.pushBack(&p.from.busy, p)
	case gone:
	}
}

// leave removes a place from the limit. Called with the mutex held.
func (l *Limit) leave(p *Place) {
	if p.state == gone {
		return
	}
	l.move(p, gone)
	l.mu.open--
	if p.from.open--; p.from.open == 0 {
		delete(l.mu.addresses, p.from.key)
	}
	p.timer.Stop()
}

// expire closes a connection whose time for the first request has passed.
func (p *Place) expire() {
	l := p.limit
	l.mu.Lock()
	expired := p.state == fresh
	if expired {
		l.leave(p)
	}
	l.mu.Unlock()
	if expired {
		l.metrics.evicted.WithLabelValues(string(Silent)).Inc()
		p.evict(Silent)
	}
}

// Arriving stops the timer for the first request when its first bytes have arrived. The connection stays fresh.
func (p *Place) Arriving() { p.timer.Stop() }

// Begin reports whether a whole valid request may start. It returns false if the connection has lost its place. If it returns true, the caller calls End when
// the request has ended.
func (p *Place) Begin() bool {
	if p.active.Add(1) > 1 {
		return true // busy already
	}
	l := p.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.state == gone {
		return false
	}
	if p.state == fresh {
		p.timer.Stop()
	}
	l.move(p, busy)
	return true
}

// End records the end of a request that Begin admitted.
func (p *Place) End() {
	if p.active.Add(-1) > 0 {
		return
	}
	l := p.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.state == busy && p.active.Load() == 0 {
		l.move(p, idle)
	}
}

// Leave ends the place of a connection that has closed or is not bounded any more. Further calls have no effect.
func (p *Place) Leave() {
	p.limit.mu.Lock()
	defer p.limit.mu.Unlock()
	p.limit.leave(p)
}

// Open returns the number of places.
func (l *Limit) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.open
}

// Idle returns the number of places without a request in progress, after their first request.
func (l *Limit) Idle() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, idle := range l.mu.idle.lines {
		n += idle.length
	}
	return n
}

// keyOf returns the address that a connection counts for: an IPv4 address, or the first 64 bits of an IPv6 address. Connections
// without an IP address, which only tests have, all count for the zero Addr.
func keyOf(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if !ip.Is6() {
		return ip
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return ip
	}
	return network.Addr()
}

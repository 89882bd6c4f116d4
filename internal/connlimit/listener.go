package connlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
)

// Listener returns a listener of a server that closes connections by itself, such as http.Server and grpc.Server: its
// connections have places in the limit.
func (l *Limit) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

type listener struct {
	net.Listener
	limit *Limit
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if place := l.limit.Admit(raw.RemoteAddr(), func(Reason) { _ = raw.Close() }); place != nil {
			return &Conn{Conn: raw, place: place}, nil
		}
		_ = raw.Close()
	}
}

// Conn is a connection whose TLS handshake takes a slot of its limit.
type Conn struct {
	net.Conn
	place *Place                // nil if the server handles places by itself
	slot  atomic.Pointer[Limit] // whose slot the connection holds
}

// remoteAddr is the address of a connection with a place.
type remoteAddr struct {
	net.Addr
	place *Place
}

// RemoteAddr implements net.Conn. TLS connections have the same.
func (c *Conn) RemoteAddr() net.Addr {
	if c.place == nil {
		return c.Conn.RemoteAddr()
	}
	return remoteAddr{c.Conn.RemoteAddr(), c.place}
}

// PlaceOf returns the place of a connection of Listener by its remote address, nil if there is none.
func PlaceOf(remote net.Addr) *Place {
	a, _ := remote.(remoteAddr)
	return a.place
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.free()
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.free()
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.free()
	if c.place != nil {
		c.place.Leave()
	}
	return c.Conn.Close()
}

// CloseWrite closes the sending side, which http.Server does before it closes a connection with unread bytes.
func (c *Conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// newSlots returns a slot for each TLS handshake that may compute at the same time: one for each core.
func newSlots() chan struct{} { return make(chan struct{}, runtime.GOMAXPROCS(0)) }

// TLS returns a copy of the configuration for connections of type Conn. A handshake takes a slot once the client's hello has
// arrived, and frees it when it writes its answer. So silent clients hold no slot, and handshakes take turns in the key exchange
// and the signature. After a second hello (HelloRetryRequest), a handshake takes a slot again for its signature.
func (l *Limit) TLS(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	cfg = cfg.Clone()
	configFor, certificate := cfg.GetConfigForClient, cfg.GetCertificate
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := l.take(hello); err != nil || configFor == nil {
			return nil, err
		}
		return configFor(hello)
	}
	cfg.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if err := l.take(hello); err != nil || certificate == nil {
			return nil, err
		}
		return certificate(hello)
	}
	return cfg
}

// take waits for a slot, until the handshake's context ends. A connection has one slot at most.
func (l *Limit) take(hello *tls.ClientHelloInfo) error {
	c, ok := hello.Conn.(*Conn)
	if !ok || c.slot.Load() != nil {
		return nil
	}
	ctx := hello.Context()
	select {
	case l.slots <- struct{}{}:
		c.slot.Store(l)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// free frees the slot, if the connection has one.
func (c *Conn) free() {
	if c.slot.Load() == nil {
		return
	}
	if l := c.slot.Swap(nil); l != nil {
		<-l.slots
	}
}

// InTurn returns a connection whose TLS handshake takes its turn, for servers that call Admit themselves.
func InTurn(raw net.Conn) *Conn { return &Conn{Conn: raw} }

type placeKey struct{}

// Guard makes a server count the requests of its connections, which come from Listener. A connection stays fresh until valid
// returns true for a request whose headers have arrived. Its request ends with the handler, so that a client that has its
// response finds the connection idle. A hijacked connection is not bounded any more. The server serves HTTP/1 alone.
func Guard(s *http.Server, valid func(*http.Request) bool) {
	handler := s.Handler
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, placeKey{}, PlaceOf(c.RemoteAddr()))
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if place, _ := r.Context().Value(placeKey{}).(*Place); place != nil && valid(r) {
			if !place.Begin() {
				panic(http.ErrAbortHandler) // the connection is closed
			}
			defer place.End()
		}
		handler.ServeHTTP(w, r)
	})
	s.ConnState = func(c net.Conn, to http.ConnState) {
		if place := PlaceOf(c.RemoteAddr()); place != nil && to == http.StateHijacked {
			place.Leave()
		}
	}
}

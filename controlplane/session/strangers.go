package session

import (
	"context"
	"net"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/grpcerr"
)

// strangers are callers that are kept out. They are logged at a bounded rate, without what they sent.
type strangers struct {
	log        *zap.Logger
	refusals   *rate.Limiter
	handshakes *rate.Limiter
	unsaid     atomic.Int64 // warnings not logged since the last one
}

func newStrangers(log *zap.Logger) *strangers {
	return &strangers{log: log, refusals: rate.NewLimiter(0.2, 5), handshakes: rate.NewLimiter(0.2, 5)}
}

func (s *strangers) warn(bound *rate.Limiter, message string, from net.Addr, err error) {
	if !bound.Allow() {
		s.unsaid.Add(1)
		return
	}
	host := ""
	if from != nil {
		host = from.String()
	}
	s.log.Warn(message, zap.String("from", host), zap.Int64("warnings_not_logged", s.unsaid.Swap(0)), zap.Error(grpcerr.Plain(err)))
}

// tap refuses calls without a known agent key before any of their message is read, so that strangers cost no memory. The call's
// context holds what the key opens (opens).
func (s *strangers) tap(set *keys.Set) tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		ctx, err := authenticate(ctx, set, info.Header)
		if err != nil {
			var from net.Addr
			if p, ok := peer.FromContext(ctx); ok {
				from = p.Addr
			}
			s.warn(s.refusals, "agent refused", from, err)
		}
		return ctx, err
	}
}

// handshakes logs failed TLS handshakes, because the caller often sees only a closed connection. It leads calls to their connections.
type handshakes struct {
	credentials.TransportCredentials
	strangers *strangers
}

// ServerHandshake implements credentials.TransportCredentials.
func (h handshakes) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := h.TransportCredentials.ServerHandshake(c)
	if err != nil {
		h.strangers.warn(h.strangers.handshakes, "tls handshake with a caller failed", c.RemoteAddr(), err)
		return secured, info, err
	}
	conn := &connection{Conn: secured}
	return conn, connectionInfo{info, conn}, nil
}

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.strangers}
}

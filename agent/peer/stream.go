package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/id"
)

// Upgrade serves one stream that the agent from opened: it reads from in and writes to conn, which it closes.
type Upgrade func(conn net.Conn, in *bufio.Reader, from id.Session)

// ErrNoStream: the other agent is not there, or does not take the stream.
var ErrNoStream = errors.New("no stream to another agent")

// Stream opens a stream of a protocol to another agent of the zone. The connection is the caller's; what was received
// with the answer is in the reader. Error: ErrNoStream.
func (z *Zone) Stream(ctx context.Context, to id.Session, protocol string) (conn net.Conn, in *bufio.Reader, err error) {
	p, ok := z.current().peers[to]
	if !ok {
		return nil, nil, fmt.Errorf("%w: session %d is no agent of the zone", ErrNoStream, to)
	}
	err = fmt.Errorf("%w: %w", ErrNoStream, errNoSecret)
	for _, secret := range z.cfg.Secret.valid() { // as send
		if conn, in, err = z.stream(ctx, p, protocol, secret); !errors.Is(err, errUnauthorized) {
			return conn, in, err
		}
	}
	return nil, nil, err
}

// errUnauthorized is returned when the other agent refuses the secret.
var errUnauthorized = errors.New("that agent knows another secret of the virtual cluster")

func (z *Zone) stream(ctx context.Context, p peer, protocol, secret string) (net.Conn, *bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, z.cfg.DialTimeout+2*z.cfg.SilenceTimeout)
	defer cancel()
	conn, err := z.connect(ctx, p.address)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: connect to %s: %w", ErrNoStream, p.address, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	in, err := z.openStream(ctx, conn, p.address, protocol, secret)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrNoStream, p.address, err)
	}
	return conn, in, nil
}

func (z *Zone) connect(ctx context.Context, address string) (net.Conn, error) {
	conn, err := z.cfg.Dial(ctx, "tcp", address)
	if err != nil || z.cfg.TLS == nil {
		return conn, err
	}
	cfg := z.cfg.TLS.Clone()
	cfg.NextProtos = []string{"http/1.1"} // the other one has no upgrades
	if cfg.ServerName == "" {
		if cfg.ServerName, _, err = net.SplitHostPort(address); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("address of an agent: %w", err)
		}
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) {
			return nil, fmt.Errorf("that agent's peer port does not speak TLS: give all agents of the zone --peer-tls-cert, or none: %w", err)
		}
		return nil, err
	}
	return secure, nil
}

// openStream asks for the stream and reads the answer.
func (z *Zone) openStream(ctx context.Context, conn net.Conn, address, protocol, secret string) (*bufio.Reader, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+streamPath, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	z.introduce(r, secret)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	if err := r.Write(conn); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	bound := &io.LimitedReader{R: conn, N: maxHeaderBytes} // as the server's; nothing else bounds an answer's headers
	in := bufio.NewReaderSize(bound, readBuffer)
	response, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	_ = response.Body.Close()                                                     // it has none
	if response.StatusCode == http.StatusBadRequest && response.ProtoMinor == 0 { // net/http's answer to a plain request if it expects TLS
		return nil, errors.New("that agent's peer port speaks TLS: give all agents of the zone --peer-tls-cert, or none")
	}
	if response.StatusCode == http.StatusUnauthorized {
		return nil, errUnauthorized
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("refused: %s %s", response.Status, response.Header.Get(reasonHeader))
	}
	bound.N = math.MaxInt64
	return in, nil
}

// upgrade makes a request's connection a stream.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	if status, reason := s.refuse(r); status != 0 {
		s.refused(w, status, reason)
		return
	}
	protocol := r.Header.Get("Upgrade")
	serve := s.cfg.Upgrades[protocol]
	from, err := strconv.ParseUint(r.Header.Get(agentHeader), 10, 32)
	if serve == nil || err != nil || !strings.EqualFold(r.Header.Get("Connection"), "upgrade") {
		s.refused(w, http.StatusBadRequest, servedMalformed)
		return
	}
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.cfg.Log.Warn("connection of another agent cannot become a stream", zap.Error(err))
		s.refused(w, http.StatusInternalServerError, servedBroken)
		return
	}
	s.metrics.requests.WithLabelValues(servedOK).Inc()
	_ = conn.SetDeadline(time.Time{}) // the stream has its own
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
	if err != nil {
		_ = conn.Close() // the other agent is gone
		return
	}
	serve(conn, both.Reader, id.Session(from))
}

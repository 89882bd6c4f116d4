// Package spoken finds out whether an address speaks TLS, so that a client with the wrong setting is told so, rather than that
// a connection broke.
package spoken

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// limit bounds one look.
const limit = 3 * time.Second

// Dial connects to an address, as net.Dialer.DialContext does with "tcp".
type Dial func(ctx context.Context, address string) (net.Conn, error)

// Kind is what an address speaks.
type Kind int

// Kinds.
const (
	Unknown Kind = iota // nothing answers, or nothing that tells
	TLS
	Plain
)

// At returns the protocol of a port. It sends one ClientHello. etcd's port without TLS closes the connection then, without an
// answer. So At connects again in that case, and sends the preface of HTTP/2. At sends nothing else and trusts no answer. A nil
// dial means the network.
func At(ctx context.Context, address string, dial Dial) Kind {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dial = orNetwork(dial)
	raw, err := dial(ctx, address)
	if err != nil {
		return Unknown
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // no data is sent or trusted
	kind := kindOf(conn.HandshakeContext(ctx))
	if kind == Unknown && ctx.Err() == nil && answersHTTP2(ctx, address, dial) {
		return Plain
	}
	return kind
}

func orNetwork(dial Dial) Dial {
	if dial != nil {
		return dial
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
}

// HTTP2 reports whether a port speaks HTTP/2 without TLS, as gRPC does. A nil dial means the network.
func HTTP2(ctx context.Context, address string, dial Dial) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return answersHTTP2(ctx, address, orNetwork(dial))
}

const (
	settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"        // an empty SETTINGS frame (RFC 9113, 6.5)
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings // RFC 9113, 3.4
	typeAt   = 3                                             // position of the type in a frame's header
)

// answersHTTP2 reports whether the port answers the preface of HTTP/2 with SETTINGS.
func answersHTTP2(ctx context.Context, address string, dial Dial) bool {
	conn, err := dial(ctx, address)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, preface); err != nil {
		return false
	}
	header := make([]byte, len(settings))
	_, err = io.ReadFull(conn, header)
	return err == nil && string(header[typeAt:]) == settings[typeAt:]
}

func kindOf(err error) Kind {
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case err == nil, errors.As(err, &alert):
		return TLS
	case errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "tls:"): // an alert of the server
		return TLS
	case errors.As(err, &record):
		return Plain
	}
	return Unknown
}

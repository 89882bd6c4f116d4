// Package spoken finds out whether an address speaks TLS, so that a client with the wrong setting is told so, rather than that
// a connection broke.
package spoken

import (
	"context"
	"crypto/tls"
	"errors"
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

// At returns what the address speaks. It sends one ClientHello, and neither says nor believes anything else. dial nil means the
// network.
func At(ctx context.Context, address string, dial Dial) Kind {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	raw, err := dial(ctx, address)
	if err != nil {
		return Unknown
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // nothing is said or believed
	return kindOf(conn.HandshakeContext(ctx))
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

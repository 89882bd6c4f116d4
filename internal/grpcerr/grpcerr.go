// Package grpcerr gives errors of gRPC calls text that tells what happened, for logs that people read.
package grpcerr

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Plain gives an error with the same cause, without gRPC's words around what happened. nil stays nil.
func Plain(err error) error {
	if err == nil {
		return nil
	}
	return plain{err}
}

type plain struct{ error }

func (p plain) Unwrap() error { return p.error }

func (p plain) Error() string {
	s, ok := status.FromError(p.error)
	if !ok {
		return p.error.Error()
	}
	// As in `connection error: desc = "transport: Error while dialing: dial tcp ...: connect: connection refused"`.
	if _, reason, found := strings.Cut(s.Message(), `connection error: desc = "`); found {
		return strings.TrimPrefix(strings.TrimSuffix(reason, `"`), "transport: ")
	}
	if s.Code() == codes.DeadlineExceeded {
		return "no answer in time"
	}
	return s.Message()
}

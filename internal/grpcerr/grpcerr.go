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
	message, isReason := s.Message(), false
	if _, reason, found := strings.Cut(message, "latest balancer error: "); found {
		message, isReason = reason, true
	}
	// As in `connection error: desc = "transport: Error while dialing: dial tcp ...: connect: connection refused"`.
	if _, reason, found := strings.Cut(message, `connection error: desc = "`); found {
		message, isReason = strings.TrimPrefix(strings.TrimSuffix(reason, `"`), "transport: "), true
	}
	if s.Code() == codes.DeadlineExceeded && !isReason {
		return "no answer in time"
	}
	return message
}

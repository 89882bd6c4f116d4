package client

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// plain is an error of a call with text that tells what happened, without gRPC's words around it.
type plain struct{ error }

func (p plain) Unwrap() error { return p.error }

func (p plain) Error() string {
	s, ok := status.FromError(p.error)
	if !ok {
		return p.error.Error()
	}
	// As in `connection error: desc = "transport: Error while dialing: dial tcp ...: connect: connection refused"`.
	if _, reason, found := strings.Cut(s.Message(), `desc = "transport: `); found {
		return strings.TrimSuffix(reason, `"`)
	}
	if s.Code() == codes.DeadlineExceeded {
		return "no answer in time"
	}
	return s.Message()
}

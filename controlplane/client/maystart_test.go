package client

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/internal/grpcerr"
)

// Replicas that are starting are not worth a warning. Settings that no wait cures are, at once.
func TestMayStart(t *testing.T) {
	answer := func(code codes.Code, message string) error {
		return &answerError{"10.0.0.1:7050", grpcerr.Plain(status.Error(code, message))}
	}
	refused := answer(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:7050: connect: connection refused"`)
	wrongKey := answer(codes.Unauthenticated, "unknown or missing agent key")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&ownerError{[]error{refused, nil}}, true},
		{&ownerError{[]error{answer(codes.DeadlineExceeded, "context deadline exceeded")}}, true},
		{&ownerError{[]error{answer(codes.Unavailable, "find the owner: etcd at 10.0.0.1:2379 does not answer, 3 s")}}, true},
		{&ownerError{[]error{refused, wrongKey}}, false},
		{&ownerError{[]error{answer(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: EOF"`)}}, false},
		{fmt.Errorf("open a stream with 10.0.0.1:7050: %w", refused), true},
		{fmt.Errorf("%w: NOT_OWNER: this replica is not the owner", errRefused), true},
		{fmt.Errorf("%w: INVALID: another reason", errRefused), false},
	} {
		require.Equal(t, c.want, mayStart(c.err), "%v", c.err)
	}
}

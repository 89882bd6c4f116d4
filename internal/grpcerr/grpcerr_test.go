package grpcerr_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/internal/grpcerr"
)

func TestPlain_TellsWhatHappened(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{status.Error(codes.PermissionDenied, "not served for this key"), "not served for this key"},
		{
			status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`),
			"Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused",
		},
		{
			status.Error(codes.DeadlineExceeded, `latest balancer error: connection error: desc = "transport: Error while dialing: dial tcp: lookup x: no such host"`),
			"Error while dialing: dial tcp: lookup x: no such host",
		},
		{
			status.Error(codes.DeadlineExceeded, `latest balancer error: connection error: desc = "error reading server preface: remote error: tls: certificate required"`),
			"error reading server preface: remote error: tls: certificate required",
		},
		{status.Error(codes.DeadlineExceeded, "latest balancer error: write tcp 10.0.0.1:2->10.0.0.2:1: write: broken pipe"), "write tcp 10.0.0.1:2->10.0.0.2:1: write: broken pipe"},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), "no answer in time"},
		{fmt.Errorf("read: %w", io.EOF), "read: EOF"},
	} {
		require.EqualError(t, grpcerr.Plain(c.err), c.want)
		require.ErrorIs(t, grpcerr.Plain(c.err), c.err)
	}
	require.NoError(t, grpcerr.Plain(nil))
}

package client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
)

// A request larger than a message would end every stream that it is sent on, for all clients of the agent.
func TestForward_RefusesWhatFitsNoMessage(t *testing.T) {
	s, err := New(Config{
		Handler:        struct{ Handler }{},
		VirtualCluster: "c",
		Replicas:       []string{"127.0.0.1:1"},
		Endpoints:      []*api.Endpoint{{Listener: "l", Host: "h", Port: 1}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // there is no stream
	_, err = s.Forward(ctx, Forward{Body: make([]byte, maxForwardBytes+1)})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = s.Forward(ctx, Forward{Body: make([]byte, maxForwardBytes)})
	require.ErrorIs(t, err, ErrUnavailable)
}

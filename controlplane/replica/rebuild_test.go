package replica

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A comparison that ends with its context returns an error, also where there is no snapshot yet.
func TestReplica_RebuildEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(Replica).rebuild(ctx, nil, 1)
	require.ErrorIs(t, err, context.Canceled)
}

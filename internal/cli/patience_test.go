package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TestClientConfig_Patiently: an agent that was killed cannot be dialed until it leaves Metadata.
func TestClientConfig_Patiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := fmt.Errorf("unable to dial: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
		began := time.Now()
		ask := func(context.Context) error {
			if time.Since(began) < 5*time.Second {
				return gone
			}
			return nil
		}
		require.NoError(t, ClientConfig{}.patiently(t.Context(), ask))
		require.Less(t, time.Since(began), 6*time.Second)

		began = time.Now()
		require.ErrorIs(t, ClientConfig{Timeout: time.Second}.patiently(t.Context(), ask), gone)
		require.Equal(t, time.Second, time.Since(began))

		calls := 0
		other := func(context.Context) error {
			calls++
			return kerr.TopicAuthorizationFailed
		}
		require.ErrorIs(t, ClientConfig{}.patiently(t.Context(), other), kerr.TopicAuthorizationFailed)
		require.Equal(t, 1, calls)
	})
}

package etcdlog

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// After a long outage of etcd, a client notices within seconds that it is back.
func TestNewClient_ReconnectsSoonAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		cfg := configOf(ClientConfig{Endpoints: []string{"10.0.0.1:2379"}})
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			attempts.Add(1)
			return nil, errors.New("connection refused")
		}))
		client, err := clientv3.New(cfg)
		require.NoError(t, err)
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, err = client.Get(ctx, "key")
		require.Error(t, err)
		time.Sleep(5 * time.Minute) // sleeps: the clock is fake
		for range 10 {
			before := attempts.Load()
			time.Sleep(3 * time.Second) // sleeps: the clock is fake
			require.Greater(t, attempts.Load(), before)
		}
	})
}

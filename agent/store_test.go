package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

// guarded refuses every GET until it is opened.
type guarded struct {
	objstore.Bucket
	open atomic.Bool
	err  error
}

func (g *guarded) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if g.open.Load() {
		return g.Bucket.Get(ctx, key, offset, length)
	}
	return nil, g.err
}

var errStandIn = errors.New("no control plane")

// TestAgent_WhatItDoesWithoutItsStore: one that the store refuses says so, is not ready and does not join the cluster until
// that is over; where the store is only away it joins, and is not ready either.
func TestAgent_WhatItDoesWithoutItsStore(t *testing.T) {
	for _, c := range []struct {
		name, says string
		err        error
		joins      bool
	}{
		{"refused", "object store refuses access", objstore.ErrRefused, false},
		{"no such bucket", "there is no such bucket in the object store", objstore.ErrNoBucket, false},
		{"no credentials", "no credentials for the object store", objstore.ErrNoCredentials, false},
		{"away", "object store cannot be reached", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			core, logged := observer.New(zap.InfoLevel)
			bucket, dialed := &guarded{Bucket: mem.New(), err: c.err}, make(chan struct{}, 1)
			cfg := lonely(t)
			cfg.Bucket, cfg.Log = bucket, zap.New(core)
			cfg.DialControlPlane = func(context.Context, string) (net.Conn, error) {
				select {
				case dialed <- struct{}{}:
				default:
				}
				return nil, errStandIn
			}
			a, err := New(t.Context(), cfg)
			require.NoError(t, err)
			a.patience = time.Hour // the first answer comes, however busy the machine is
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()

			<-a.store.Told()
			require.Eventually(t, func() bool { return logged.FilterMessage(c.says).Len() > 0 }, 30*time.Second, 5*time.Millisecond)
			require.Contains(t, readyz(t, a), c.says)
			if c.joins {
				<-dialed
			} else {
				const stays = "agent does not join the cluster before it can use the object store"
				require.Eventually(t, func() bool { return logged.FilterMessage(stays).Len() > 0 }, 30*time.Second, 5*time.Millisecond)
				require.Empty(t, dialed, "the control plane is not asked to be let in")
			}
			bucket.open.Store(true)
			<-a.store.Works()
			if !c.joins {
				<-dialed
			}
			require.Equal(t, 1, logged.FilterMessage("object store works now").Len())
			require.NotContains(t, readyz(t, a), "object store", "what is left is the control plane")
			cancel()
			require.NoError(t, <-ended)
		})
	}
}

func readyz(t *testing.T, a *Agent) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + a.HTTPAddress().String() + "/readyz")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

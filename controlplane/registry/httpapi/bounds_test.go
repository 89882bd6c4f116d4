package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// TestAuthenticate_BytesOfACookie has sessions with secrets at the bound and above it.
func TestAuthenticate_BytesOfACookie(t *testing.T) {
	f := open(t)
	for length, want := range map[int]int{maxCookie: http.StatusOK, maxCookie + 1: http.StatusUnauthorized} {
		secret := strings.Repeat("x", length)
		_, err := f.reg.StartSession(t.Context(), f.accounts[registry.Owner].id, accesskey.HashOf(secret), "192.0.2.1", start.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, want, f.do(t, request{method: http.MethodGet, path: "/v1/teams/" + f.team}.cookie(secret)).status)
	}
}

// rival writes a Spec whenever another caller has read it.
type rival struct {
	clientv3.KV
	reads int
}

func (r *rival) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := r.KV.Get(ctx, key, opts...)
	if err != nil || len(resp.Kvs) != 1 || !strings.Contains(key, "/+specs/") {
		return resp, err
	}
	r.reads++
	_, err = r.Put(ctx, key, string(resp.Kvs[0].Value))
	return resp, err
}

// TestSettle_Attempts: a change ends while other changes of its cluster always come first.
func TestSettle_Attempts(t *testing.T) {
	f := open(t)
	_, path := f.newCluster(t)
	kv := &rival{KV: f.etcd.Client().KV}
	f.handlers[0].cfg.Directory.Client = clientv3.NewCtxClient(t.Context())
	f.handlers[0].cfg.Directory.Client.KV = kv
	f.as(t, registry.Owner, http.MethodPatch, path, `{"name":"renamed"}`, http.StatusConflict)
	require.Equal(t, maxSettles, kv.reads)
}

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/freshet-io/freshet/bench/cost"
)

// The helper processes, and the command that runs them.
const (
	roleCommand = "cluster-role"
	roleEtcd    = "etcd"
	roleStore   = "store"
)

const etcdQuota = 4 << 30 // bytes

// etcdRole is one member of etcd, with its data in Dir.
type etcdRole struct {
	Dir string `json:"dir"`
}

// RunRole is what a helper process runs: it prints its address as one line and serves until ctx ends.
func RunRole(ctx context.Context, name, spec string, out io.Writer) error {
	switch name {
	case roleEtcd:
		return runEtcd(ctx, spec, out)
	case roleStore:
		return runStore(ctx, out)
	default:
		return fmt.Errorf("unknown benchmark role %q", name)
	}
}

func runEtcd(ctx context.Context, spec string, out io.Writer) error {
	var role etcdRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.QuotaBackendBytes, cfg.LogLevel = role.Dir, etcdQuota, "fatal" // an error is how it ends
	cfg.AutoCompactionRetention = "0"                                           // the owner compacts
	// What internal/etcdserver takes, and for its reason: values are large.
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 500, 100
	clients := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{clients}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer etcd.Close()
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		return fmt.Errorf("start etcd: %w", err)
	case <-ctx.Done():
		return nil
	}
	fmt.Fprintln(out, etcd.Clients[0].Addr())
	select {
	case err := <-etcd.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-ctx.Done():
		return nil
	}
}

func runStore(ctx context.Context, out io.Writer) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintln(out, l.Addr())
	server := &http.Server{Handler: cost.NewNullS3(), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

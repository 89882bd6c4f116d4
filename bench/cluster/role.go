package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/bench/cost"
	"github.com/freshet-io/freshet/internal/etcdserver"
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
	etcd, err := etcdserver.Start(ctx, etcdserver.Config{Dir: role.Dir, QuotaBytes: etcdQuota, ClientListen: "127.0.0.1:0"}, zap.NewNop())
	if err != nil {
		return err
	}
	fmt.Fprintln(out, etcd.Addr())
	return etcd.Run(ctx)
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

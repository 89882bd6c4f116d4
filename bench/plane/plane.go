// Package plane runs a control plane with its etcd in one process, for benchmarks that have the two in a process of their own.
package plane

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/service"
	"github.com/freshet-io/freshet/objstore"
)

// What agents and their control plane have to agree on.
const (
	VirtualCluster = "bench"
	AgentKey       = "bench-key"
)

// Config of a control plane.
type Config struct {
	Dir      string // for the files of etcd
	Bucket   objstore.Bucket
	Jobs     job.Settings
	Registry *prometheus.Registry // default: a private one
}

// Run prints the addresses of gRPC and of HTTP, as one line, and serves until ctx ends.
func Run(ctx context.Context, cfg Config, out io.Writer) error {
	log := zap.NewNop()
	etcd, err := etcdserver.Start(ctx, etcdserver.Config{Dir: filepath.Join(cfg.Dir, "etcd")}, log)
	if err != nil {
		return err
	}
	plane, err := controlplane.New(controlplane.Config{
		ReplicaID: "bench", GRPCListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0", Etcd: etcd.Client(), Bucket: cfg.Bucket,
		VirtualClusters: []controlplane.VirtualCluster{{Name: VirtualCluster, AgentKeys: []string{AgentKey}}},
		Jobs:            cfg.Jobs, Registry: cfg.Registry, Log: log,
	})
	if err == nil {
		err = plane.Listen(ctx)
	}
	if err != nil {
		etcd.Close()
		return fmt.Errorf("start control plane: %w", err)
	}
	fmt.Fprintln(out, plane.Addr(), plane.HTTPAddr())
	return service.Run(ctx, log,
		service.Service{Name: "etcd", Run: etcd.Run}, service.Service{Name: "control plane", Run: plane.Run})
}

// Addresses are what Run printed.
func Addresses(line string) (grpc, http string, err error) {
	if n, err := fmt.Sscan(line, &grpc, &http); n != 2 {
		return "", "", fmt.Errorf("control plane said %q, want two addresses: %w", line, err)
	}
	return grpc, http, nil
}

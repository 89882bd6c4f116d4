package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/service"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/open"
)

// The process that is not a command of users, and the command that runs it.
const (
	roleCommand = "compare-role"
	roleControl = "control-plane"
)

// controlRole runs a control plane with an etcd in its process.
type controlRole struct {
	Dir    string `json:"dir"`
	Bucket string `json:"bucket"` // URL
	HTTP   string `json:"http"`   // address of its metrics
}

// RunRole is what a helper process runs: it prints its address as one line and serves.
func RunRole(ctx context.Context, name, spec string, out io.Writer) error {
	if name != roleControl {
		return fmt.Errorf("unknown role of a comparison %q: want %s", name, roleControl)
	}
	var role controlRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	return role.run(ctx, out)
}

func (r controlRole) run(ctx context.Context, out io.Writer) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	bucket, err := open.Bucket(ctx, r.Bucket)
	if err != nil {
		return fmt.Errorf("open bucket: %w", err)
	}
	defer bucket.Close()
	log := zap.NewNop()
	etcd, err := etcdserver.Start(ctx, etcdserver.Config{Dir: filepath.Join(r.Dir, "etcd")}, log)
	if err != nil {
		return err
	}
	plane, err := controlplane.New(controlplane.Config{
		ReplicaID: "compare", GRPCListen: "127.0.0.1:0", HTTPListen: r.HTTP, Etcd: etcd.Client(),
		Bucket: meter.New(bucket, registry), Registry: registry, Log: log,
		VirtualClusters: []controlplane.VirtualCluster{{Name: virtualCluster, AgentKeys: []string{agentKey}}},
	})
	if err == nil {
		err = plane.Listen(ctx)
	}
	if err != nil {
		etcd.Close()
		return fmt.Errorf("start control plane: %w", err)
	}
	fmt.Fprintln(out, plane.Addr())
	return service.Run(ctx, log,
		service.Service{Name: "etcd", Run: etcd.Run}, service.Service{Name: "control plane", Run: plane.Run})
}

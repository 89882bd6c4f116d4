package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/service"
	"github.com/freshet-io/freshet/objstore/file"
)

// What the agent and its control plane have to agree on.
const (
	benchCluster = "bench"
	benchKey     = "bench-key"
)

// controlRole runs a control plane with an embedded etcd, all under Dir. Its snapshots are in a directory, not in the
// null endpoint, which could not give them back.
type controlRole struct {
	Dir string `json:"dir"`
}

func runControlRole(ctx context.Context, spec string, out io.Writer) error {
	var role controlRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	objects := filepath.Join(role.Dir, "objects")
	if err := os.MkdirAll(objects, 0o700); err != nil {
		return fmt.Errorf("create object directory: %w", err)
	}
	bucket, err := file.Open(objects)
	if err != nil {
		return fmt.Errorf("open bucket: %w", err)
	}
	defer bucket.Close()
	log := zap.NewNop()
	etcd, err := etcdserver.Start(ctx, etcdserver.Config{Dir: filepath.Join(role.Dir, "etcd")}, log)
	if err != nil {
		return err
	}
	plane, err := controlplane.New(controlplane.Config{
		ReplicaID: "bench", GRPCListen: "127.0.0.1:0", HTTPListen: "none", Etcd: etcd.Client(), Bucket: bucket,
		VirtualClusters: []controlplane.VirtualCluster{{Name: benchCluster, AgentKeys: []string{benchKey}}},
		Log:             log,
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

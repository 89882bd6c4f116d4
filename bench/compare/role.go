package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/freshet-io/freshet/bench/plane"
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
}

// RunRole is what a helper process runs: it prints its addresses as one line and serves.
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
	return plane.Run(ctx, plane.Config{Dir: r.Dir, Bucket: meter.New(bucket, registry), Registry: registry}, out)
}

package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/freshet-io/freshet/bench/plane"
	"github.com/freshet-io/freshet/objstore/file"
)

// controlRole runs a control plane with an embedded etcd, all under Dir. Its snapshots are in a directory, not in the
// null endpoint, which could not give them back.
type controlRole struct {
	Dir string `json:"dir"`
}

// objectsIn returns the directory of the control plane's objects.
func objectsIn(dir string) string { return filepath.Join(dir, "objects") }

func runControlRole(ctx context.Context, spec string, out io.Writer) error {
	var role controlRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	objects := objectsIn(role.Dir)
	if err := os.MkdirAll(objects, 0o700); err != nil {
		return fmt.Errorf("create object directory: %w", err)
	}
	bucket, err := file.Open(objects)
	if err != nil {
		return fmt.Errorf("open bucket: %w", err)
	}
	defer bucket.Close()
	return plane.Run(ctx, plane.Config{Dir: role.Dir, Bucket: bucket}, out)
}

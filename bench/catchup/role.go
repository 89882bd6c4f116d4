package catchup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/freshet-io/freshet/bench/plane"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/objstore/file"
)

// The names of the processes of a run, beside the agent, and the command that runs them.
const (
	roleCommand = "catchup-role"
	roleControl = "control-plane"
	roleFill    = "fill"
	roleTurn    = "turn"
)

// RunRole is what a helper process runs: it prints its addresses as one line and serves, or does its load and prints the
// result as one line of JSON.
func RunRole(ctx context.Context, name, spec string, out io.Writer) error {
	switch name {
	case roleControl:
		return runControl(ctx, spec, out)
	case roleFill:
		return runLoad(ctx, spec, out, (*load).fill)
	case roleTurn:
		return runLoad(ctx, spec, out, (*load).turn)
	default:
		return fmt.Errorf("unknown benchmark role %q", name)
	}
}

// controlRole runs a control plane with an embedded etcd, all under Dir.
type controlRole struct {
	Dir          string        `json:"dir"`
	CompactAfter time.Duration `json:"compact_after"`
}

// objects is where the bucket is that agent and control plane share.
func objects(dir string) string { return filepath.Join(dir, "objects") }

func runControl(ctx context.Context, spec string, out io.Writer) error {
	var role controlRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	bucket, err := file.Open(objects(role.Dir))
	if err != nil {
		return fmt.Errorf("open bucket: %w", err)
	}
	defer bucket.Close()
	return plane.Run(ctx, plane.Config{
		Dir: role.Dir, Bucket: bucket, Jobs: job.Settings{Interval: time.Second, First: job.FirstLevel{Age: role.CompactAfter}},
	}, out)
}

func runLoad(ctx context.Context, spec string, out io.Writer, run func(*load, context.Context) (*result, error)) error {
	var l load
	if err := json.Unmarshal([]byte(spec), &l); err != nil {
		return fmt.Errorf("decode load: %w", err)
	}
	r, err := run(&l, ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

func makeDirs(dir string) error {
	if err := os.MkdirAll(objects(dir), 0o700); err != nil {
		return fmt.Errorf("create object directory: %w", err)
	}
	return nil
}

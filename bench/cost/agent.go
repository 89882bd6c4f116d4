package cost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/plane"
	"github.com/freshet-io/freshet/bench/process"
	"github.com/freshet-io/freshet/objstore/marker"
)

// agentMemory is the memory limit of the measured agent.
const agentMemory = "480MiB"

// startAgent starts the control plane and the agent, as users start it, and waits until it answers clients.
func (r *rig) startAgent(ctx context.Context, dir string) error {
	control, line, err := process.StartRole(ctx, roleCommand, roleControl, controlRole{Dir: dir})
	if err != nil {
		return err
	}
	r.control = control
	grpc, _, err := plane.Addresses(line)
	if err != nil {
		return err
	}
	if err := r.mark(ctx, dir); err != nil {
		return err
	}
	addresses, err := process.FreeAddresses(2)
	if err != nil {
		return err
	}
	r.agentAddr, r.agentHTTP = addresses[0], addresses[1]
	exe, err := process.Freshet()
	if err != nil {
		return err
	}
	args := []string{
		"agent", "--virtual-cluster", plane.VirtualCluster, "--zone", "a", "--peer-listen", "none", "--control-plane", grpc,
		"--bucket", "s3://bucket/bench?region=local&path-style=true&endpoint=" + r.agentS3,
		"--kafka-listen", r.agentAddr, "--http-listen", r.agentHTTP, "--memory-limit", agentMemory, "--log-level", "warn",
	}
	env := append(os.Environ(), "FRESHET_AGENT_KEY="+plane.AgentKey, "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench")
	if r.cert.enabled() {
		args = append(args, "--kafka-tls-cert", r.cert.CertFile, "--kafka-tls-key", r.cert.KeyFile)
		env = append(env, "SSL_CERT_FILE="+r.cert.CertFile)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = env
	if r.agent, err = process.Start(ctx, cmd); err != nil {
		return err
	}
	return process.AwaitBroker(ctx, r.clientOptions()...)
}

// mark copies the virtual cluster's marker from the control plane's bucket to the agent's, once it is there.
func (r *rig) mark(ctx context.Context, dir string) error {
	key := marker.Key(plane.VirtualCluster)
	content, err := os.ReadFile(filepath.Join(objectsIn(dir), filepath.FromSlash(key)))
	for ; errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) { // sleeps: another process writes the file
		content, err = os.ReadFile(filepath.Join(objectsIn(dir), filepath.FromSlash(key)))
	}
	if err != nil {
		return fmt.Errorf("read the marker: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, r.agentS3+"/bucket/bench/"+key, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("put the marker: %w", err)
	}
	answer, err := r.client.Do(request)
	if err != nil {
		return fmt.Errorf("put the marker: %w", err)
	}
	return answer.Body.Close()
}

func (r *rig) clientOptions() []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(r.agentAddr)}
	if r.shape.TLS {
		options = append(options, kgo.DialTLSConfig(clientTLS()))
	}
	return options
}

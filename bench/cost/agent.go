package cost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/process"
)

// agentMemory is the memory limit of the measured agent.
const agentMemory = "480MiB"

// startAgent starts the control plane and the agent, as users start it, and waits until it answers clients.
func (r *rig) startAgent(ctx context.Context, dir string) error {
	control, address, err := process.StartRole(ctx, roleCommand, roleControl, controlRole{Dir: dir})
	if err != nil {
		return err
	}
	r.control = control
	if r.agentAddr, err = freeAddress(); err != nil {
		return err
	}
	if r.agentHTTP, err = freeAddress(); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
	}
	args := []string{
		"agent", "--virtual-cluster", benchCluster, "--zone", "a", "--peer-listen", "none", "--control-plane", address,
		"--bucket", "s3://bucket/bench?region=local&path-style=true&endpoint=" + r.agentS3,
		"--kafka-listen", r.agentAddr, "--http-listen", r.agentHTTP, "--memory-limit", agentMemory, "--log-level", "warn",
	}
	env := append(os.Environ(), "FRESHET_AGENT_KEY="+benchKey, "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench")
	if r.cert.enabled() {
		args = append(args, "--kafka-tls-cert", r.cert.CertFile, "--kafka-tls-key", r.cert.KeyFile)
		env = append(env, "SSL_CERT_FILE="+r.cert.CertFile)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = env
	if r.agent, err = process.Start(ctx, cmd); err != nil {
		return err
	}
	return r.awaitAgent(ctx)
}

// awaitAgent pings until the agent answers.
func (r *rig) awaitAgent(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, errors.New("the agent did not get ready"))
	defer cancel()
	client, err := kgo.NewClient(r.clientOptions()...)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for client.Ping(ctx) != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

func (r *rig) clientOptions() []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(r.agentAddr)}
	if r.shape.TLS {
		options = append(options, kgo.DialTLSConfig(clientTLS()))
	}
	return options
}

// freeAddress gives a loopback address that nobody listens on at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

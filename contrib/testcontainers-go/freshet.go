// Package freshet runs a Freshet broker in a container for tests: freshet dev, with its data in the container.
//
// Kafka clients connect to the address that Metadata names, so the broker must know its port on the host when it starts.
// Docker assigns a random port only at the start of the container. Therefore Run chooses a free port before each start. If
// another process takes that port first, the start fails, and the next attempt has another port.
package freshet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	attempts    = 3
	clientPort  = "9092"
	networkPort = "9093"
	httpPort    = "8080"
	// startTimeout bounds an attempt to start.
	startTimeout = 30 * time.Second
)

// Container is a running broker.
type Container struct {
	testcontainers.Container
	host string
	port int
}

// Run starts a broker of an image such as freshet:v1, which make image writes. Settings of freshet dev are environment
// variables: testcontainers.WithEnv(map[string]string{"FRESHET_DEFAULT_PARTITIONS": "3"}).
func Run(ctx context.Context, image string, options ...testcontainers.ContainerCustomizer) (*Container, error) {
	return run(ctx, image, freePort, options)
}

// run is Run with the ports of free, one for each attempt.
func run(ctx context.Context, image string, free func(context.Context) (int, error), options []testcontainers.ContainerCustomizer) (*Container, error) {
	host, err := daemonHost(ctx)
	if err != nil {
		return nil, err
	}
	var failures []error
	for range attempts {
		port, err := free(ctx)
		if err != nil {
			return nil, err
		}
		c, err := testcontainers.Run(ctx, image, append(settings(host, port), options...)...)
		if err == nil {
			return &Container{Container: c, host: host, port: port}, nil
		}
		failures = append(failures, err)
		if c == nil || ctx.Err() != nil {
			break // The container could not be created, so another port does not help.
		}
		if err := testcontainers.TerminateContainer(c); err != nil {
			failures = append(failures, err)
			break
		}
	}
	return nil, fmt.Errorf("start %s: %w", image, errors.Join(failures...))
}

func settings(host string, port int) []testcontainers.ContainerCustomizer {
	return []testcontainers.ContainerCustomizer{
		testcontainers.WithExposedPorts(clientPort+"/tcp", httpPort+"/tcp"),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
			c.PortBindings = network.PortMap{network.MustParsePort(clientPort + "/tcp"): {{HostPort: strconv.Itoa(port)}}}
		}),
		testcontainers.WithCmd(
			"dev", "--http-listen", ":"+httpPort, "--group-initial-rebalance-delay-ms", "0",
			"--kafka-listen", "client=:"+clientPort+",network=:"+networkPort,
			"--advertise", "client="+net.JoinHostPort(host, strconv.Itoa(port))+",network={ip}:"+networkPort,
		),
		testcontainers.WithWaitStrategyAndDeadline(startTimeout, wait.ForHTTP("/readyz").WithPort(httpPort+"/tcp").WithPollInterval(10*time.Millisecond)),
	}
}

// BootstrapServers returns the bootstrap address for clients outside of containers.
func (c *Container) BootstrapServers() string { return net.JoinHostPort(c.host, strconv.Itoa(c.port)) }

// NetworkBootstrapServers returns the bootstrap address for clients in containers of the same network.
func (c *Container) NetworkBootstrapServers(ctx context.Context) (string, error) {
	ip, err := c.ContainerIP(ctx)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(ip, networkPort), nil
}

// daemonHost returns the host at which ports of containers are reached.
func daemonHost(ctx context.Context) (host string, err error) {
	p, err := testcontainers.NewDockerProvider()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return p.DaemonHost(ctx)
}

// freePort returns a TCP port on which no process of this machine listens.
func freePort(ctx context.Context) (int, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", ":0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

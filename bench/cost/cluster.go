package cost

import (
	"context"
	"net/http"

	"github.com/freshet-io/freshet/bench/process"
)

// Cluster is an agent and its control plane, which has an embedded etcd, as processes of their own, over an object store
// that forgets: for other benchmarks than this package's.
type Cluster struct{ rig rig }

// StartCluster starts one and waits until the agent answers. dir is for the control plane's files.
func StartCluster(ctx context.Context, dir string) (*Cluster, error) {
	c := &Cluster{rig: rig{client: http.DefaultClient}}
	err := c.start(ctx, dir)
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, dir string) (err error) {
	if c.rig.agentS3, err = c.rig.nullEndpoint(ctx); err != nil {
		return err
	}
	return c.rig.startAgent(ctx, dir)
}

// Close stops all processes.
func (c *Cluster) Close() { c.rig.close() }

// Agent is the agent's process.
func (c *Cluster) Agent() *process.Process { return c.rig.agent }

// Control is the control plane's process.
func (c *Cluster) Control() *process.Process { return c.rig.control }

// KafkaAddress is where the agent takes Kafka clients, HTTPAddress where it shows its metrics.
func (c *Cluster) KafkaAddress() string { return c.rig.agentAddr }

// HTTPAddress is where the agent shows its metrics.
func (c *Cluster) HTTPAddress() string { return c.rig.agentHTTP }

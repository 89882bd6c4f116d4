package cluster

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/process"
)

const (
	name = "bench"     // of the virtual cluster
	key  = "bench-key" // of agents

	bucketName = "bucket" // of the object store as agents see it
)

// Config of a cluster.
type Config struct {
	Dir         string   // for the files of etcd and the control plane
	Model       string   // of the object store as agents see it, of objstore/latency; "": answers at once
	AgentMemory string   // memory limit of each agent; default 512MiB
	AgentArgs   []string // more of each agent's flags
}

// Cluster is one that runs.
type Cluster struct {
	cfg     Config
	etcd    *process.Process
	store   *process.Process
	control *process.Process
	agents  []*Agent

	storeAddr, grpc, controlHTTP string
}

// Agent is a process with the addresses of its Kafka clients and of its metrics.
type Agent struct {
	*process.Process
	Kafka, HTTP string
	stopped     bool
}

// Start starts all but the agents.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	if cfg.AgentMemory == "" {
		cfg.AgentMemory = "512MiB"
	}
	c := &Cluster{cfg: cfg}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	var etcd string
	if c.etcd, etcd, err = process.StartRole(ctx, roleCommand, roleEtcd, etcdRole{Dir: filepath.Join(cfg.Dir, "etcd")}); err != nil {
		return nil, err
	}
	objects := filepath.Join(cfg.Dir, "objects")
	if err := os.MkdirAll(objects, 0o700); err != nil {
		return nil, fmt.Errorf("create object directory: %w", err)
	}
	if c.store, c.storeAddr, err = process.StartRole(ctx, roleCommand, roleStore, storeRole{Objects: objects}); err != nil {
		return nil, err
	}
	return c, c.startControl(ctx, etcd, objects)
}

func (c *Cluster) startControl(ctx context.Context, etcd, objects string) (err error) {
	addresses, err := process.FreeAddresses(2)
	if err != nil {
		return err
	}
	c.grpc, c.controlHTTP = addresses[0], addresses[1]
	// Its snapshots are in a directory: the store could not give them back.
	c.control, err = c.freshet(ctx, "controlplane", "--etcd", etcd, "--virtual-cluster", name, "--bucket", "file://"+objects,
		"--grpc-listen", c.grpc, "--http-listen", c.controlHTTP,
		"--orphan-sweep", "off")
	return err
}

// freshet starts this program as users do.
func (c *Cluster) freshet(ctx context.Context, args ...string) (*process.Process, error) {
	exe, err := process.Freshet()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, append(args, "--log-level", "error")...)
	cmd.Env = append(os.Environ(), "FRESHET_AGENT_KEY="+key, "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench")
	return process.Start(ctx, cmd)
}

// StartAgent starts an agent of the one zone there is and waits until it answers clients.
func (c *Cluster) StartAgent(ctx context.Context) (*Agent, error) {
	addresses, err := process.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	a := &Agent{Kafka: addresses[0], HTTP: addresses[1]}
	store := url.Values{"region": {"local"}, "path-style": {"true"}, "endpoint": {"http://" + c.storeAddr}}
	if c.cfg.Model != "" {
		store.Set("latency", c.cfg.Model)
	}
	a.Process, err = c.freshet(ctx, append([]string{
		"agent", "--virtual-cluster", name, "--zone", "a", "--control-plane", c.grpc, "--bucket", "s3://" + bucketName + "?" + store.Encode(),
		"--kafka-listen", a.Kafka, "--http-listen", a.HTTP, "--peer-listen", addresses[2], "--memory-limit", c.cfg.AgentMemory,
		// Jobs would read what the store has forgotten.
		"--roles", "produce,fetch",
	}, c.cfg.AgentArgs...)...)
	if err != nil {
		return nil, err
	}
	c.agents = append(c.agents, a)
	return a, process.AwaitBroker(ctx, kgo.SeedBrokers(a.Kafka))
}

// StopAgent ends an agent kindly and waits for its end.
func (c *Cluster) StopAgent(a *Agent) {
	if !a.stopped {
		a.stopped = true
		a.Stop()
	}
}

// Agents are those that run.
func (c *Cluster) Agents() (running []*Agent) {
	for _, a := range c.agents {
		if !a.stopped {
			running = append(running, a)
		}
	}
	return running
}

// Control is the control plane's process, Etcd that of etcd.
func (c *Cluster) Control() *process.Process { return c.control }

// Etcd is the process of etcd.
func (c *Cluster) Etcd() *process.Process { return c.etcd }

// ControlHTTP is where the control plane shows its metrics.
func (c *Cluster) ControlHTTP() string { return c.controlHTTP }

// Close stops all processes, agents first so that they can say goodbye.
func (c *Cluster) Close() {
	for _, a := range c.agents {
		c.StopAgent(a)
	}
	for _, p := range []*process.Process{c.control, c.store, c.etcd} {
		if p != nil {
			p.Stop()
		}
	}
}

package groups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/freshet-io/freshet/bench/cost"
	"github.com/freshet-io/freshet/bench/process"
)

// The parts of the benchmark.
const (
	PartIdle       = "idle"
	PartHeartbeats = "heartbeats"
)

const (
	roleCommand = "groups-role"
	roleMembers = "members"
	roleIdle    = "idle"
)

// longAgo as a deadline makes a read give what is there.
var longAgo = time.Unix(1, 0)

// Config is one run.
type Config struct {
	Parts       []string // PartIdle, PartHeartbeats; both if empty
	Groups      int
	Members     int           // of each group
	Lane        int           // connections shared by the members of the same place in all groups
	Interval    time.Duration // between the heartbeats of a member
	Duration    time.Duration // of each measurement
	Settle      time.Duration // left alone before each measurement
	Connections int           // idle ones
	Out         io.Writer
}

// ApplyDefaults fills what is zero with what the bounds are stated for.
func (c *Config) ApplyDefaults() {
	if c.Groups == 0 {
		c.Groups = 10_000
	}
	if c.Members == 0 {
		c.Members = 5
	}
	if c.Lane == 0 {
		c.Lane = 2000
	}
	if c.Interval == 0 {
		c.Interval = 3 * time.Second
	}
	if c.Duration == 0 {
		c.Duration = time.Minute
	}
	if c.Settle == 0 {
		c.Settle = 5 * time.Second
	}
	if c.Connections == 0 {
		c.Connections = 10_000
	}
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

// RunRole is what a helper process runs.
func RunRole(ctx context.Context, name, spec string, out io.Writer) error {
	switch name {
	case roleMembers:
		return runMembersRole(ctx, spec, out)
	case roleIdle:
		return runIdleRole(ctx, spec, out)
	default:
		return fmt.Errorf("unknown benchmark role %q", name)
	}
}

// Run measures the parts, each with a cluster of its own, and prints the figures; the last lines are those with bounds.
func Run(ctx context.Context, cfg Config) error {
	cfg.ApplyDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lines []string
	for _, part := range []struct {
		name string
		run  func(context.Context, Config, *cost.Cluster) ([]string, error)
	}{{PartIdle, runIdle}, {PartHeartbeats, runHeartbeats}} {
		if len(cfg.Parts) > 0 && !slices.Contains(cfg.Parts, part.name) {
			continue
		}
		bounded, err := withCluster(ctx, cfg, part.run)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		lines = append(lines, bounded...)
	}
	for _, line := range lines {
		fmt.Fprintln(cfg.Out, line)
	}
	return nil
}

func withCluster(ctx context.Context, cfg Config, run func(context.Context, Config, *cost.Cluster) ([]string, error)) ([]string, error) {
	dir, err := os.MkdirTemp("", "freshet-bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	cluster, err := cost.StartCluster(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	return run(ctx, cfg, cluster)
}

// runIdle compares the agent with and without connections.
func runIdle(ctx context.Context, cfg Config, cluster *cost.Cluster) ([]string, error) {
	before, err := observe(ctx, cfg, cluster)
	if err != nil {
		return nil, err
	}
	clients, line, err := process.StartRole(ctx, roleCommand, roleIdle, idleRole{Address: cluster.KafkaAddress(), Connections: cfg.Connections})
	if err != nil {
		return nil, err
	}
	if line != "connected" {
		clients.Stop()
		return nil, fmt.Errorf("connections: %q", line)
	}
	after, err := observe(ctx, cfg, cluster)
	if err != nil {
		clients.Stop()
		return nil, err
	}
	if err := noneClosed(clients); err != nil {
		return nil, err
	}
	fmt.Fprintf(cfg.Out, "\n%d idle connections on one agent\n", cfg.Connections)
	fmt.Fprintf(cfg.Out, "without: agent %s\nwith:    agent %s\n", before, after)
	growth := after.memory - before.memory
	fmt.Fprintf(cfg.Out, "growth: %.1f MiB resident, %.1f KiB a connection, %.1f MiB heap and stacks; control plane %.2f %% of a core\n",
		mib(growth), float64(growth)/1024/float64(cfg.Connections), mib(after.heap-before.heap), after.control*100)
	return []string{
		fmt.Sprintf("idle_connections_mib %.1f", mib(after.memory)),
		fmt.Sprintf("idle_connections_growth_mib %.1f", mib(growth)),
		fmt.Sprintf("idle_connections_cpu_percent %.2f", after.agent*100),
	}, nil
}

// noneClosed ends the clients and has them say how many connections they lost.
func noneClosed(clients *process.Process) error {
	clients.Interrupt()
	line, err := clients.Line()
	clients.Stop()
	if err != nil {
		return fmt.Errorf("count of closed connections: %w", err)
	}
	if closed, err := strconv.Atoi(line); err != nil || closed > 0 {
		return fmt.Errorf("connections closed by the agent: %q", line)
	}
	return nil
}

// runHeartbeats lets all groups join, and measures while they only heartbeat.
func runHeartbeats(ctx context.Context, cfg Config, cluster *cost.Cluster) ([]string, error) {
	began := time.Now()
	clients, line, err := process.StartRole(ctx, roleCommand, roleMembers, membersRole{
		Address: cluster.KafkaAddress(), Groups: cfg.Groups, Members: cfg.Members, Lane: cfg.Lane,
		Interval: cfg.Interval, Duration: 2*cfg.Settle + cfg.Duration,
	})
	if err != nil {
		return nil, err
	}
	defer clients.Stop()
	if line != "joined" {
		return nil, fmt.Errorf("members: %q", line)
	}
	joined := time.Since(began)
	seen, err := observe(ctx, cfg, cluster)
	if err != nil {
		return nil, err
	}
	if line, err = clients.Line(); err != nil {
		return nil, fmt.Errorf("result of members: %w", err)
	}
	var result heartbeatResult
	if err := json.Unmarshal([]byte(line), &result); err != nil {
		return nil, fmt.Errorf("decode result of members: %w", err)
	}
	if result.Heartbeats == 0 || result.Faults > 0 {
		return nil, errors.New("not all heartbeats were answered well: " + line)
	}
	rate := float64(result.Heartbeats) / (2*cfg.Settle + cfg.Duration).Seconds()
	fmt.Fprintf(cfg.Out, "\n%d groups of %d members on %d connections, a heartbeat every %v; joined in %v\n",
		cfg.Groups, cfg.Members, cfg.Members*cfg.Lane, cfg.Interval, joined.Round(time.Second))
	fmt.Fprintf(cfg.Out, "%.0f heartbeats/s (%.0f asked for), %d late, median %v, p99 %v\n", rate,
		float64(cfg.Groups*cfg.Members)/cfg.Interval.Seconds(), result.Late,
		result.Median.Round(10*time.Microsecond), result.P99.Round(10*time.Microsecond))
	fmt.Fprintf(cfg.Out, "control plane with etcd %.1f %% of a core, %.0f MiB resident; agent %s\n",
		seen.control*100, mib(seen.controlMemory), seen)
	return []string{
		fmt.Sprintf("heartbeats_per_second %.0f", rate),
		fmt.Sprintf("heartbeats_owner_cpu_percent %.1f", seen.control*100),
	}, nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

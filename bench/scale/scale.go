package scale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/freshet-io/freshet/bench/cluster"
)

// Config of a run.
type Config struct {
	Agents     int           // before one is added; default 3
	Topics     int           // default 1000
	Partitions int           // of each; default 100
	Clients    int           // default 10,000
	Fetchers   int           // clients with a parked fetch; default 2000
	Rate       int           // records a second of producers; default 500
	Duration   time.Duration // of each measurement; default 20 s
	Window     time.Duration // in which all clients refresh; default 10 s
	Settle     time.Duration // before each measurement; default 5 s
	PutBudget  string        // PUTs a second; default 4
	Out        io.Writer     // default: standard output
}

// ApplyDefaults fills what is zero.
func (c *Config) ApplyDefaults() {
	c.Agents = cmp.Or(c.Agents, 3)
	c.Topics = cmp.Or(c.Topics, 1000)
	c.Partitions = cmp.Or(c.Partitions, 100)
	c.Clients = cmp.Or(c.Clients, 10_000)
	c.Fetchers = cmp.Or(c.Fetchers, 2000)
	c.Rate = cmp.Or(c.Rate, 500)
	c.Duration = cmp.Or(c.Duration, 20*time.Second)
	c.Window = cmp.Or(c.Window, 10*time.Second)
	c.Settle = cmp.Or(c.Settle, 5*time.Second)
	c.PutBudget = cmp.Or(c.PutBudget, "4")
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	var faults []error
	if c.Agents < 1 || c.Topics < 1 || c.Partitions < 1 || c.Clients < 1 || c.Rate < 1 {
		faults = append(faults, errors.New("agents, topics, partitions, clients and rate are positive"))
	}
	if c.Partitions > maxPartitions {
		faults = append(faults, fmt.Errorf("%d partitions of a topic are more than one request creates (%d)", c.Partitions, maxPartitions))
	}
	if c.Fetchers > c.Clients {
		faults = append(faults, fmt.Errorf("%d fetchers are more than %d clients", c.Fetchers, c.Clients))
	}
	return errors.Join(faults...)
}

// phase is one stretch of time.
type phase struct {
	name       string
	seconds    float64
	agents     int
	agentCPU   float64 // cores, of the agent that used most
	beyond     float64 // CPU seconds beyond what is used anyway, of the agent that used most; of changes
	owner      float64 // cores
	ownerBytes int64   // resident
	agentBytes int64   // resident, of the largest
	produced   produced
	refreshed  *refreshed // of changes
}

// Run measures and prints. The last lines are the figures that have bounds.
func Run(ctx context.Context, cfg Config) error {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "freshet-bench-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Dir: dir, AgentArgs: []string{"--put-budget", cfg.PutBudget}})
	if err != nil {
		return err
	}
	defer c.Close()
	for range cfg.Agents {
		if _, err := c.StartAgent(ctx); err != nil {
			return err
		}
	}
	r := &rig{cfg: &cfg, cluster: c}
	defer r.close()
	phases, err := r.run(ctx)
	if err != nil {
		return err
	}
	return report(cfg.Out, &cfg, phases)
}

func report(w io.Writer, cfg *Config, phases []phase) error {
	fmt.Fprintf(w, "%d topics x %d partitions, %d clients, %d of them with a fetch parked; %d records/s produced\n",
		cfg.Topics, cfg.Partitions, cfg.Clients, cfg.Fetchers, cfg.Rate)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "phase\tagents\tproduce p50\tp99 (ms)\towner MiB\tcores\tbusiest agent MiB\tcores\tCPU-s beyond\trefreshes\tp99 (ms)\tMiB")
	for _, p := range phases {
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%d\t%.2f\t%d\t%.2f", p.name, p.agents, p.produced.P50, p.produced.P99,
			p.ownerBytes>>20, p.owner, p.agentBytes>>20, p.agentCPU)
		if p.refreshed != nil {
			fmt.Fprintf(t, "\t%.2f\t%d\t%.1f\t%.1f", p.beyond, p.refreshed.Answers, p.refreshed.P99, float64(p.refreshed.Bytes)/(1<<20))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	var owner int64
	var beyond, worst float64
	for _, p := range phases {
		owner, beyond = max(owner, p.ownerBytes), max(beyond, p.beyond)
		worst = max(worst, p.produced.P99)
	}
	fmt.Fprintf(w, "owner_resident_mib %d (bound 2048)\n", owner>>20)
	fmt.Fprintf(w, "all_cpu_seconds_beyond_steady_per_agent_and_change %.2f\n", beyond)
	fmt.Fprintf(w, "produce_p99_growth_percent %.0f (bound 20)\n", (worst/phases[0].produced.P99-1)*100)
	return nil
}

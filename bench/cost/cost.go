package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/freshet-io/freshet/bench/process"
)

// Shape is one form of traffic that is measured.
type Shape struct {
	Name        string
	What        string
	BatchBytes  int32
	Linger      time.Duration
	RecordBytes int
	Partitions  int
	TLS         bool
}

// Shapes are what the benchmark measures. A is the one with bounds; B and C are reported.
func Shapes() []Shape {
	return []Shape{
		{Name: "B", What: "Java defaults: 16 KiB batches, linger 5 ms", BatchBytes: 16384, Linger: 5 * time.Millisecond, RecordBytes: 1024, Partitions: 32},
		{Name: "C", What: "A with TLS on both sides", BatchBytes: frameBytes, Linger: 25 * time.Millisecond, RecordBytes: 1024, Partitions: 32, TLS: true},
		{Name: "A", What: "1 KiB records, uncompressed, 100 KB batches, 32 partitions", BatchBytes: frameBytes, Linger: 25 * time.Millisecond, RecordBytes: 1024, Partitions: 32},
	}
}

// Config is one run.
type Config struct {
	Rounds      int           // pairs of floor and agent per shape and direction; ratios are the median of the pairs
	Bytes       int64         // per round
	Connections int           // clients of a load
	Steady      time.Duration // of the memory measurement
	SteadyRate  int64         // bytes/s in, and as much out, while memory is measured
	Shapes      []string      // names; all if empty
	Profiles    string        // an existing directory for profiles of the agent; none if empty
	Out         io.Writer
}

// ApplyDefaults fills what is zero.
func (c *Config) ApplyDefaults() {
	if c.Rounds == 0 {
		c.Rounds = 5
	}
	if c.Bytes == 0 {
		c.Bytes = 1 << 30
	}
	if c.Connections == 0 {
		c.Connections = 4
	}
	if c.Steady == 0 {
		c.Steady = 20 * time.Second
	}
	if c.SteadyRate == 0 {
		c.SteadyRate = 100 << 20
	}
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

// Sample is one load's cost to the program that served it.
type Sample struct {
	CPU  float64 // seconds
	Wire int64   // bytes
	Rate float64 // bytes/s while the load ran
}

// PerGiB gives CPU seconds per GiB of wire bytes.
func (s Sample) PerGiB() float64 { return s.CPU / (float64(s.Wire) / (1 << 30)) }

// pair is floor and agent measured right after each other.
type pair struct{ floor, agent Sample }

func (p pair) ratio() float64 { return p.agent.PerGiB() / p.floor.PerGiB() }

// Run measures every shape and prints the report; the last two lines are shape A's ratios.
func Run(ctx context.Context, cfg Config) error {
	cfg.ApplyDefaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "freshet-bench-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, shape := range Shapes() {
		if len(cfg.Shapes) > 0 && !slices.Contains(cfg.Shapes, shape.Name) {
			continue
		}
		if err := runShape(ctx, cfg, shape, dir); err != nil {
			return fmt.Errorf("shape %s: %w", shape.Name, err)
		}
	}
	return nil
}

func runShape(ctx context.Context, cfg Config, shape Shape, dir string) error {
	r, err := newRig(ctx, cfg, shape, dir)
	if err != nil {
		return err
	}
	defer r.close()
	report := report{shape: shape, cfg: cfg}
	for range cfg.Rounds {
		p, err := r.pair(ctx, FloorReceive, Produce)
		if err != nil {
			return err
		}
		report.produce = append(report.produce, p)
	}
	report.afterProduce, err = r.counts(ctx)
	if err != nil {
		return err
	}
	if err := r.profile(ctx, Produce, report.produce[len(report.produce)-1].agent.Rate); err != nil {
		return err
	}
	for range cfg.Rounds {
		p, err := r.pair(ctx, FloorSend, Fetch)
		if err != nil {
			return err
		}
		report.fetch = append(report.fetch, p)
	}
	if report.afterFetch, err = r.counts(ctx); err != nil {
		return err
	}
	if err := r.profile(ctx, Fetch, report.fetch[len(report.fetch)-1].agent.Rate); err != nil {
		return err
	}
	if report.memory, report.steady, err = r.steady(ctx); err != nil {
		return err
	}
	report.print(cfg.Out)
	return nil
}

// measure runs the load in a process of its own and takes the server's CPU time around it.
func measure(ctx context.Context, server *process.Process, load Load) (Sample, error) {
	before, err := server.CPU()
	if err != nil {
		return Sample{}, err
	}
	client, line, err := process.StartRole(ctx, roleCommand, roleLoad, load)
	if err != nil {
		return Sample{}, err
	}
	client.Stop()
	var result LoadResult
	if err := json.Unmarshal([]byte(line), &result); err != nil {
		return Sample{}, fmt.Errorf("decode result of load: %w", err)
	}
	after, err := server.CPU()
	if err != nil {
		return Sample{}, err
	}
	return Sample{
		CPU: after - before, Wire: result.WireBytes,
		Rate: float64(result.WireBytes) / result.Elapsed.Seconds(),
	}, nil
}

func fetchCounts(ctx context.Context, client *http.Client, endpoint string) (NullS3Counts, error) {
	var counts NullS3Counts
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/counts", nil)
	if err != nil {
		return counts, fmt.Errorf("make request: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return counts, fmt.Errorf("ask for counts: %w", err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&counts); err != nil {
		return counts, fmt.Errorf("decode counts: %w", err)
	}
	return counts, nil
}

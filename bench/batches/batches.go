// Package batches measures what batches cost, beside their bytes: many producers spread small records round-robin over many
// partitions, so that nearly every record is a batch of its own. It counts the batches a second that are reached, the bytes
// of metadata log that each takes, and the CPU of the owner (the control plane's process), of etcd and of the agent.
package batches

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/cluster"
	"github.com/freshet-io/freshet/bench/process"
)

const (
	roleCommand = "batches-role"
	roleLoad    = "producers"
	topic       = "batches"
)

// Config of a run.
type Config struct {
	Producers   int           // each with a client of its own; default 64
	Partitions  int           // of the topic; default 288
	RecordBytes int           // default 1024
	Rate        int           // batches a second of all producers; 0: as many as they can
	WarmUp      time.Duration // default 5 s
	Duration    time.Duration // default 30 s
	Model       string        // of the object store; default s3-standard
	Out         io.Writer     // default: standard output
}

// ApplyDefaults fills what is zero.
func (c *Config) ApplyDefaults() {
	c.Producers = cmp.Or(c.Producers, 64)
	c.Partitions = cmp.Or(c.Partitions, 288)
	c.RecordBytes = cmp.Or(c.RecordBytes, 1024)
	c.WarmUp = cmp.Or(c.WarmUp, 5*time.Second)
	c.Duration = cmp.Or(c.Duration, 30*time.Second)
	c.Model = cmp.Or(c.Model, "s3-standard")
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

// Result is what was measured.
type Result struct {
	Batches       float64 // acknowledged a second
	RecordsABatch float64 // of those that the agent put into bundles
	LogBytes      float64 // of metadata log for each batch
	ABundle       float64 // batches
	// CPU seconds a second and 100,000 batches a second: cores, if as many were reached.
	Owner, Etcd, Agent float64
	Clients            float64 // cores that the producers used themselves
	OwnerMemory        int64   // resident bytes at the end
}

// Run measures and prints. The last lines are the figures by name.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg.ApplyDefaults()
	dir, err := os.MkdirTemp("", "freshet-bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Dir: dir, Model: cfg.Model, AgentMemory: "2GiB"})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	agent, err := c.StartAgent(ctx)
	if err != nil {
		return nil, err
	}
	if err := createTopic(ctx, agent.Kafka, cfg.Partitions); err != nil {
		return nil, err
	}
	r, err := measure(ctx, &cfg, c, agent)
	if err != nil {
		return nil, err
	}
	r.print(&cfg)
	return r, nil
}

func createTopic(ctx context.Context, address string, partitions int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, int32(partitions), -1, nil, topic); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	return nil
}

// sample is what processes have used and counted so far.
type sample struct {
	at                   time.Time
	owner, etcd, agent   float64 // CPU seconds
	log, batches, sealed float64 // bytes, batches, bundles
}

func take(ctx context.Context, c *cluster.Cluster, agent *cluster.Agent) (s sample, err error) {
	s.at = time.Now()
	var errs [5]error
	s.owner, errs[0] = c.Control().CPU()
	s.etcd, errs[1] = c.Etcd().CPU()
	s.agent, errs[2] = agent.CPU()
	control, err := process.ReadMetrics(ctx, http.DefaultClient, "http://"+c.ControlHTTP()+"/metrics")
	errs[3] = err
	own, err := process.ReadMetrics(ctx, http.DefaultClient, "http://"+agent.HTTP+"/metrics")
	errs[4] = err
	s.log = control.Sum("freshet_metalog_appended_bytes_total")
	s.batches, s.sealed = own.Sum("freshet_writer_bundle_batches"), own.Sum("freshet_writer_seals_total")
	return s, errors.Join(errs[:]...)
}

// measure runs the producers and takes a sample when they say that they are warm, and when they are done.
func measure(ctx context.Context, cfg *Config, c *cluster.Cluster, agent *cluster.Agent) (*Result, error) {
	clients, line, err := process.StartRole(ctx, roleCommand, roleLoad, load{
		Address: agent.Kafka, Producers: cfg.Producers, Partitions: cfg.Partitions, RecordBytes: cfg.RecordBytes, Rate: cfg.Rate,
		WarmUp: cfg.WarmUp, Duration: cfg.Duration,
	})
	if err != nil {
		return nil, err
	}
	defer clients.Stop()
	if line != "warm" {
		return nil, fmt.Errorf("producers: %q", line)
	}
	before, err := take(ctx, c, agent)
	if err != nil {
		return nil, err
	}
	if line, err = clients.Line(); err != nil {
		return nil, fmt.Errorf("result of producers: %w", err)
	}
	after, err := take(ctx, c, agent)
	if err != nil {
		return nil, err
	}
	var counted loadResult
	if err := json.Unmarshal([]byte(line), &counted); err != nil {
		return nil, fmt.Errorf("decode result of producers: %w", err)
	}
	r, err := compare(before, after, counted)
	if err != nil {
		return nil, err
	}
	r.OwnerMemory, err = c.Control().Memory()
	return r, err
}

func compare(before, after sample, counted loadResult) (*Result, error) {
	seconds := after.at.Sub(before.at).Seconds()
	batches := after.batches - before.batches
	if counted.Records == 0 || batches == 0 {
		return nil, errors.New("nothing was acknowledged in the time measured")
	}
	perHundredThousand := 100_000 / batches // CPU seconds for so many batches
	return &Result{
		Batches: batches / seconds, RecordsABatch: float64(counted.Records) / counted.Seconds * seconds / batches,
		LogBytes: (after.log - before.log) / batches, ABundle: batches / (after.sealed - before.sealed),
		Owner: (after.owner - before.owner) * perHundredThousand, Etcd: (after.etcd - before.etcd) * perHundredThousand,
		Agent: (after.agent - before.agent) * perHundredThousand, Clients: counted.CPUSeconds / counted.Seconds,
	}, nil
}

func (r *Result) print(cfg *Config) {
	fmt.Fprintf(cfg.Out, "%d producers x %d partitions, records of %d bytes, %.2f records a batch, %.0f batches a bundle\n",
		cfg.Producers, cfg.Partitions, cfg.RecordBytes, r.RecordsABatch, r.ABundle)
	fmt.Fprintf(cfg.Out, "CPU for 100,000 batches: owner %.2f s, etcd %.2f s, agent %.2f s; producers used %.2f cores; owner %d MiB resident\n",
		r.Owner, r.Etcd, r.Agent, r.Clients, r.OwnerMemory>>20)
	fmt.Fprintf(cfg.Out, "batches_per_second %.0f\nlog_bytes_per_batch %.1f\nowner_cores_per_100000_batches_per_second %.2f\n",
		r.Batches, r.LogBytes, r.Owner)
}

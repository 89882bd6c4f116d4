package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/internal/access"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/dev"
	"github.com/freshet-io/freshet/internal/logging"
	"github.com/freshet-io/freshet/internal/program"
	"github.com/freshet-io/freshet/objstore/open"
)

const (
	// devMemory is the largest default of --memory-limit. It suits one process on a developer's machine.
	devMemory = 1 << 30
	// leastDevMemory is the least --memory-limit. Three quarters of it are more than an agent's least.
	leastDevMemory = 192 << 20
)

func newDev(p program.Program) *cobra.Command {
	s := agentSettings{log: logging.Config{Level: "warn"}}
	s.Listen, s.HTTPListen = []string{"127.0.0.1:9092"}, "127.0.0.1:8080"
	s.AutoCreateTopics = true
	s.ApplyDefaults()
	d := dev.Config{DataDir: access.DefaultDir, DefaultPartitions: 1}
	d.Lifecycle.ApplyDefaults()
	d.Jobs.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process, with its data in a directory",
		Long: "Run everything in one process: embedded etcd, control plane and agent, with all data in one directory.\n" +
			"What was acknowledged is found again after a restart, and after kill -9.",
		Example: "  freshet dev --data-dir /var/lib/freshet --kafka-listen :9092 --advertise my-host",
		Args:    program.Takes(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.runDev(cmd, p, d) },
	}
	f := cmd.Flags()
	f.StringVar(&d.DataDir, "data-dir", d.DataDir, "directory for everything; created if absent")
	f.StringVar(&d.BucketURL, "bucket", d.BucketURL, bucketHelp+"; if not given, a directory under --data-dir")
	f.BoolVar(&s.OneZoneDurability, "one-zone-durability", s.OneZoneDurability, oneZoneHelp)
	f.StringVar(&s.Zone, "zone", s.Zone, "availability zone that clients are shown")
	f.Int32Var(&d.DefaultPartitions, "default-partitions", d.DefaultPartitions, defaultPartitionsHelp)
	bindKafka(f, &s)
	bindWriting(f, &s.Config)
	bindLoad(f, &s.Config)
	bindLifecycle(f, &d.Lifecycle)
	bindJobs(f, &d.Jobs)
	bindLimits(f, &d.StateLimits)
	d.Broker.Bind(f)
	program.BindLog(f, &s.log)
	groupServer(f)
	return cmd
}

func (s *agentSettings) runDev(cmd *cobra.Command, p program.Program, d dev.Config) error {
	log, err := logging.New(s.log, p.Streams.Err)
	if err != nil {
		return err
	}
	if err := s.complete(log, p.Version); err != nil {
		return &cli.UsageError{Message: err.Error()}
	}
	limit := memoryLimit(s.MemoryLimit, devMemory)
	if limit < leastDevMemory {
		return &cli.UsageError{Message: fmt.Sprintf("--memory-limit: memory limit of %d bytes is below the least, %d", limit, leastDevMemory)}
	}
	debug.SetMemoryLimit(controlplane.RuntimeMemory(limit))
	d.ControlPlaneMemory = limit / 4
	s.MemoryLimit, s.OpenFiles = limit-d.ControlPlaneMemory, openFiles()
	s.Registry = newRegistry()
	d.Agent = s.Config
	if err := errors.Join(s.ValidateWriting(), d.Validate()); err != nil {
		return &cli.UsageError{Message: err.Error()}
	}
	d.Log, d.Out, d.Program = log, p.Streams.Out, os.Args[0]
	bucket := ""
	if d.BucketURL != "" {
		bucket = "--bucket " + open.Redact(d.BucketURL)
	}
	if err := dev.Run(cmd.Context(), d); err != nil {
		return nameStored(fmt.Errorf("dev: %w", err), "--data-dir "+d.DataDir, bucket)
	}
	return nil
}

// newRegistry takes a process's metrics, those of the Go runtime among them.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

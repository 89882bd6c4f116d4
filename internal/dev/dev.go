// Package dev runs all of Freshet in one process, as `freshet dev` does: an embedded etcd member, one control-plane
// replica and one agent, all of their data under one directory. It is for trying Freshet out, for developing against
// it, and for small set-ups on one machine; what was acknowledged survives a kill at any moment.
//
//	<data dir>/lock      held while the process runs
//	<data dir>/etcd/     the embedded member
//	<data dir>/objects/  the bucket, unless another one is given
//	<data dir>/operator.json  addresses and key for commands of the same user (package access)
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/internal/access"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/service"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/open"
)

// Names of what there is one of.
const (
	virtualCluster = "dev"
	replica        = "dev"
)

// Config of the process. Agent holds what a user may set; its control plane, key, bucket and version of the
// virtual cluster are filled in here.
type Config struct {
	// DataDir holds everything; created if absent. Only one process can use it.
	DataDir string
	// BucketURL is where objects are; default: a directory under DataDir.
	BucketURL string
	// Bucket is the control plane's, instead of opening BucketURL, if it is set; Run closes it. An agent with a Bucket of its
	// own needs this one, with the same objects.
	Bucket objstore.Bucket
	Agent  agent.Config
	// ControlPlaneMemory is the control plane's part of the process's memory, in bytes; 0 takes the runtime's limit. Agent.MemoryLimit
	// is the agent's part.
	ControlPlaneMemory int64
	// DefaultPartitions is the partition count of topics created without one; 0 takes the control plane's default.
	DefaultPartitions int32
	// Broker is what groups and transactions are coordinated with.
	Broker brokerconfig.Settings
	// Lifecycle is when retention and garbage are looked at; zero fields take the defaults.
	Lifecycle lifecycle.Settings
	// Jobs is when background jobs are planned; zero fields take the defaults.
	Jobs job.Settings
	// StateLimits are the limits of the virtual cluster; zero fields follow from ControlPlaneMemory.
	StateLimits metadata.Limits
	// Out gets the lines for people: where it listens and how to try it with Program, this program as it was called.
	Out     io.Writer
	Program string
	Log     *zap.Logger
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	errs := []error{c.Broker.Validate(), c.Lifecycle.Validate(), c.Jobs.Validate()}
	if c.DataDir == "" {
		errs = append(errs, errors.New("no data directory (--data-dir)"))
	}
	return errors.Join(append(errs, c.validateAgent())...)
}

// validateAgent returns the faults of the agent's settings, so that Run creates no files if there are any.
func (c *Config) validateAgent() error {
	a := c.Agent
	a.VirtualCluster, a.AgentKey, a.ControlPlane, a.BucketURL = virtualCluster, "key", []string{"127.0.0.1:1"}, "mem://" // placeholders, Run sets these
	a.ApplyDefaults()
	return a.Validate()
}

// Run runs everything until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	cfg.Lifecycle.ApplyDefaults()
	cfg.Jobs.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := prepare(&cfg); err != nil {
		return err
	}
	unlock, err := lock(cfg.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	bucket := cfg.Bucket
	if bucket == nil {
		bucket, err = open.Bucket(ctx, cfg.BucketURL, open.AllowOneZone(cfg.Agent.OneZoneDurability), open.Log(cfg.Log.Named("store")))
		if err != nil {
			return err
		}
	}
	defer bucket.Close()
	etcd, err := etcdserver.Start(ctx, etcdserver.Config{Dir: filepath.Join(cfg.DataDir, "etcd")}, cfg.Log)
	if err != nil {
		return err
	}
	made, err := newKeys(ctx, etcd)
	if err != nil {
		etcd.Close()
		return err
	}
	control, err := startControlPlane(ctx, cfg, etcd, bucket, made)
	if err != nil {
		etcd.Close()
		return err
	}
	a, err := agent.New(ctx, agentConfig(cfg, control, made.agent))
	if err != nil {
		control.plane.Close()
		etcd.Close()
		return err
	}
	found := access.Access{Kafka: a.Addresses()[0].HostPort(), URL: "http://" + control.plane.HTTPAddr().String(), VirtualCluster: virtualCluster, Key: made.operator}
	if err := found.Write(cfg.DataDir); err != nil {
		a.Close()
		control.plane.Close()
		etcd.Close()
		return err
	}
	// Stopped from last to first.
	err = service.Run(ctx, cfg.Log,
		service.Service{Name: "etcd", Run: etcd.Run},
		service.Service{Name: "control plane", Run: control.plane.Run},
		service.Service{Name: "agent", Run: func(ctx context.Context) error {
			awaitOwner(ctx, control.plane)
			return a.Run(ctx)
		}},
		service.Service{Name: "greeting", Run: func(running context.Context) error {
			if a.Await(running) == nil {
				introduce(cfg, a)
			}
			<-running.Done()
			if ctx.Err() != nil { // Ctrl-C; else a part has failed
				fmt.Fprintln(cfg.Out, "stopping ...")
			}
			return nil
		}},
	)
	if err == nil {
		fmt.Fprintln(cfg.Out, "done")
	}
	return err
}

// keysOfProcess live as long as the process.
type keysOfProcess struct{ agent, operator string }

func newKeys(ctx context.Context, etcd *etcdserver.Server) (k keysOfProcess, err error) {
	clusterID, err := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}.Resolve(ctx, virtualCluster)
	if err != nil {
		return k, err
	}
	if k.agent, err = accesskey.New(accesskey.AgentPrefix, clusterID); err != nil {
		return k, err
	}
	k.operator, err = accesskey.New(accesskey.OperatorPrefix, "")
	return k, err
}

// prepare makes the data directory and fills in what depends on it.
func prepare(cfg *Config) error {
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	cfg.DataDir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--data-dir %s cannot be created: %w: set --data-dir to a directory that this user may write to", dir, err)
	}
	if cfg.BucketURL == "" {
		objects := filepath.Join(dir, "objects")
		if err := os.MkdirAll(objects, 0o700); err != nil {
			return fmt.Errorf("--data-dir %s cannot be written to: %w: set --data-dir to a directory that this user may write to", dir, err)
		}
		cfg.BucketURL = (&url.URL{Scheme: "file", Path: objects}).String()
	}
	return nil
}

// controlPlane is the replica.
type controlPlane struct {
	plane *controlplane.ControlPlane
}

func startControlPlane(
	ctx context.Context, cfg Config, etcd *etcdserver.Server, bucket objstore.Bucket, made keysOfProcess,
) (*controlPlane, error) {
	c := &controlPlane{}
	var err error
	c.plane, err = controlplane.New(controlplane.Config{
		ReplicaID: replica, Version: cfg.Agent.Version, GRPCListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0", Etcd: etcd.Client(),
		Bucket: bucket, BucketLocation: open.Redact(cfg.BucketURL),
		VirtualClusters: []controlplane.VirtualCluster{{Name: virtualCluster, AgentKeys: []string{made.agent}, DefaultPartitions: cfg.DefaultPartitions, Broker: cfg.Broker}},
		OperatorKeys:    []string{made.operator},
		Lifecycle:       cfg.Lifecycle,
		Jobs:            cfg.Jobs,
		MemoryLimit:     cfg.ControlPlaneMemory,
		StateLimits:     cfg.StateLimits,

		// The lock on the data directory proves that the process before this one is gone.
		TakeOver: true,
		Log:      cfg.Log.Named("controlplane"),
	})
	if err != nil {
		return nil, err
	}
	if err := c.plane.Listen(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func agentConfig(cfg Config, control *controlPlane, key string) agent.Config {
	a := cfg.Agent
	a.AgentKey = key
	a.ControlPlane = []string{control.plane.Addr().String()}
	a.BucketURL = cfg.BucketURL
	a.Log = cfg.Log.Named("agent")
	if a.Registry == nil {
		a.Registry = prometheus.NewRegistry()
	}
	a.Gatherer = prometheus.Gatherers{a.Registry, control.plane.Gatherer()}
	return a
}

// ownerLimit bounds the wait for the control plane at start; an agent waits for it by itself after that.
const ownerLimit = 5 * time.Second

// awaitOwner waits for the control plane, so that the agent's first try finds it and a start has nothing to warn of.
func awaitOwner(ctx context.Context, plane *controlplane.ControlPlane) {
	ctx, cancel := context.WithTimeout(ctx, ownerLimit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for plane.Ready() != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// introduce prints the addresses of the agent, its PUT budget and the data directory.
func introduce(cfg Config, a *agent.Agent) {
	bootstrap := a.Addresses()[0].HostPort()
	puts, why := a.PutBudget()
	fmt.Fprintf(cfg.Out, `freshet is ready, bootstrap address %s
try it:  seq 10 | %[2]s produce numbers -b %[1]s
         %[2]s consume numbers --from earliest -e -b %[1]s
         kcat -b %[1]s -L
http:    http://%[5]s/readyz and /metrics
data:    %[6]s
writes:  at most %[3]v PUTs a second, each with the waiting records of all topics; full bundles are extra (--put-budget; %[4]s)
`, bootstrap, cfg.Program, puts, why, a.HTTPAddress(), cfg.DataDir)
}

// Package etcdserver runs an etcd member inside this process, for `freshet dev`: one member with its data in a directory, and no port. It is
// tuned for Freshet's log: values up to 256 KiB at up to 100 a second, of which at most the log budget (512 MiB) is ever live.
//
// The package starts etcd's server itself: etcd's package embed would add its HTTP gateway, tracing and log rotation, 45 packages.
package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/config"
	server "go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// walSegmentBytes is the size of etcd's log files, of which it preallocates two. Its default of 64 MB makes an empty data
// directory 128 MB. At the highest rate, 25 MiB/s, a file is full three times a second.
const walSegmentBytes = 8 << 20

func init() { //nolint:gochecknoinits // a variable of the process, which must not change while a member runs
	wal.SegmentSizeBytes = walSegmentBytes
}

// Config of an embedded member.
type Config struct {
	// Dir holds the member's data; created if absent. Only one process may use it at a time: etcd waits for its
	// own file lock without end, so callers hold a lock of theirs around it.
	Dir string

	// QuotaBytes is the backend size at which etcd refuses writes (NOSPACE). Default 2 GiB: four times the log
	// budget, for trimmed entries that are not compacted yet, and for fragmentation.
	QuotaBytes int64

	// SnapshotCount entries are kept in memory between etcd's own snapshots, and CatchUpEntries beyond one. Default
	// 500 and 100. etcd's defaults (10000, 5000) are made for small values; at 256 KiB they would hold gigabytes.
	SnapshotCount  uint64
	CatchUpEntries uint64

	// StartTimeout bounds how long Start waits for the member to serve. Default 60 s: replaying a long log from a
	// slow disk takes a while.
	StartTimeout time.Duration
}

// ApplyDefaults sets the defaults of zero fields.
func (c *Config) ApplyDefaults() {
	if c.QuotaBytes == 0 {
		c.QuotaBytes = 2 << 30
	}
	if c.SnapshotCount == 0 {
		c.SnapshotCount = 500
	}
	if c.CatchUpEntries == 0 {
		c.CatchUpEntries = 100
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 60 * time.Second
	}
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	if c.Dir == "" {
		return errors.New("embedded etcd: no data directory")
	}
	return nil
}

// Server is a running member.
type Server struct {
	member *server.EtcdServer
	client *clientv3.Client
}

// Start starts the member and returns when it serves reads and writes. It survives a kill at any moment: etcd syncs
// its log before it answers. Its log messages are written at warn and above.
func Start(ctx context.Context, cfg Config, log *zap.Logger) (*Server, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create etcd directory: %w", err)
	}
	member, err := startMember(serverConfig(cfg, quiet(log)))
	if err != nil {
		return nil, fmt.Errorf("start embedded etcd in %s: %w", cfg.Dir, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout, errors.New("embedded etcd did not get ready in time"))
	defer cancel()
	select {
	case <-member.ReadyNotify():
	case <-member.StopNotify():
		return nil, fmt.Errorf("start embedded etcd in %s: the member ended", cfg.Dir)
	case <-ctx.Done():
		member.Stop()
		return nil, context.Cause(ctx)
	}
	client := v3client.New(member)
	client.Maintenance = maintenance{client.Maintenance, member}
	return &Server{member: member, client: client}, nil
}

// startMember starts a member. etcd panics when the disk is full, which startMember returns as an error.
func startMember(cfg config.ServerConfig) (_ *server.EtcdServer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	member, err := server.NewServer(cfg)
	if err != nil {
		return nil, err
	}
	member.Start()
	return member, nil
}

// maintenance defragments without etcd's gRPC service around it: v3client builds that without the health server that
// it reports to, so that it would panic.
type maintenance struct {
	clientv3.Maintenance
	server *server.EtcdServer
}

// Defragment rewrites the backend without its free pages; the endpoint is always this member.
func (m maintenance) Defragment(context.Context, string) (*clientv3.DefragmentResponse, error) {
	if err := m.server.Defragment(); err != nil {
		return nil, fmt.Errorf("defragment: %w", err)
	}
	return &clientv3.DefragmentResponse{}, nil
}

// Client talks to the member by function calls. It is closed by Close.
func (s *Server) Client() *clientv3.Client { return s.client }

// Serve serves other processes on a listener, without authentication, until the listener is closed. Benchmarks run etcd as a process of its
// own.
func (s *Server) Serve(l net.Listener) error {
	if err := v3rpc.Server(s.member, nil, nil).Serve(l); err != nil {
		return fmt.Errorf("serve etcd: %w", err)
	}
	return nil
}

// Run waits until ctx ends or the member fails, then closes it.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-s.member.StopNotify():
		return errors.New("embedded etcd ended")
	}
}

// Close stops the member.
func (s *Server) Close() {
	// The client holds no connection; its close only ends its watches and lease renewals, and cannot fail otherwise.
	_ = s.client.Close()
	s.member.Stop()
}

// serverConfig has the defaults of etcd's package embed, except as noted.
func serverConfig(cfg Config, log *zap.Logger) config.ServerConfig {
	const name = "dev"
	// No other member is in the cluster, and no client calls from outside. The addresses only fill the membership record.
	nowhere := types.URLs{url.URL{Scheme: "http", Host: "127.0.0.1:0"}}
	return config.ServerConfig{
		Name: name, ClientURLs: nowhere, PeerURLs: nowhere, DataDir: filepath.Clean(cfg.Dir), NewCluster: true,
		InitialPeerURLsMap: types.URLsMap{name: nowhere}, InitialClusterToken: "etcd-cluster", MaxLearners: membership.DefaultMaxLearners,
		MaxSnapFiles: 5, MaxWALFiles: 5, SnapshotCount: cfg.SnapshotCount, SnapshotCatchUpEntries: cfg.CatchUpEntries,
		// One member elects itself: a short time-out makes that quick. It also bounds the shortest lease (1.5 times, rounded up
		// to a second), far below the 5 s that are used. Each tick wakes the process, so there are as few as etcd allows: five
		// to a time-out.
		TickMs: 40, ElectionTicks: 5, InitialElectionTickAdvance: true, PreVote: true, StrictReconfigCheck: true,
		QuotaBackendBytes: cfg.QuotaBytes, BackendFreelistType: bbolt.FreelistMapType,
		MaxTxnOps: 128, MaxRequestBytes: 3 << 19, MaxConcurrentStreams: math.MaxUint32,
		AuthToken: "simple", BcryptCost: 10, TokenTTL: 300,
		// The owner compacts the log, so there is no automatic compaction.
		AutoCompactionMode: "periodic", CompactHashCheckTime: time.Minute, DowngradeCheckTime: 5 * time.Second,
		WarningApplyDuration: 100 * time.Millisecond, WarningUnaryRequestDuration: 300 * time.Millisecond,
		V2Deprecation: config.V2DeprDefault, ServerFeatureGate: features.NewDefaultServerFeatureGate(name, log), Metrics: "basic", Logger: log,
	}
}

// Package etcdserver runs an etcd member inside this process, for `freshet dev`: one member, its data in a directory,
// no port open unless one is asked for. It is tuned for what Freshet writes: values up to 256 KiB at up to 100 a second, of which at most the
// log budget (512 MiB) is ever live.
package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	server "go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
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
	// budget, for what was trimmed but not yet compacted, and for fragmentation.
	QuotaBytes int64

	// SnapshotCount entries are kept in memory between etcd's own snapshots, and CatchUpEntries beyond one. Default
	// 500 and 100. etcd's defaults (10000, 5000) are made for small values; at 256 KiB they would hold gigabytes.
	SnapshotCount  uint64
	CatchUpEntries uint64

	// ClientListen is the host:port at which others may use the member, without authentication: for benchmarks, where it
	// is a process of its own. Default: nowhere.
	ClientListen string

	// StartTimeout bounds how long Start waits for the member to serve. Default 60 s: replaying a long log from a
	// slow disk takes a while.
	StartTimeout time.Duration
}

// ApplyDefaults fills in what is not set.
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
	etcd   *embed.Etcd
	client *clientv3.Client
	failed <-chan error
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
	etcd, err := startMember(embedConfig(cfg, quiet(log)))
	if err != nil {
		return nil, fmt.Errorf("start embedded etcd in %s: %w", cfg.Dir, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout, errors.New("embedded etcd did not get ready in time"))
	defer cancel()
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		etcd.Close()
		return nil, fmt.Errorf("start embedded etcd in %s: %w", cfg.Dir, err)
	case <-ctx.Done():
		etcd.Close()
		return nil, context.Cause(ctx)
	}
	client := v3client.New(etcd.Server)
	client.Maintenance = maintenance{client.Maintenance, etcd.Server}
	return &Server{etcd: etcd, client: client, failed: etcd.Err()}, nil
}

// startMember is embed.StartEtcd, which panics when the disk is full, as an error.
func startMember(cfg *embed.Config) (_ *embed.Etcd, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return embed.StartEtcd(cfg)
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

// Addr is where others reach the member, nil if nowhere.
func (s *Server) Addr() net.Addr {
	if len(s.etcd.Clients) == 0 {
		return nil
	}
	return s.etcd.Clients[0].Addr()
}

// Client talks to the member by function calls. It is closed by Close.
func (s *Server) Client() *clientv3.Client { return s.client }

// Run waits until ctx ends or the member fails, then closes it.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return fmt.Errorf("embedded etcd: %w", err)
	}
}

// Close stops the member.
func (s *Server) Close() {
	// The client holds no connection; its close only ends its watches and lease renewals, and cannot fail otherwise.
	_ = s.client.Close()
	s.etcd.Close()
}

func embedConfig(cfg Config, log *zap.Logger) *embed.Config {
	e := embed.NewConfig()
	e.Name = "dev"
	e.Dir = filepath.Clean(cfg.Dir)
	e.QuotaBackendBytes = cfg.QuotaBytes
	e.SnapshotCount = cfg.SnapshotCount
	e.SnapshotCatchUpEntries = cfg.CatchUpEntries
	// The owner decides when the log is compacted; etcd must not compact by itself.
	e.AutoCompactionRetention = "0"
	// One member elects itself: a short time-out makes that quick. It also bounds the shortest lease (1.5 times, rounded up
	// to a second), far below the 5 s that are used. Each tick wakes the process, so there are as few as etcd allows: five
	// to a time-out.
	e.TickMs, e.ElectionMs = 40, 200
	// Nobody else is in the cluster or, by default, calls from outside: no listener at all. The addresses advertised
	// only fill the membership record.
	nowhere := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	e.ListenPeerUrls, e.ListenClientUrls = nil, nil
	if cfg.ClientListen != "" {
		e.ListenClientUrls = []url.URL{{Scheme: "http", Host: cfg.ClientListen}}
	}
	e.AdvertisePeerUrls, e.AdvertiseClientUrls = []url.URL{nowhere}, []url.URL{nowhere}
	e.InitialCluster = e.InitialClusterFromName(e.Name)
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return e
}

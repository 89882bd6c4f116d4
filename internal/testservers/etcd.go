package testservers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// EtcdConfig describes an etcd cluster. The zero value is one member without TLS.
type EtcdConfig struct {
	Members int      // 1 or 3; 0 means 1
	TLS     bool     // for clients and peers, with client certificates required
	Fsync   bool     // off by default: a killed process loses nothing without it, and tests run faster
	Args    []string // further flags of every member
	Place   Place    // of every member
}

// Etcd is a running etcd cluster.
type Etcd struct {
	Members []*EtcdMember
	Files   *TLSFiles // nil without TLS
	place   Place
}

// EtcdMember is one member: a Process that can be killed, paused and restarted by itself.
type EtcdMember struct {
	*Process
	Name     string
	Endpoint string // host:port for clients
	URL      string // Endpoint with scheme
	DataDir  string
	peerURL  string
}

// StartEtcd starts a cluster with empty data and waits until every member is healthy.
func StartEtcd(tb testing.TB, config EtcdConfig) *Etcd {
	tb.Helper()
	program := Binary(tb, "etcd")
	var files *TLSFiles
	if config.TLS {
		files = NewTLSFiles(tb)
	}
	var err error
	for range portAttempts {
		e := &Etcd{Files: files, place: config.Place}
		e.plan(tb, program, config)
		if err = e.start(); err == nil {
			return e
		}
		for _, m := range e.Members {
			m.Kill()
		}
	}
	tb.Fatal(err)
	return nil
}

// plan gives every member its ports and flags.
func (e *Etcd) plan(tb testing.TB, program string, config EtcdConfig) {
	tb.Helper()
	scheme, client := "http", e.place.HTTP(healthTimeout)
	if e.Files != nil {
		scheme = "https"
		client.Transport.(*http.Transport).TLSClientConfig = e.Files.Config
	}
	var cluster []string
	for i := range max(config.Members, 1) {
		m := &EtcdMember{Name: fmt.Sprintf("etcd-%d", i), Endpoint: e.place.FreeAddress(tb), DataDir: tb.TempDir()}
		m.URL = scheme + "://" + m.Endpoint
		m.peerURL = scheme + "://" + e.place.FreeAddress(tb)
		cluster = append(cluster, m.Name+"="+m.peerURL)
		e.Members = append(e.Members, m)
	}
	for _, m := range e.Members {
		args := []string{
			"--name", m.Name, "--data-dir", m.DataDir, "--log-level", "warn",
			"--listen-client-urls", m.URL, "--advertise-client-urls", m.URL,
			"--listen-peer-urls", m.peerURL, "--initial-advertise-peer-urls", m.peerURL,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-token", cluster[0],
		}
		if !config.Fsync {
			args = append(args, "--unsafe-no-fsync")
		}
		if e.Files != nil {
			args = append(args, e.Files.etcdArgs()...)
		}
		args = append(args, config.Args...)
		m.Process = newProcess(tb, e.place, m.Name, program, args, healthCheck(client, m.URL+"/health"))
	}
}

func (e *Etcd) start() error {
	for _, m := range e.Members {
		if err := m.start(); err != nil {
			return err
		}
	}
	for _, m := range e.Members {
		if err := m.awaitReady(); err != nil {
			return err
		}
	}
	return nil
}

// Endpoints are the members' client addresses, host:port.
func (e *Etcd) Endpoints() []string {
	endpoints := make([]string, len(e.Members))
	for i, m := range e.Members {
		endpoints[i] = m.Endpoint
	}
	return endpoints
}

// Client gives a client of all members, closed with the test.
func (e *Etcd) Client(tb testing.TB) *clientv3.Client {
	tb.Helper()
	config := clientv3.Config{DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if e.place.Namespace != "" {
		config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return e.place.Dial(ctx, "tcp", address)
		}))
	}
	for _, m := range e.Members {
		config.Endpoints = append(config.Endpoints, m.URL)
	}
	if e.Files != nil {
		config.TLS = e.Files.Config
	}
	client, err := clientv3.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	return client
}

// Leader gives the member that leads the raft group, as the members that run tell it.
func (e *Etcd) Leader(tb testing.TB) *EtcdMember {
	tb.Helper()
	client := e.Client(tb)
	for deadline := time.Now().Add(Ready); time.Now().Before(deadline); {
		for _, m := range e.Members {
			if m.PID() == 0 {
				continue
			}
			ctx, cancel := context.WithTimeout(tb.Context(), time.Second)
			status, err := client.Status(ctx, m.URL)
			cancel()
			if err == nil && status.Leader != 0 && status.Leader == status.Header.MemberId {
				return m
			}
		}
	}
	tb.Fatal("no etcd member leads")
	return nil
}

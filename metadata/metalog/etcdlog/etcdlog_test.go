package etcdlog_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/metadata/metalog/metalogtest"
)

// startEtcd starts a member on a free loopback port and returns a client of it over gRPC. It skips the test under -short.
func startEtcd(t *testing.T, adjust func(*embed.Config)) *clientv3.Client {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd")
	}
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.LogLevel = "fatal"
	cfg.LogOutputs = []string{os.DevNull}
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true
	anyPort := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenPeerUrls, cfg.ListenClientUrls = []url.URL{anyPort}, []url.URL{anyPort}
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{anyPort}, []url.URL{anyPort}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if adjust != nil {
		adjust(cfg)
	}
	etcd, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(2 * time.Minute):
		t.Fatal("etcd did not start")
	}
	client, err := etcdlog.NewClient(etcdlog.ClientConfig{Endpoints: []string{etcd.Clients[0].Addr().String()}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// openLog opens a log under a lease of its own, unless cfg has one.
func openLog(t *testing.T, client *clientv3.Client, cluster string, cfg metalog.Config) metalog.Log {
	t.Helper()
	if cfg.Lease == nil {
		cfg.Lease = runLease(t, client, cfg)
	}
	l, err := etcdlog.Open(etcdlog.Config{Client: client, ClusterID: cluster, Log: cfg})
	require.NoError(t, err)
	return l
}

// runLease runs a lease until the test ends.
func runLease(t *testing.T, client *clientv3.Client, cfg metalog.Config) *metalog.Lease {
	t.Helper()
	lease, err := etcdlog.NewLease(client, "", cfg)
	require.NoError(t, err)
	t.Cleanup(memlog.Start(lease))
	return lease
}

func TestStore_Contract(t *testing.T) {
	client := startEtcd(t, nil)
	var clusters atomic.Int64
	metalogtest.Run(t, func(*testing.T) metalogtest.Store {
		n := clusters.Add(1)
		return metalogtest.Store{Leases: etcdlog.Leases(client), Open: func(t *testing.T, cluster string, cfg metalog.Config) metalog.Log {
			t.Helper()
			return openLog(t, client, fmt.Sprintf("vc-%s-%d", cluster, n), cfg)
		}}
	})
}

func TestStore_KeysAreWhatOperatorsFind(t *testing.T) {
	client := startEtcd(t, nil)
	l := openLog(t, client, "main", metalog.Config{})
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r1", Address: "r1:7050"})
	require.NoError(t, err)
	_, err = tenure.Append(t.Context(), 1, []byte("payload"))
	require.NoError(t, err)
	require.NoError(t, tenure.SetSnapshots(t.Context(), []metalog.SnapshotRef{{Index: 1, Name: "s"}}))

	resp, err := client.Get(t.Context(), "/freshet/v1/", clientv3.WithPrefix())
	require.NoError(t, err)
	values := map[string]string{}
	for _, kv := range resp.Kvs {
		values[string(kv.Key)] = string(kv.Value)
	}
	require.Len(t, values, 4)
	require.Contains(t, values["/freshet/v1/+owners/main"], `"replica":"r1","address":"r1:7050"`)
	require.Equal(t, "0000000000000001.0000000000000007", values["/freshet/v1/main/tail"])
	require.Contains(t, values["/freshet/v1/main/log/0000000000000001"], "payload")
	require.JSONEq(t, `[{"index":1,"name":"s","bytes":0,"crc":0,"total":0,"at_ms":0}]`, values["/freshet/v1/main/snapshots"])
	require.NoError(t, tenure.Resign(t.Context()))
}

func TestStore_TenureEndsWhenTheKeyIsRemoved(t *testing.T) {
	client := startEtcd(t, nil)
	l := openLog(t, client, "main", metalog.Config{Timing: metalog.Timing{Renew: 20 * time.Millisecond}})
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
	require.NoError(t, err)
	_, err = client.Delete(t.Context(), "/freshet/v1/+owners/main")
	require.NoError(t, err)
	<-tenure.Lost()
	require.False(t, tenure.Valid())
	require.NoError(t, tenure.Resign(t.Context()))
}

func TestStore_SeesCorruptEntries(t *testing.T) {
	client := startEtcd(t, nil)
	l := openLog(t, client, "main", metalog.Config{})
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
	require.NoError(t, err)
	_, err = tenure.Append(t.Context(), 1, []byte("payload"))
	require.NoError(t, err)
	_, err = client.Put(t.Context(), "/freshet/v1/main/log/0000000000000001", "something else")
	require.NoError(t, err)
	_, _, err = l.Read(t.Context(), 1, 1<<20)
	require.ErrorIs(t, err, metalog.ErrCorrupt)
	require.NoError(t, tenure.Resign(t.Context()))
}

// The error of a value that was written by hand names its key.
func TestStore_NamesTheKeyOfAMalformedValue(t *testing.T) {
	client := startEtcd(t, nil)
	for key, read := range map[string]func(l metalog.Log) error{
		"tail":                 func(l metalog.Log) error { _, err := l.Status(t.Context()); return err },
		"snapshots":            func(l metalog.Log) error { _, err := l.Snapshots(t.Context()); return err },
		"log/0000000000000001": func(l metalog.Log) error { _, _, err := l.Read(t.Context(), 1, 1); return err },
		"log/no-index":         func(l metalog.Log) error { _, _, err := l.Read(t.Context(), 1, 1); return err },
	} {
		cluster := "of-" + strings.ReplaceAll(key, "/", "-")
		full := "/freshet/v1/" + cluster + "/" + key
		_, err := client.Put(t.Context(), full, "?")
		require.NoError(t, err)
		err = read(openLog(t, client, cluster, metalog.Config{}))
		require.ErrorIs(t, err, metalog.ErrCorrupt)
		require.ErrorContains(t, err, full)
	}
}

// An ownership key that was put by hand keeps replicas from owning. When it is removed, they go on.
func TestStore_OwnershipKeyPutByHand(t *testing.T) {
	client := startEtcd(t, nil)
	const key = "/freshet/v1/+owners/main"
	l := openLog(t, client, "main", metalog.Config{Timing: metalog.Timing{Read: time.Second}})
	for _, value := range []string{"?", `{"replica":"r1","address":"elsewhere:7050","nonce":"1"}`} {
		_, err := client.Put(t.Context(), key, value)
		require.NoError(t, err)
		_, err = l.Status(t.Context())
		require.ErrorIs(t, err, metalog.ErrUnavailable)
		require.NotErrorIs(t, err, metalog.ErrCorrupt)
		require.ErrorContains(t, err, "etcdctl del "+key)
		_, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
		require.ErrorIs(t, err, metalog.ErrUnavailable)
		_, err = client.Delete(t.Context(), key)
		require.NoError(t, err)
		tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
		require.NoError(t, err)
		require.NoError(t, tenure.Resign(t.Context()))
	}
}

// An owner knows its snapshots without etcd, and sets pointers right that were overwritten.
func TestStore_PointersThatCannotBeReadAreReplaced(t *testing.T) {
	client := startEtcd(t, nil)
	l := openLog(t, client, "main", metalog.Config{})
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
	require.NoError(t, err)
	_, err = client.Put(t.Context(), "/freshet/v1/main/snapshots", "no list")
	require.NoError(t, err)
	refs := []metalog.SnapshotRef{{Index: 2, Name: "b"}, {Index: 1, Name: "a"}}
	require.NoError(t, tenure.SetSnapshots(t.Context(), refs))
	got, err := l.Snapshots(t.Context())
	require.NoError(t, err)
	require.Equal(t, refs, got)
	require.NoError(t, tenure.Resign(t.Context()))
}

func TestConfig_Validate(t *testing.T) {
	for _, name := range []string{"", "a/b", "a b", "ä"} {
		_, err := etcdlog.Open(etcdlog.Config{ClusterID: name, Prefix: "x/"})
		require.ErrorContains(t, err, "cluster id")
		require.ErrorContains(t, err, "no etcd client")
		require.ErrorContains(t, err, "slash")
	}
}

// An owner of a program of generation 2 has its key at another place. A replica waits for it, and the log says why.
func TestStore_WaitsForTheOwnerOfAnOlderProgram(t *testing.T) {
	client := startEtcd(t, nil)
	l := openLog(t, client, "main", metalog.Config{Timing: metalog.Timing{Read: time.Second}})
	granted, err := client.Grant(t.Context(), 60)
	require.NoError(t, err)
	_, err = client.Put(t.Context(), "/freshet/v1/main/owner", `{"replica":"r1","address":"old:7050","nonce":"1"}`, clientv3.WithLease(granted.ID))
	require.NoError(t, err)
	_, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "r2"})
	require.ErrorIs(t, err, metalog.ErrUnavailable)
	require.ErrorContains(t, err, `an older program that owns the virtual cluster: stop it; its key is /freshet/v1/main/owner with the value {"replica":"r1"`)
	_, err = client.Revoke(t.Context(), granted.ID)
	require.NoError(t, err)
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r2"})
	require.NoError(t, err)
	require.NoError(t, tenure.Resign(t.Context()))
}

// heldWatch is a stream of watches whose answers wait while held is open.
type heldWatch struct {
	grpc.ClientStream
	held *atomic.Pointer[chan struct{}]
}

func (s heldWatch) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if held := s.held.Load(); held != nil {
		<-*held
	}
	return err
}

// The watch of ownership keys is held back, then also reads of them, while the lease is renewed and the revision is read.
func TestLeases_WatchHeldBack(t *testing.T) {
	plain := startEtcd(t, nil)
	var held, reads atomic.Pointer[chan struct{}]
	client, err := clientv3.New(clientv3.Config{Endpoints: plain.Endpoints(), DialOptions: []grpc.DialOption{
		grpc.WithStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			if err != nil || !strings.Contains(method, "Watch") {
				return stream, err
			}
			return heldWatch{stream, &held}, nil
		}),
		grpc.WithUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			if r, ok := req.(*etcdserverpb.RangeRequest); ok && len(r.RangeEnd) > 0 && reads.Load() != nil {
				<-ctx.Done()
				return ctx.Err()
			}
			return invoker(ctx, method, req, reply, cc, opts...)
		}),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	l := openLog(t, client, "main", metalog.Config{})
	rival := openLog(t, plain, "main", metalog.Config{})
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
	require.NoError(t, err)

	release := make(chan struct{})
	held.Store(&release)
	evicted := time.Now()
	_, err = plain.Delete(t.Context(), "/freshet/v1/+owners/main")
	require.NoError(t, err)
	<-tenure.Lost()
	t.Logf("the old owner has read all keys and learned of its end after %v", time.Since(evicted))
	require.NoError(t, tenure.Resign(t.Context()))

	tenure, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
	require.NoError(t, err)
	evicted = time.Now()
	reads.Store(&release)
	_, err = plain.Delete(t.Context(), "/freshet/v1/+owners/main")
	require.NoError(t, err)
	rivals, err := rival.Acquire(t.Context(), metalog.Candidate{Replica: "r2"})
	require.NoError(t, err)
	_, err = tenure.Append(t.Context(), 1, []byte("stale"))
	require.ErrorIs(t, err, metalog.ErrFenced)
	require.True(t, rivals.Valid())
	require.False(t, l.Ownership().Owned && l.Ownership().Owner.Replica == "r2", "the watch is held back")
	for l.Ownership().Known {
		<-l.Ownership().Changed
	}
	require.False(t, tenure.Valid())
	t.Logf("the old owner's fence has fallen after %v, limit 3.5 s", time.Since(evicted))
	held.Store(nil)
	reads.Store(nil)
	close(release)
	require.Eventually(t, func() bool { return l.Ownership().Owner.Replica == "r2" }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, tenure.Resign(t.Context()))
	require.True(t, rivals.Valid())
	require.NoError(t, rivals.Resign(t.Context()))
}

// compacting compacts etcd's history before the second page of the first list.
type compacting struct {
	clientv3.KV
	t    *testing.T
	once sync.Once
	errs chan error
}

func (c *compacting) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if op := clientv3.OpGet(key, opts...); op.Rev() > 0 {
		c.once.Do(func() {
			newer, err := c.Put(ctx, "newer", "")
			if assert.NoError(c.t, err) {
				_, err = c.Compact(ctx, newer.Header.Revision)
				assert.NoError(c.t, err)
			}
			_, err = c.KV.Get(ctx, key, opts...)
			c.errs <- err
		})
	}
	return c.KV.Get(ctx, key, opts...)
}

// TestLeases_ListCompacted: a list of ownership keys whose revision is compacted between its pages is read again, and a watch from a compacted
// revision ends.
func TestLeases_ListCompacted(t *testing.T) {
	client := startEtcd(t, nil)
	const many, each = 5001, 100 // more than a page
	for from := 0; from < many; from += each {
		var puts []clientv3.Op
		for i := range each {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/freshet/v1/+owners/%05d", from+i), "?"))
		}
		_, err := client.Txn(t.Context()).Then(puts...).Commit()
		require.NoError(t, err)
	}
	kv := &compacting{KV: client.KV, t: t, errs: make(chan error, 1)}
	client.KV = kv
	l := openLog(t, client, "main", metalog.Config{})
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
	require.NoError(t, err)
	require.ErrorContains(t, <-kv.errs, "compacted")
	require.NoError(t, tenure.Resign(t.Context()))
	err = etcdlog.Leases(client).WatchOwners(t.Context(), 1, func(metalog.OwnerKeys) {})
	require.ErrorContains(t, err, "compacted")
}

// TestStore_ClaimNeedsTheKey: a log whose key was removed has no owner any more, and a claim leaves no key behind.
func TestStore_ClaimNeedsTheKey(t *testing.T) {
	client := startEtcd(t, nil)
	cfg := metalog.Config{Timing: metalog.Timing{Read: time.Second}}
	cfg.Lease = runLease(t, client, cfg)
	l, err := etcdlog.Open(etcdlog.Config{Client: client, ClusterID: "main", Needs: "/freshet/v1/+specs/main", Log: cfg})
	require.NoError(t, err)
	_, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
	require.ErrorIs(t, err, etcdlog.ErrRemoved)
	keys, err := client.Get(t.Context(), "/freshet/v1/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Empty(t, keys.Kvs)
	_, err = client.Put(t.Context(), "/freshet/v1/+specs/main", "{}")
	require.NoError(t, err)
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
	require.NoError(t, err)
	_, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "r2"})
	require.ErrorIs(t, err, metalog.ErrHeld)
	require.NoError(t, tenure.Resign(t.Context()))
}

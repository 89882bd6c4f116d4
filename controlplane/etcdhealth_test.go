package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// Errors that etcd caused get its address and the time since its last answer. Errors with another cause keep their text.
func TestEtcdHealth_Explain(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://10.0.0.1:2379", "10.0.0.2:2379"}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()
	canceled := fmt.Errorf("append entry 5: %w: %w", metalog.ErrFenced, context.Canceled)
	synctest.Test(t, func(t *testing.T) {
		h := newEtcdHealth(client, nil)
		require.NoError(t, h.fault())
		require.NoError(t, h.explain(nil))
		require.NoError(t, h.explainRequest(nil))
		for _, err := range []error{
			canceled,
			fmt.Errorf("read log: %w: %w", metalog.ErrUnavailable, context.DeadlineExceeded),
			fmt.Errorf("read log: %w: %w", metalog.ErrUnavailable, status.Error(codes.Unavailable, "connection error")),
		} {
			require.EqualError(t, h.explain(err), "etcd at 10.0.0.1:2379, 10.0.0.2:2379 did not answer in time")
			require.ErrorIs(t, h.explain(err), err)
			require.Equal(t, h.explain(err).Error(), h.explainRequest(err).Error())
		}
		store := fmt.Errorf("get k: %w", context.DeadlineExceeded)
		require.Equal(t, store, h.explain(store))
		require.ErrorContains(t, h.explainRequest(store), "etcd at")
		for _, err := range []error{
			metalog.ErrFenced, metalog.ErrCorrupt, fmt.Errorf("read log: %w: %w", metalog.ErrUnavailable, errors.New("remove the key")), io.EOF,
		} {
			require.Equal(t, err, h.explain(err))
		}

		time.Sleep(readMembers + 2*memberTimeout) // sleeps: the clock is fake
		require.EqualError(t, h.explain(metalog.ErrFenced), "etcd at 10.0.0.1:2379, 10.0.0.2:2379 did not answer in time")
		h.mu.fault = "etcd at 10.0.0.1:2379 does not answer"
		time.Sleep(8 * time.Second) // sleeps: the clock is fake
		require.EqualError(t, h.explain(canceled), "etcd at 10.0.0.1:2379 does not answer, 12 s")
		core, logged := observer.New(zap.InfoLevel)
		explaining(zap.New(core), h.explain).With(zap.Int("n", 1)).Warn("replica makes no progress", zap.Error(canceled), zap.NamedError("store", store))
		require.Equal(t, map[string]any{"n": int64(1), "error": "etcd at 10.0.0.1:2379 does not answer, 12 s", "store": store.Error()},
			logged.All()[0].ContextMap())
		require.Equal(t, 12*time.Second, h.succeeded())
		require.NoError(t, h.fault())
		require.Zero(t, h.succeeded())
	})
}

// memberSize is the size of a member's database.
type memberSize struct{ inUse, file, quota int64 }

// member answers etcd's status requests.
type etcdMember struct {
	pb.UnimplementedMaintenanceServer
	leader uint64
	size   atomic.Pointer[memberSize] // nil for an empty member
}

func (m *etcdMember) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	status := &pb.StatusResponse{Leader: m.leader}
	if size := m.size.Load(); size != nil {
		status.DbSizeInUse, status.DbSize, status.DbSizeQuota = size.inUse, size.file, size.quota
	}
	return status, nil
}

// startMember returns the address of a member.
func startMember(t *testing.T, m *etcdMember) string {
	t.Helper()
	listener := listenLocally(t)
	server := grpc.NewServer()
	pb.RegisterMaintenanceServer(server, m)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func listenLocally(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// Members that do not answer are named, with the cause if they accept no connection. If all answer and none has a leader, that is named.
func TestEtcdHealth_NamesMembers(t *testing.T) {
	led, unled := startMember(t, &etcdMember{leader: 1}), startMember(t, &etcdMember{})
	closed := listenLocally(t)
	require.NoError(t, closed.Close())
	silent, gone := listenLocally(t).Addr().String(), closed.Addr().String() // nothing accepts silent's connections
	for want, endpoints := range map[string][]string{
		"etcd at " + led + ", " + unled + " refuses requests (etcdserver: permission denied)": {led, "http://" + unled},
		"etcd at " + unled + " has no leader":                                                 {unled},
		"etcd at " + silent + " does not answer":                                              {led, silent},
		"etcd at " + silent + ", " + gone + " (connection refused) does not answer":           {silent, led, gone},
		"etcd at nowhere.invalid:1 (no such host) does not answer":                            {"nowhere.invalid:1"},
	} {
		client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
		require.NoError(t, err)
		require.Equal(t, want, newEtcdHealth(client, nil).diagnose(t.Context(), status.Error(codes.PermissionDenied, "etcdserver: permission denied")))
		require.NoError(t, client.Close())
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{led}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()
	require.Equal(t, "etcd at "+led+" answers, and this replica waits for its lease",
		newEtcdHealth(client, nil).diagnose(t.Context(), fmt.Errorf("lease for the replica's address: %w", context.DeadlineExceeded)))
}

// A certificate that one side does not accept is the cause.
func TestEtcdHealth_NamesTheFaultOfACertificate(t *testing.T) {
	files, others := testservers.NewTLSFiles(t), testservers.NewTLSFiles(t)
	listener := tls.NewListener(listenLocally(t), &tls.Config{Certificates: files.Config.Certificates, ClientCAs: files.Config.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake() // the client reports its error
			_ = conn.Close()
		}
	}()
	for want, secure := range map[string]*tls.Config{
		"certificate signed by unknown authority": others.Config,
		"certificate required":                    {RootCAs: files.Config.RootCAs},
	} {
		h := newEtcdHealth(nil, secure)
		require.Contains(t, h.unreached(listener.Addr().String()), want)
	}
}

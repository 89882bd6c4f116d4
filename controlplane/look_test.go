package controlplane

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/controlplane/api"
)

// countedEtcd counts the status requests to etcd's members.
type countedEtcd struct {
	clientv3.Maintenance
	asked *atomic.Int32
}

func (c countedEtcd) Status(context.Context, string) (*clientv3.StatusResponse, error) {
	c.asked.Add(1)
	return &clientv3.StatusResponse{Header: &etcdserverpb.ResponseHeader{}}, nil
}

// A loop of status calls asks etcd's members and the other replicas once a second.
func TestStatuses_ReuseARecentLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var etcd, replicas atomic.Int32
		client := clientv3.NewCtxClient(t.Context())
		client.Maintenance = countedEtcd{asked: &etcd}
		r := &members{replica: "own", health: newEtcdHealth(client, nil)}
		r.replicas.Store(&[]member{{id: "r1", address: "r1:7050"}})
		s := &statuses{plane: &ControlPlane{members: r}, peers: newPeers(r, 5*time.Second, nil)}
		s.peers.ask = func(context.Context, string) (*api.ClockResponse, error) {
			replicas.Add(1)
			return &api.ClockResponse{}, nil
		}
		for second := range int32(3) {
			for range 100 {
				require.Len(t, s.shared().etcd, 1)
			}
			require.Equal(t, []int32{second + 1, second + 1}, []int32{etcd.Load(), replicas.Load()})
			time.Sleep(time.Second) // sleeps: the clock is fake
		}
	})
}

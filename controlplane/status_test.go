package controlplane_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/objstore/mem"
)

// status asks a replica for the status of virtual cluster one.
func (r *running) status(t *testing.T) (s operator.Status) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.get(t, "/v1/clusters/one/status")), &s))
	return s
}

// Both replicas show the whole cluster. When the owner has gone, the other one keeps the agents that it saw last.
func TestControlPlane_Status(t *testing.T) {
	t.Parallel()
	etcd, bucket := startEtcd(t), mem.New()
	versioned := func(c *controlplane.Config) { c.Version = "v1" }
	first := startAs(t, etcd, bucket, "r1", versioned)
	await(t, func() bool { return first.Ready() == nil && first.Owned("one") })
	second := startAs(t, etcd, bucket, "r2", versioned)
	await(t, func() bool { return second.Ready() == nil })
	h := heard{welcomes: make(chan *api.Welcome, 8)}
	s, err := client.New(client.Config{
		Replicas: []string{first.Addr().String()}, VirtualCluster: "one", AgentKey: "k1", Version: "v1", Zone: "z",
		Endpoints: []*api.Endpoint{{Host: "a", Port: 9092}}, Handler: h,
		Load: func() *api.Load { return &api.Load{Cpu: 0.5, Connections: proto.Uint32(3)} },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-h.welcomes
	for _, r := range []*running{first, second} {
		await(t, func() bool {
			got := r.status(t)
			return len(got.Agents) == 1 && got.Agents[0].Load != nil && len(got.Replicas) == 2 && got.Replicas[0].Version != "" && got.Replicas[1].Version != ""
		})
		got := r.status(t)
		require.Equal(t, &operator.Owner{Replica: "r1", Address: first.Addr().String()}, got.Owner)
		require.Equal(t, []string{"r1", "r2", "v1", "v1"}, []string{got.Replicas[0].Replica, got.Replicas[1].Replica, got.Replicas[0].Version, got.Replicas[1].Version})
		require.NotNil(t, got.Replicas[0].Uptime)
		require.NotNil(t, got.Replicas[1].Uptime)
		require.Len(t, got.Etcd, 1)
		require.Equal(t, "embedded", got.Etcd[0].Address)
		require.Positive(t, got.Etcd[0].Used)
		require.Positive(t, got.Etcd[0].Allowed)
		require.Equal(t, session.AgentServes, got.Agents[0].State)
		require.Equal(t, uint32(3), *got.Agents[0].Connections)
		require.Nil(t, got.Agents[0].Uptime)
		require.Less(t, *got.AgentsAge, 2.0)
		require.Empty(t, got.Findings)
	}
	cancel()
	require.NoError(t, <-ended)
	first.stop(t)
	await(t, func() bool {
		got := second.status(t)
		return got.Owner != nil && got.Owner.Replica == "r2" && len(got.Replicas) == 1 && len(got.Findings) == 1
	})
	require.Contains(t, second.status(t).Findings[0].Text, "of zone z at a:9092 stopped answering ")
	second.stop(t)
}

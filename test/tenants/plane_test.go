package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/test/harness"
)

const etcdPrefix = "/freshet/v1"

// plane is a hosted control plane of two replicas.
type plane struct {
	*harness.Cluster
	etcd      *clientv3.Client
	directory directory.Directory
	conns     []*grpc.ClientConn // of each replica, for calls without an agent
}

func startPlane(t *testing.T, flags ...string) *plane {
	t.Helper()
	return startPlaneOf(t, harness.ClusterConfig{ControlFlags: flags})
}

// startPlaneOf starts a plane with settings of a cluster.
func startPlaneOf(t *testing.T, cfg harness.ClusterConfig) *plane {
	t.Helper()
	operatorKey, err := accesskey.New(accesskey.OperatorPrefix, "")
	require.NoError(t, err)
	cfg.Hosted, cfg.StateBucket = true, true
	cfg.ControlFlags = append(cfg.ControlFlags, "--operator-key", operatorKey)
	c := harness.NewCluster(t, cfg)
	p := &plane{Cluster: c, etcd: c.Etcd.Client(t)}
	p.OperatorKey = operatorKey
	p.directory = directory.Directory{Client: p.etcd, Prefix: etcdPrefix}
	for _, r := range c.ControlPlanes {
		r.Launch()
	}
	for _, r := range c.ControlPlanes {
		r.AwaitReady()
		p.conns = append(p.conns, dial(t, r.GRPC))
	}
	return p
}

// dial connects to a replica with as little memory as gRPC allows.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(128<<20), grpc.MaxCallSendMsgSize(128<<20)))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// tenant is one virtual cluster with one agent key.
type tenant struct {
	*plane
	id   string
	name string
	key  string
}

// create stores the Spec of a new virtual cluster.
func (p *plane) create(ctx context.Context, name string) (*tenant, error) {
	v := &tenant{plane: p, id: id.NewCluster(), name: name}
	var err error
	if v.key, err = accesskey.New(accesskey.AgentPrefix, v.id); err != nil {
		return nil, err
	}
	return v, p.directory.Create(ctx, &directory.Spec{
		ID: v.id, Name: name, State: directory.Active, DefaultPartitions: 1,
		Keys: []directory.Key{{Hash: accesskey.HashOf(v.key), Kind: keys.Agent}},
	})
}

// set changes the state of the virtual cluster.
func (v *tenant) set(ctx context.Context, state directory.State) error {
	spec, revision, err := v.directory.Get(ctx, v.id)
	if err != nil {
		return err
	}
	spec.State = state
	return v.directory.Update(ctx, spec, revision)
}

// launch starts an agent of the virtual cluster, with objects below a prefix of its own.
func (v *tenant) launch(t *testing.T) *harness.Agent {
	t.Helper()
	a := v.NewAgentWith(t, "agent-of-"+v.name, "--virtual-cluster", v.name, "--agent-key", v.key, "--bucket", v.S3.URL("bucket", v.id),
		"--memory-limit", "256MiB", "--auto-create-topics=true")
	a.Launch()
	a.AwaitReady()
	return a
}

// keyed returns a context with the tenant's key for calls.
func (v *tenant) keyed(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+v.key)
}

// owner waits until a replica names the owner of the virtual cluster, and returns its connection.
func (v *tenant) owner(ctx context.Context) (*grpc.ClientConn, error) {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		for _, conn := range v.conns {
			located, err := api.NewControlPlaneClient(conn).Locate(v.keyed(ctx), &api.LocateRequest{})
			if err != nil || located.OwnerAddress == "" {
				continue
			}
			for i, r := range v.ControlPlanes {
				if r.GRPC == located.OwnerAddress {
					return v.conns[i], nil
				}
			}
			return nil, fmt.Errorf("unknown owner %s", located.OwnerAddress)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-poll.C:
		}
	}
}

// stream is an open session stream.
type stream = grpc.BidiStreamingClient[api.ToOwner, api.ToAgent]

// hello opens a session stream and sends Hello.
func hello(ctx context.Context, conn *grpc.ClientConn, v *tenant, h *api.Hello) (stream, error) {
	s, err := api.NewControlPlaneClient(conn).Session(v.keyed(ctx))
	if err != nil {
		return nil, err
	}
	return s, s.Send(&api.ToOwner{Items: []*api.AgentItem{{Item: &api.AgentItem_Hello{Hello: h}}}})
}

// greeting returns a Hello of a new agent, whose bucket has the marker that a control plane writes.
func (v *tenant) greeting() *api.Hello {
	return &api.Hello{
		Protocol: api.Protocol, Instance: id.NewCluster(), Zone: "a", Endpoints: []*api.Endpoint{{Host: "127.0.0.1", Port: 1}},
		BucketMarker: &api.BucketMarker{ClusterId: v.id},
	}
}

// visit opens a session. wait returns after the stream has ended.
func (v *tenant) visit(ctx context.Context) (wait func() error, err error) {
	for {
		conn, err := v.owner(ctx)
		if err != nil {
			return nil, fmt.Errorf("owner of %s: %w", v.name, err)
		}
		s, err := hello(ctx, conn, v, v.greeting())
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if m, err := s.Recv(); err != nil || m.Items[0].GetWelcome() == nil {
			continue // the owner has changed meanwhile
		}
		return func() error {
			for {
				if _, err := s.Recv(); err != nil {
					return ctx.Err()
				}
			}
		}, nil
	}
}

// get returns the body of a page of a replica's HTTP side.
func (p *plane) get(t *testing.T, r *harness.ControlPlane, path, key string) string {
	t.Helper()
	code, body, err := fetch(t.Context(), r.HTTP+path, key)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	return body
}

// fetch returns the status and the body of a page.
func fetch(ctx context.Context, url, key string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// peak returns the most memory that a process has had, in bytes.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// goroutines returns the number of goroutines of all replicas, since a virtual cluster may move from one to the other, and their stacks.
func (p *plane) goroutines(t *testing.T) (n int, stacks string) {
	t.Helper()
	for _, r := range p.ControlPlanes {
		body := p.get(t, r, "/debug/pprof/goroutine?debug=1", p.OperatorKey)
		var own int
		_, err := fmt.Sscanf(body, "goroutine profile: total %d", &own)
		require.NoError(t, err)
		n, stacks = n+own, stacks+body
	}
	return n, stacks
}

// etcdKeys returns all keys of the control plane in etcd, without the prefix, and the bytes of their values.
func (p *plane) etcdKeys(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	from, end := etcdPrefix+"/", clientv3.GetPrefixRangeEnd(etcdPrefix+"/")
	for {
		page, err := p.etcd.Get(t.Context(), from, clientv3.WithRange(end), clientv3.WithLimit(200))
		require.NoError(t, err)
		for _, kv := range page.Kvs {
			found[strings.TrimPrefix(string(kv.Key), etcdPrefix+"/")] = len(kv.Value)
			from = string(kv.Key) + "\x00"
		}
		if !page.More {
			return found
		}
	}
}

// quantile returns a quantile of times, and their maximum.
func quantile(times []time.Duration, q float64) (at, most time.Duration) {
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))], times[len(times)-1]
}

package tenants

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kgo"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/bench/process"
	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/wait"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

const (
	replicas    = 2
	operatorKey = "operator-key"
	etcdQuota   = 4 << 30 // bytes
	startLimit  = time.Minute
	poll        = 50 * time.Millisecond

	roleCommand = "tenants-role"
	roleEtcd    = "etcd"
)

type etcdRole struct {
	Dir string `json:"dir"`
}

// RunRole runs the helper process with etcd until ctx ends. It prints the addresses of etcd and of its metrics.
func RunRole(ctx context.Context, name, spec string, out io.Writer) error {
	var role etcdRole
	if name != roleEtcd {
		return fmt.Errorf("unknown benchmark role %q", name)
	}
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	etcd, err := etcdserver.Start(ctx, etcdserver.Config{Dir: role.Dir, QuotaBytes: etcdQuota}, zap.NewNop())
	if err != nil {
		return err
	}
	var listeners [2]net.Listener
	for i := range listeners {
		if listeners[i], err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		defer listeners[i].Close()
	}
	metrics := &http.Server{Handler: promhttp.Handler(), ReadHeaderTimeout: time.Minute}
	defer metrics.Close()
	go metrics.Serve(listeners[1]) //nolint:errcheck // ends with the process
	go etcd.Serve(listeners[0])    //nolint:errcheck // ends with the listener
	fmt.Fprintln(out, listeners[0].Addr(), listeners[1].Addr())
	return etcd.Run(ctx)
}

// rig has the processes of a run.
type rig struct {
	cfg         *Config
	dir         string
	etcd        *process.Process
	etcdAddress string
	etcdMetrics string
	client      *clientv3.Client
	planes      [replicas]*plane
	agents      []*process.Process
}

// plane is a replica of the control plane.
type plane struct {
	*process.Process
	args       []string
	grpc, http string
}

func startRig(ctx context.Context, cfg *Config, dir string) (r *rig, err error) {
	r = &rig{cfg: cfg, dir: dir}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	var line string
	if r.etcd, line, err = process.StartRole(ctx, roleCommand, roleEtcd, etcdRole{Dir: filepath.Join(dir, "etcd")}); err != nil {
		return nil, err
	}
	if _, err := fmt.Sscan(line, &r.etcdAddress, &r.etcdMetrics); err != nil {
		return nil, fmt.Errorf("read the addresses of etcd: %w", err)
	}
	if r.client, err = clientv3.New(clientv3.Config{Endpoints: []string{r.etcdAddress}, Context: ctx, Logger: zap.NewNop()}); err != nil {
		return nil, fmt.Errorf("make client of etcd: %w", err)
	}
	for _, name := range []string{"state", "records"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, fmt.Errorf("create directory of objects: %w", err)
		}
	}
	for i := range r.planes {
		addresses, err := process.FreeAddresses(2)
		if err != nil {
			return nil, err
		}
		p := &plane{grpc: addresses[0], http: "http://" + addresses[1]}
		p.args = []string{
			"controlplane", "--etcd", r.etcdAddress, "--virtual-cluster", "main", "--agent-key", "main-key", "--state-bucket", r.bucket("state"),
			"--operator-key", operatorKey, "--grpc-listen", p.grpc, "--http-listen", addresses[1],
		}
		r.planes[i] = p
		if err := r.startPlane(ctx, p); err != nil {
			return nil, err
		}
	}
	for _, p := range r.planes {
		if err := p.awaitReady(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// bucket returns the bucket of the state or of the records.
func (r *rig) bucket(name string) string { return "file://" + filepath.Join(r.dir, name) }

func (r *rig) addresses() (all []string) {
	for _, p := range r.planes {
		all = append(all, p.grpc)
	}
	return all
}

// program starts freshet as users do, with its log in a file.
func (r *rig) program(ctx context.Context, name string, args []string) (*process.Process, error) {
	exe, err := process.Freshet()
	if err != nil {
		return nil, err
	}
	return process.StartLogged(ctx, exec.Command(exe, append(args, "--log-level", "warn")...), filepath.Join(r.dir, name+".log"))
}

func (r *rig) startPlane(ctx context.Context, p *plane) (err error) {
	p.Process, err = r.program(ctx, "controlplane-"+p.grpc, p.args)
	return err
}

// awaitReady waits until the replica is ready.
func (p *plane) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		body, err := get(ctx, p.http+"/readyz")
		if err == nil {
			return nil
		}
		if waited := wait.For(ctx, poll); waited != nil {
			return fmt.Errorf("replica %s is not ready: %w: %s", p.grpc, err, body)
		}
	}
}

// get returns the body of an answer, to a request with the operator key. Answers other than 200 are errors.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return body, err
}

func agentKey(virtualCluster string) string { return "key-of-" + virtualCluster }

// creators bounds the Specs that are written at once.
const creators = 16

// create writes the Specs of virtual clusters, as a tenant's sign-up does, and returns their cluster ids by name. A provider marks those with
// much load as warm.
func (r *rig) create(ctx context.Context, names []string, warm bool) (ids map[string]string, err error) {
	ids = map[string]string{}
	d := directory.Directory{Client: r.client, Prefix: etcdlog.DefaultPrefix}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, name := range names {
		clusterID := id.NewCluster()
		ids[name] = clusterID
		group.Go(func() error {
			return d.Create(ctx, &directory.Spec{
				ID: clusterID, Name: name, State: directory.Active, Warm: warm, DefaultPartitions: 1,
				Keys: []directory.Key{{Hash: accesskey.HashOf(agentKey(name)), Kind: keys.Agent}},
			})
		})
	}
	return ids, group.Wait()
}

// startAgent starts the agent of a virtual cluster and returns the address of its Kafka clients.
func (r *rig) startAgent(ctx context.Context, virtualCluster string) (string, error) {
	addresses, err := process.FreeAddresses(3)
	if err != nil {
		return "", err
	}
	agent, err := r.program(ctx, "agent-"+virtualCluster, []string{
		"agent", "--virtual-cluster", virtualCluster, "--agent-key", agentKey(virtualCluster), "--control-plane", strings.Join(r.addresses(), ","),
		"--bucket", r.bucket("records"), "--zone", "a", "--kafka-listen", addresses[0], "--http-listen", addresses[1], "--peer-listen", addresses[2],
		"--memory-limit", "256MiB",
	})
	if err != nil {
		return "", err
	}
	r.agents = append(r.agents, agent)
	return addresses[0], process.AwaitBroker(ctx, kgo.SeedBrokers(addresses[0]))
}

// close stops all processes, agents first.
func (r *rig) close() {
	var agents errgroup.Group
	for _, a := range r.agents {
		agents.Go(func() error { a.Stop(); return nil })
	}
	_ = agents.Wait() // never fails
	for _, p := range r.planes {
		if p != nil && p.Process != nil {
			p.Stop()
		}
	}
	if r.client != nil {
		_ = r.client.Close() // the process ends
	}
	if r.etcd != nil {
		r.etcd.Stop()
	}
}

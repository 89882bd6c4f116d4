package compare

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/freshet-io/freshet/bench/plane"
	"github.com/freshet-io/freshet/bench/process"
)

// freshet is one agent and one control plane, over an S3 server.
type freshet struct {
	s3Server string // program
	latency  string // model of an object store to add to the S3 server's; NoLatency: none
	memory   int64  // bytes, of the agent
}

// What the parts have to agree on.
const (
	bucketName   = "bucket"
	bucketPrefix = "freshet"
	s3Region     = "us-east-1"
	s3Key        = "access-key"
	s3Secret     = "secret-key"
)

// agentPorts is how many an agent listens on by default; each is a broker to clients.
const agentPorts = 4

func (f *freshet) name() string { return nameFreshet }

func (f *freshet) start(ctx context.Context, dir string) (_ *instance, err error) {
	i := &instance{}
	defer func() {
		if err != nil {
			i.stop()
		}
	}()
	addresses, err := process.FreeAddresses(agentPorts + 2)
	if err != nil {
		return nil, err
	}
	s3, agentHTTP := addresses[0], addresses[1]
	if err := f.startS3(ctx, i, dir, s3); err != nil {
		return nil, err
	}
	role := controlRole{Dir: filepath.Join(dir, "control"), Bucket: bucketURL("http://"+s3, f.latency)}
	control, line, err := process.StartRole(ctx, roleCommand, roleControl, role)
	if err != nil {
		return nil, err
	}
	grpc, controlHTTP, err := plane.Addresses(line)
	if err != nil {
		control.Stop()
		return nil, err
	}
	i.watch(control, "control plane and etcd", "http://"+controlHTTP+"/metrics", false)
	return i, f.startAgent(ctx, i, dir, agent{bucket: role.Bucket, control: grpc, http: agentHTTP, kafka: addresses[2:]})
}

// startS3 starts the S3 server over a directory. Its metadata is beside the objects, because not every file system has
// extended attributes.
func (f *freshet) startS3(ctx context.Context, i *instance, dir, address string) error {
	objects, sidecar := filepath.Join(dir, "objects"), filepath.Join(dir, "sidecar")
	for _, d := range []string{filepath.Join(objects, bucketName), sidecar} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make directory of the S3 server: %w", err)
		}
	}
	log := filepath.Join(dir, "s3.log")
	p, err := process.StartLogged(ctx, exec.Command(f.s3Server, "--port", address, "--access", s3Key, "--secret", s3Secret,
		"--region", s3Region, "--keep-alive", "--quiet", "--health", "/health", "posix", "--sidecar", sidecar, objects), log)
	if err != nil {
		return err
	}
	i.watch(p, "S3 server", "", true)
	if err := await(ctx, p, log, answers("http://"+address+"/health")); err != nil {
		return fmt.Errorf("start the S3 server: %w", err)
	}
	return nil
}

// agent is where an agent finds and serves what.
type agent struct {
	bucket, control, http string
	kafka                 []string
}

func (f *freshet) startAgent(ctx context.Context, i *instance, dir string, a agent) error {
	exe, err := process.Freshet()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, "agent", "--virtual-cluster", plane.VirtualCluster, "--zone", "a", "--peer-listen", "none", "--control-plane", a.control,
		"--bucket", a.bucket, "--kafka-listen", strings.Join(a.kafka, ","), "--http-listen", a.http,
		"--memory-limit", strconv.FormatInt(f.memory, 10))
	cmd.Env = append(os.Environ(), "FRESHET_AGENT_KEY="+plane.AgentKey)
	log := filepath.Join(dir, "agent.log")
	p, err := process.StartLogged(ctx, cmd, log)
	if err != nil {
		return err
	}
	i.watch(p, "agent", "http://"+a.http+"/metrics", false)
	i.bootstrap = a.kafka[0]
	if err := await(ctx, p, log, answers("http://"+a.http+"/readyz")); err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	if err := await(ctx, p, log, pings(i.bootstrap)); err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	return nil
}

func bucketURL(endpoint, latency string) string {
	query := url.Values{
		"region": {s3Region}, "endpoint": {endpoint}, "path-style": {"true"}, "access-key": {s3Key}, "secret-key": {s3Secret},
	}
	if latency != NoLatency {
		query.Set("latency", latency)
	}
	u := url.URL{Scheme: "s3", Host: bucketName, Path: bucketPrefix, RawQuery: query.Encode()}
	return u.String()
}

// answers gives a function that gives nil when a GET answers 200.
func answers(target string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", target, resp.Status)
		}
		return nil
	}
}

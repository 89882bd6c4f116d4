package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	image   = "localhost/freshet:ecs"
	docker  = "../../../bin/ecs/state/docker.sock"
	bucket  = "records"
	ofState = "state" // bucket of the control planes
	domain  = "freshet.internal"
	name    = "freshet" // of the stack and the ECS cluster
)

// place is the network namespace of stack.sh.
var place = testservers.Place{Namespace: "freshet-ecs", Address: "10.99.0.1"}

// zones are those of the stack, in the order of its parameters.
var zones = []string{"us-east-1a", "us-east-1b"}

// stack is the stand-in of AWS with the deployed template.
type stack struct {
	t    *testing.T
	http *http.Client // of Podman's service
	// template is the path of the template that is deployed.
	template string
}

// task is a task that runs.
type task struct {
	ARN       string
	Family    string
	Revision  string
	Container string // ID
	IP        netip.Addr
}

// newStack starts the stand-in, which ends with the test, and deploys the template.
func newStack(t *testing.T, archive string) *stack {
	t.Helper()
	s := &stack{t: t, template: "../../../deploy/ecs/cloudformation.yaml", http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", docker)
		},
	}}}
	t.Cleanup(s.http.CloseIdleConnections)
	began, artifacts := time.Now(), t.ArtifactDir()
	s.script("up", archive)
	t.Cleanup(func() {
		if t.Failed() {
			s.report(filepath.Join(artifacts, "tasks.txt"))
		}
		s.script("down")
	})
	t.Logf("the stand-in of AWS has started in %s", time.Since(began).Round(time.Millisecond))
	serveNames(t, s.lookup)
	return s
}

// script runs stack.sh and returns its standard output.
func (s *stack) script(args ...string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command("./stack.sh", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(s.t, cmd.Run(), "stack.sh %s\n%s%s", strings.Join(args, " "), &out, &errs)
	return out.String()
}

// aws runs the AWS CLI and decodes its answer, if result is not nil.
func (s *stack) aws(result any, args ...string) {
	s.t.Helper()
	out := s.script(append([]string{"aws"}, args...)...)
	if result != nil {
		require.NoError(s.t, json.Unmarshal([]byte(out), result), out)
	}
}

// report writes the logs of all tasks to a file.
func (s *stack) report(path string) {
	s.t.Helper()
	out, err := exec.Command("./stack.sh", "logs").CombinedOutput()
	if err != nil {
		s.t.Log(err)
	}
	if err := os.WriteFile(path, out, 0o644); err != nil {
		s.t.Log(err)
	}
	s.t.Logf("logs of tasks: %s", path)
}

// startServers starts an object store and an etcd, and returns the parameters that name them.
func (s *stack) startServers() map[string]string {
	s.t.Helper()
	s3 := testservers.StartS3At(s.t, place, bucket, ofState)
	const port = ":2379" // the only one that the template allows
	address, peer := "http://"+place.Host()+port, "http://"+place.FreeAddress(s.t)
	client := place.HTTP(time.Second)
	etcd := testservers.NewProcessAt(s.t, place, "etcd", testservers.Binary(s.t, "etcd"), []string{
		"--data-dir", s.t.TempDir(), "--log-level", "warn", "--unsafe-no-fsync", "--listen-client-urls", address, "--advertise-client-urls", address,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
	}, func() error {
		resp, err := client.Get(address + "/health")
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	})
	etcd.Restart()
	options := url.Values{"endpoint": {s3.Endpoint}, "path-style": {"true"}, "access-key": {s3.AccessKey}, "secret-key": {s3.SecretKey}}
	return map[string]string{
		"Bucket": bucket, "StateBucket": ofState, "BucketOptions": "&" + options.Encode(), "EtcdEndpoints": place.Host() + port, "EtcdTls": "false",
	}
}

// keys makes a secret with each key, and returns the parameters that name them. The stand-in of CloudFormation generates keys with commas.
func (s *stack) keys() map[string]string {
	s.t.Helper()
	parameters := map[string]string{}
	for name, parameter := range map[string]string{
		"agent-key": "AgentKeySecretArn", "operator-key": "OperatorKeySecretArn", "read-only-key": "ReadOnlyKeySecretArn",
	} {
		var made struct{ ARN string }
		s.aws(&made, "secretsmanager", "create-secret", "--name", name, "--secret-string", rand.Text())
		parameters[parameter] = made.ARN
	}
	return parameters
}

// network makes a VPC with a subnet for each zone, and returns the parameters that name them.
func (s *stack) network() map[string]string {
	s.t.Helper()
	var vpc struct{ Vpc struct{ VpcId string } }
	s.aws(&vpc, "ec2", "create-vpc", "--cidr-block", "10.1.0.0/16")
	parameters := map[string]string{"Vpc": vpc.Vpc.VpcId, "ClientCidr1": "10.1.0.0/16"}
	for i, zone := range zones {
		letter, cidr := string(rune('A'+i)), fmt.Sprintf("10.1.%d.0/24", i)
		parameters["Subnet"+letter], parameters["Zone"+letter], parameters["Cidr"+letter] = s.subnet(vpc.Vpc.VpcId, cidr, zone), zone, cidr
	}
	return parameters
}

// subnet makes a subnet, and returns its ID.
func (s *stack) subnet(vpc, cidr, zone string) string {
	s.t.Helper()
	var made struct{ Subnet struct{ SubnetId string } }
	s.aws(&made, "ec2", "create-subnet", "--vpc-id", vpc, "--cidr-block", cidr, "--availability-zone", zone)
	return made.Subnet.SubnetId
}

// deploy makes the stack, or updates the parameters that are given.
func (s *stack) deploy(parameters map[string]string) {
	s.t.Helper()
	args := []string{"cloudformation", "deploy", "--stack-name", name, "--template-file", s.template, "--capabilities", "CAPABILITY_IAM", "--parameter-overrides"}
	for key, value := range parameters {
		args = append(args, key+"="+value)
	}
	s.aws(nil, args...)
}

// tasks returns the running tasks of a family, or of all.
func (s *stack) tasks(family string) ([]task, error) {
	resp, err := s.http.Get("http://podman/v1.41/containers/json")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var listed []struct {
		ID              string `json:"Id"`
		State           string
		Labels          map[string]string
		NetworkSettings struct {
			Networks map[string]struct{ IPAddress string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&listed); err != nil {
		return nil, err
	}
	var all []task
	for _, c := range listed {
		t := task{ARN: c.Labels[label+"task-arn"], Family: c.Labels[label+"task-definition-family"], Revision: c.Labels[label+"task-definition-version"], Container: c.ID}
		for _, n := range c.NetworkSettings.Networks {
			t.IP, _ = netip.ParseAddr(n.IPAddress) // invalid until the container has started
		}
		if t.IP.IsValid() && c.State == "running" && (family == "" || t.Family == family) {
			all = append(all, t)
		}
	}
	return all, nil
}

// label begins the labels that ECS gives to containers.
const label = "com.amazonaws.ecs."

// lookup returns the addresses of the tasks behind a name in Cloud Map, or the address of the load balancer behind a public name.
func (s *stack) lookup(host string) (found []netip.Addr) {
	if balancer, ok := strings.CutSuffix(host, "."+public); ok {
		if i := slices.Index(balancers, balancer); i >= 0 {
			return []netip.Addr{address(i)}
		}
		return nil
	}
	service, ok := strings.CutSuffix(host, "."+domain)
	if !ok {
		return nil
	}
	tasks, err := s.tasks(familyOf(service))
	if err != nil {
		return nil // the client asks again
	}
	for _, t := range tasks {
		found = append(found, t.IP)
	}
	return found
}

// controlPlanes is the name of the control planes' service.
const controlPlanes = "controlplane"

// familyOf returns the family of the task definitions behind a name: a zone, controlPlanes or a replica of provider.yaml.
func familyOf(service string) string {
	if slices.Contains(balancers, service) {
		return name + "-" + service
	}
	if service == controlPlanes {
		return name + "-" + controlPlanes
	}
	return name + "-agent-" + service
}

// serviceOf returns the name of a zone's ECS service.
func serviceOf(zone string) string { return "agent-" + zone }

// ready reports whether a task answers at /readyz.
func (t task) ready(port int) bool {
	resp, err := place.HTTP(5 * time.Second).Get(fmt.Sprintf("http://%s:%d/readyz", t.IP, port))
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// HTTP ports.
const (
	agentPort        = 8080
	controlPlanePort = 8090
)

// served reports whether an agent has answered a request for records.
func (t task) served() bool {
	const requests = "freshet_kafka_request_seconds_count"
	return t.metric(agentPort, requests, `api="Produce"`)+t.metric(agentPort, requests, `api="Fetch"`) > 0
}

// metric returns a metric of a task; 0 if the task does not answer.
func (t task) metric(port int, metric string, labels ...string) float64 {
	n, err := harness.MetricAt(place, fmt.Sprintf("http://%s:%d", t.IP, port), metric, labels...)
	if err != nil {
		return 0
	}
	return n
}

// await waits until exactly n tasks of a service run, all of them ready, and returns them.
func (s *stack) await(service string, n int) (tasks []task) {
	s.t.Helper()
	port := agentPort
	if service == controlPlanes {
		port = controlPlanePort
	}
	harness.Await(s.t, fmt.Sprintf("%d tasks of %s are ready", n, service), func() bool {
		var err error
		tasks, err = s.tasks(familyOf(service))
		require.NoError(s.t, err)
		for _, t := range tasks {
			if !t.ready(port) {
				return false
			}
		}
		return len(tasks) == n
	})
	return tasks
}

// service is an ECS service.
type service struct {
	DesiredCount   int
	RunningCount   int
	TaskDefinition string // ARN
}

// service returns a zone's service.
func (s *stack) service(zone string) service {
	s.t.Helper()
	var described struct{ Services []service }
	s.aws(&described, "ecs", "describe-services", "--cluster", name, "--services", serviceOf(zone))
	require.Len(s.t, described.Services, 1)
	return described.Services[0]
}

// updateService changes a zone's service.
func (s *stack) updateService(zone string, args ...string) {
	s.t.Helper()
	s.aws(nil, append([]string{"ecs", "update-service", "--cluster", name, "--service", serviceOf(zone)}, args...)...)
}

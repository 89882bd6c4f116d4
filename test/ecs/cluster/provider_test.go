package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/test/harness"
)

// public is the domain of the stack's public names.
const public = "example.com"

// balancers are the public names, in the order of their addresses.
var balancers = []string{"api", "cp-a", "cp-b"}

// TestProvider deploys provider.yaml. A tenant signs up by the public names, starts an agent and reads back a record, and again after each replica was
// replaced. The test forwards connections in place of the load balancers, which the stand-in lacks. FRESHET_ECS has to be set.
func TestProvider(t *testing.T) {
	if os.Getenv("FRESHET_ECS") != whole {
		t.Skip("needs root, Debian packages and an image: run make e2e-ecs")
	}
	archive, err := filepath.Abs("../../../bin/ecs/image.tar")
	require.NoError(t, err)
	s := newStack(t, archive)
	s.template = "../../../deploy/ecs/provider.yaml"
	operatorKey := rand.Text()
	certificate, secrets := s.secrets(operatorKey)
	parameters := map[string]string{"Image": image, "Domain": public, "SignUp": "open", "StateBucket": ofState}
	servers, network := s.startServers(), s.network()
	maps.Copy(parameters, secrets)
	for _, name := range []string{"BucketOptions", "EtcdEndpoints", "EtcdTls"} {
		parameters[name] = servers[name]
	}
	for _, name := range []string{"Vpc", "SubnetA", "SubnetB"} {
		parameters[name] = network[name]
	}
	for i, zone := range zones {
		letter := string(rune('A' + i))
		parameters["PublicSubnet"+letter] = s.subnet(network["Vpc"], fmt.Sprintf("10.1.1%d.0/24", i), zone)
	}
	s.deploy(parameters)
	s.awaitReplicas(operatorKey)
	s.balance()
	s.signUp(certificate, servers["BucketOptions"])
	for _, replica := range balancers[1:] {
		old := s.replica(replica)
		require.Len(t, old, 1)
		s.aws(nil, "ecs", "update-service", "--cluster", name, "--service", replica, "--force-new-deployment")
		harness.Await(t, replica+" is another task", func() bool {
			tasks := s.replica(replica)
			return len(tasks) == 1 && tasks[0].ARN != old[0].ARN
		})
		s.awaitReplicas(operatorKey)
		s.signUp(certificate, servers["BucketOptions"])
	}
}

// secrets makes secrets with the operator key, and with a self-signed certificate of the public and private names and its key. It returns the
// certificate's file, and the parameters that name the secrets.
func (s *stack) secrets(operatorKey string) (certificate string, parameters map[string]string) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: public}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"*." + public, "*." + domain}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(s.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(s.t, err)
	dir, parameters := s.t.TempDir(), map[string]string{}
	for name, block := range map[string]*pem.Block{"cp.crt": {Type: "CERTIFICATE", Bytes: der}, "cp.key": {Type: "PRIVATE KEY", Bytes: private}} {
		path := filepath.Join(dir, name)
		require.NoError(s.t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
		var made struct{ ARN string }
		s.aws(&made, "secretsmanager", "create-secret", "--name", name, "--secret-string", "file://"+path)
		parameters[map[string]string{"cp.crt": "CertSecretArn", "cp.key": "KeySecretArn"}[name]] = made.ARN
	}
	parameters["CaSecretArn"] = parameters["CertSecretArn"]
	var made struct{ ARN string }
	s.aws(&made, "secretsmanager", "create-secret", "--name", "operator-key", "--secret-string", operatorKey)
	parameters["OperatorKeySecretArn"] = made.ARN
	return filepath.Join(dir, "cp.crt"), parameters
}

// replica returns the running tasks of a replica.
func (s *stack) replica(of string) []task {
	s.t.Helper()
	tasks, err := s.tasks(name + "-" + of)
	require.NoError(s.t, err)
	return tasks
}

// awaitReplicas waits until each replica is one task that is ready and has heard of the other replica at its private name. A load balancer would wait
// longer, for two health checks.
func (s *stack) awaitReplicas(operatorKey string) {
	s.t.Helper()
	for _, replica := range balancers[1:] {
		harness.Await(s.t, replica+" is ready and knows the other replica", func() bool {
			tasks := s.replica(replica)
			return len(tasks) == 1 && tasks[0].ready(controlPlanePort) && tasks[0].heardAll(operatorKey)
		})
	}
}

// heardAll reports whether a control plane has heard of each replica.
func (t task) heardAll(operatorKey string) bool {
	r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%s:%d%s", t.IP, controlPlanePort, operator.StatusPath), nil)
	if err != nil {
		return false
	}
	r.Header.Set("Authorization", "Bearer "+operatorKey)
	resp, err := place.HTTP(5 * time.Second).Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var plane operator.Plane
	return json.NewDecoder(resp.Body).Decode(&plane) == nil && len(plane.Replicas) == len(balancers[1:]) &&
		!slices.ContainsFunc(plane.Replicas, func(r operator.Replica) bool { return r.Version == "" || r.Fault != "" })
}

// address returns the address of the load balancer with an index in balancers.
func address(number int) netip.Addr { return netip.AddrFrom4([4]byte{10, 99, 0, byte(10 + number)}) }

// balance forwards connections to port 443 of each load balancer's address to the tasks behind it.
func (s *stack) balance() {
	s.t.Helper()
	for i, balancer := range balancers {
		l := place.Listen(s.t)
		s.t.Cleanup(func() { _ = l.Close() })
		to := address(i).String()
		s.script("run", "ip", "addr", "add", to+"/32", "dev", "lo")
		s.script("run", "iptables", "-t", "nat", "-A", "OUTPUT", "-d", to, "-p", "tcp", "--dport", "443", "-j", "DNAT", "--to-destination", l.Addr().String())
		families, port := []string{balancer}, "7050"
		if balancer == "api" {
			families, port = balancers[1:], "8443"
		}
		go s.forward(l, families, port)
	}
}

// forward accepts connections until the listener is closed, and connects each to the first task that answers.
func (s *stack) forward(l net.Listener, replicas []string, port string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer from.Close()
			for _, replica := range replicas {
				tasks, err := s.tasks(name + "-" + replica)
				if err != nil || len(tasks) == 0 {
					continue
				}
				to, err := place.Dial(s.t.Context(), "tcp", net.JoinHostPort(tasks[0].IP.String(), port))
				if err != nil {
					continue
				}
				go func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				}()
				_, _ = io.Copy(from, to)
				return
			}
		}()
	}
}

// signUp runs signup.sh as a tenant, which fails unless its record is read back.
func (s *stack) signUp(certificate, options string) {
	s.t.Helper()
	programs, err := filepath.Glob("../../../bin/linux-*/freshet")
	require.NoError(s.t, err)
	require.NotEmpty(s.t, programs)
	cmd := exec.CommandContext(s.t.Context(), "./stack.sh", "run", "../../tenants/signup.sh")
	cmd.Env = append(os.Environ(), "API=https://api."+public, "CA="+certificate, "FRESHET="+programs[0],
		"BUCKET=s3://"+bucket+"/tenant?region=us-east-1"+options)
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	require.Regexp(s.t, `control plane cp-[ab]\.example\.com:443`, string(out))
	s.t.Logf("%s", strings.TrimSpace(string(out)))
}

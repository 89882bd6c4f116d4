package harness

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/freshet-io/freshet/internal/testproxy"
	"github.com/freshet-io/freshet/internal/testservers"
)

// ClusterConfig describes a cluster of several processes. Zero fields take the values named.
type ClusterConfig struct {
	Agents        int      // 3
	ControlPlanes int      // 2
	EtcdMembers   int      // 1
	EtcdFlags     []string // further flags of every etcd member
	Zones         []string // agents are spread over them in turn; one zone "a"
	Ports         int      // of each agent, a broker each to clients; 1
	TLS           bool     // between agents and control plane, and to etcd
	MutualTLS     bool     // with TLS: agents show certificates
	Binary        string   // program of every process at first; the binary under test
	Buckets       int      // 1; all on one S3 server, the cluster uses the first
	StateBucket   bool     // control planes have a bucket of their own, on an S3 server with other credentials
	Hosted        bool     // control planes serve the virtual clusters of etcd alone, and the HTTP API for tenants; no Agents
	Latency       string   // model that delays requests to the S3 server (package objstore/latency); none
	AgentFlags    []string // further flags of every agent
	ControlFlags  []string // further flags of every control plane

	// FlagsOf returns further flags of one agent, by name. nil: none.
	FlagsOf func(agent string) []string
	// Earlier is a program of an earlier release, whose control planes know no operator keys; "" for none.
	Earlier string
	Proxied bool // agents reach every control plane through its Proxy only

	// Place says where each process runs, by name: etcd, s3, state, controlplane-0, agent-0. nil: all on 127.0.0.1.
	Place func(process string) testservers.Place
	// Front gives the address that others are told instead of one that a process listens at. nil: that one.
	Front func(process, address string) string
	// Public returns the address of a control plane for agents alone. nil: the one for replicas.
	Public func(process string) string
}

// Cluster is a running cluster: agents and control planes as processes, real etcd, a real S3 server.
type Cluster struct {
	Agents        []*Agent
	ControlPlanes []*ControlPlane
	Etcd          *testservers.Etcd
	S3            *testservers.S3
	StateS3       *testservers.S3 // of the control planes; nil without StateBucket
	AgentKey      string
	OperatorKey   string
	BucketURL     string
	Files         *testservers.TLSFiles // between agents and control plane; nil without TLS
	PublicFiles   *testservers.TLSFiles // of the HTTP API for tenants: Files with TLS; nil unless Hosted

	cfg ClusterConfig
}

// Agent is one `freshet agent` process.
type Agent struct {
	*testservers.Process
	Name      string // what proxies call it
	Bootstrap string // host:port of its Kafka listener
	HTTP      string // http://host:port, where the agent runs
	Zone      string
	place     testservers.Place
	program   func(testing.TB, string) *testservers.Process
}

// ControlPlane is one `freshet controlplane` process.
type ControlPlane struct {
	*testservers.Process
	GRPC  string           // host:port for replicas, and for agents unless Public is set
	HTTP  string           // http://host:port, where the control plane runs
	API   string           // https://host:port of the HTTP API for tenants; "" unless Hosted
	Proxy *testproxy.Proxy // between agents and GRPC, with their names as its clients; nil unless Proxied

	forAgents string // host:port of GRPC for agents
	place     testservers.Place
	program   func(testing.TB, string) *testservers.Process
}

// virtualCluster is the name of the one that clusters serve.
const virtualCluster = "main"

// StartCluster starts everything and waits until every process is ready.
func StartCluster(t testing.TB, cfg ClusterConfig) *Cluster {
	t.Helper()
	c := NewCluster(t, cfg)
	for _, p := range c.ControlPlanes {
		p.Launch()
	}
	for _, a := range c.Agents {
		a.Launch()
	}
	for _, p := range c.ControlPlanes {
		p.AwaitReady()
	}
	for _, a := range c.Agents {
		a.AwaitReady()
	}
	return c
}

// NewCluster starts etcd and the S3 server, and describes agents and control planes without starting them.
func NewCluster(t testing.TB, cfg ClusterConfig) *Cluster {
	t.Helper()
	cfg.applyDefaults()
	if cfg.Binary == "" {
		cfg.Binary = Freshet(t)
	}
	c := &Cluster{
		cfg:      cfg,
		Etcd:     testservers.StartEtcd(t, testservers.EtcdConfig{Members: cfg.EtcdMembers, TLS: cfg.TLS, Args: cfg.EtcdFlags, Place: cfg.Place("etcd")}),
		S3:       testservers.StartS3At(t, cfg.Place("s3"), "bucket"),
		AgentKey: "agent-key-of-a-test", OperatorKey: "operator-key-of-a-test",
	}
	c.S3.Endpoint = "http://" + cfg.Front("s3", strings.TrimPrefix(c.S3.Endpoint, "http://"))
	c.BucketURL = c.S3.URL("bucket", "freshet")
	if cfg.StateBucket {
		c.StateS3 = testservers.StartS3At(t, cfg.Place("state"), "state")
		c.StateS3.Endpoint = "http://" + cfg.Front("state", strings.TrimPrefix(c.StateS3.Endpoint, "http://"))
	}
	if cfg.Latency != "" {
		c.BucketURL += "&latency=" + cfg.Latency
	}
	if cfg.TLS {
		c.Files = testservers.NewTLSFiles(t)
	}
	if c.PublicFiles = c.Files; cfg.Hosted && c.Files == nil {
		c.PublicFiles = testservers.NewTLSFiles(t)
	}
	for i := range cfg.ControlPlanes {
		c.ControlPlanes = append(c.ControlPlanes, c.newControlPlane(t, fmt.Sprintf("controlplane-%d", i), c.controlFlags()))
	}
	for i := range cfg.Agents {
		name := fmt.Sprintf("agent-%d", i)
		flags := append(c.tlsFlags(), cfg.AgentFlags...)
		if cfg.FlagsOf != nil {
			flags = append(flags, cfg.FlagsOf(name)...)
		}
		c.Agents = append(c.Agents, c.newAgent(t, name, cfg.Zones[i%len(cfg.Zones)], flags))
	}
	return c
}

func (c *ClusterConfig) applyDefaults() {
	if c.Agents == 0 && !c.Hosted {
		c.Agents = 3
	}
	if c.ControlPlanes == 0 {
		c.ControlPlanes = 2
	}
	if c.EtcdMembers == 0 {
		c.EtcdMembers = 1
	}
	if len(c.Zones) == 0 {
		c.Zones = []string{"a"}
	}
	if c.Ports == 0 {
		c.Ports = 1
	}
	if c.Place == nil {
		c.Place = func(string) testservers.Place { return testservers.Place{} }
	}
	if c.Front == nil {
		c.Front = func(_, address string) string { return address }
	}
}

// NewAgentWith describes one more agent, not among Agents, that has no TLS flags but those given. Where a flag is there
// twice the last one holds.
func (c *Cluster) NewAgentWith(t testing.TB, name string, flags ...string) *Agent {
	t.Helper()
	return c.newAgent(t, name, c.cfg.Zones[0], flags)
}

// NewControlPlaneWith describes one more replica, not among ControlPlanes.
func (c *Cluster) NewControlPlaneWith(t testing.TB, name string, flags ...string) *ControlPlane {
	t.Helper()
	return c.newControlPlane(t, name, append(c.controlFlags(), flags...))
}

// controlFlags are those of every control plane that are its own in no respect.
func (c *Cluster) controlFlags() []string {
	var args []string
	if c.Files != nil {
		e := c.Etcd.Files
		args = append(args, "--tls-cert", c.Files.Cert, "--tls-key", c.Files.Key,
			"--etcd-tls-ca", e.CA, "--etcd-tls-cert", e.Cert, "--etcd-tls-key", e.Key)
		if c.cfg.MutualTLS {
			args = append(args, "--tls-client-ca", c.Files.CA)
		}
	}
	return append(args, c.cfg.ControlFlags...)
}

// tlsFlags are those that let an agent in.
func (c *Cluster) tlsFlags() []string {
	if c.Files == nil {
		return nil
	}
	args := []string{"--control-plane-tls-ca", c.Files.CA}
	if c.cfg.MutualTLS {
		args = append(args, "--control-plane-tls-cert", c.Files.Cert, "--control-plane-tls-key", c.Files.Key)
	}
	return args
}

func (c *Cluster) newControlPlane(t testing.TB, name string, flags []string) *ControlPlane {
	t.Helper()
	p := &ControlPlane{place: c.cfg.Place(name)}
	listen, http := p.place.FreeAddress(t), p.place.FreeAddress(t)
	p.GRPC, p.HTTP = c.cfg.Front(name, listen), "http://"+http
	if c.cfg.Proxied {
		p.Proxy = testproxy.Start(t, listen, c.agentOf)
		p.GRPC = p.Proxy.Address()
	}
	var etcd []string
	for _, m := range c.Etcd.Members {
		etcd = append(etcd, c.cfg.Front("etcd", m.Endpoint))
	}
	args := []string{
		"controlplane", "--etcd", strings.Join(etcd, ","), "--grpc-listen", listen, "--advertise", p.GRPC, "--http-listen", http,
	}
	if c.cfg.Hosted {
		public := p.place.FreeAddress(t)
		p.API = "https://" + c.cfg.Front(name, public)
		args = append(args, "--public-listen", public, "--public-tls-cert", c.PublicFiles.Cert, "--public-tls-key", c.PublicFiles.Key)
	} else {
		args = append(args, "--virtual-cluster", virtualCluster, "--agent-key", c.AgentKey)
	}
	if p.forAgents = p.GRPC; c.cfg.Public != nil {
		p.forAgents = c.cfg.Public(name)
		args = append(args, "--public-address", p.forAgents)
	}
	if c.cfg.StateBucket {
		args = append(args, "--state-bucket", c.StateS3.URL("state", ""))
	} else {
		args = append(args, "--bucket", c.BucketURL)
	}
	args = append(args, flags...)
	p.program = func(t testing.TB, binary string) *testservers.Process {
		t.Helper()
		own := args
		if binary != c.cfg.Earlier {
			own = append(slices.Clip(args), "--operator-key", c.OperatorKey)
		}
		return testservers.NewProcessAt(t, p.place, name, binary, own, readyAt(p.place, p.HTTP))
	}
	p.UseBinary(t, c.cfg.Binary)
	return p
}

// UseBinary sets the program of the control plane, which must not run. Addresses and flags stay.
func (p *ControlPlane) UseBinary(t testing.TB, path string) {
	t.Helper()
	p.Process = p.program(t, path)
}

// UseBinary sets the program of the agent, which must not run. Addresses and flags stay.
func (a *Agent) UseBinary(t testing.TB, path string) {
	t.Helper()
	a.Process = a.program(t, path)
}

func (c *Cluster) newAgent(t testing.TB, name, zone string, flags []string) *Agent {
	t.Helper()
	a := &Agent{Name: name, Zone: zone, place: c.cfg.Place(name)}
	listen, http, peers := a.place.FreeAddress(t), a.place.FreeAddress(t), a.place.FreeAddress(t)
	a.Bootstrap, a.HTTP = c.cfg.Front(name, listen), "http://"+http
	var control []string
	for _, p := range c.ControlPlanes {
		control = append(control, p.forAgents)
	}
	args := []string{
		"agent", "--bucket", c.BucketURL, "--virtual-cluster", virtualCluster, "--zone", a.Zone,
		"--control-plane", strings.Join(control, ","), "--agent-key", c.AgentKey,
		"--kafka-listen", listen, "--http-listen", http, "--memory-limit", "512MiB", "--peer-listen", peers, "--auto-create-topics=false",
	}
	for range c.cfg.Ports - 1 {
		args = append(args, "--kafka-listen", a.place.FreeAddress(t))
	}
	if a.Bootstrap != listen {
		args = append(args, "--advertise", a.Bootstrap, "--peer-advertise", c.cfg.Front(name, peers))
	}
	args = append(args, flags...)
	a.program = func(t testing.TB, binary string) *testservers.Process {
		t.Helper()
		return testservers.NewProcessAt(t, a.place, a.Name, binary, args, readyAt(a.place, a.HTTP))
	}
	a.UseBinary(t, c.cfg.Binary)
	return a
}

// agentOf names the agent that made a connection; "" if none of them did.
func (c *Cluster) agentOf(accepted net.Conn) string {
	processes := make([]*testservers.Process, len(c.Agents))
	for i, a := range c.Agents {
		processes[i] = a.Process
	}
	if p := testservers.Dialer(accepted, processes...); p != nil {
		return c.Agents[slices.Index(processes, p)].Name
	}
	return ""
}

// Bootstrap names all agents, comma-separated.
func (c *Cluster) Bootstrap() string {
	var all []string
	for _, a := range c.Agents {
		all = append(all, a.Bootstrap)
	}
	return strings.Join(all, ",")
}

func address(t testing.TB) string {
	t.Helper()
	return testservers.Place{}.FreeAddress(t)
}

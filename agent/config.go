package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/kafka"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/advertise"
	"github.com/freshet-io/freshet/internal/zonename"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/open"
)

// Config is what an agent is made of. Zero fields get the defaults named.
type Config struct {
	// VirtualCluster is the one that this agent serves, or "" for the one that the key opens.
	VirtualCluster string
	// Zone is the availability zone the agent runs in; it may be empty where there is only one. White space around it is no
	// part of it.
	Zone string
	// Version is the software's, for display.
	Version string

	// ControlPlane are gRPC addresses (host:port) of control-plane replicas; one is enough to find the others.
	ControlPlane []string
	// AgentKey authenticates the agent to the control plane, and opens one virtual cluster.
	AgentKey string
	// ControlPlaneTLS secures the connection to the control plane; nil: plaintext.
	ControlPlaneTLS *tls.Config
	// DialControlPlane replaces the network towards the control plane, in tests.
	DialControlPlane func(ctx context.Context, address string) (net.Conn, error)
	// OwnerTimeout is how long the owner may send nothing before the session's stream to it is given up. Default 3 s.
	OwnerTimeout time.Duration

	// BucketURL is where objects are; the same as the control plane's.
	BucketURL string
	// OneZoneDurability allows a bucket that keeps objects in one availability zone, and loses them with it.
	OneZoneDurability bool
	// Bucket is used instead of opening BucketURL if it is set; the agent closes it.
	Bucket objstore.Bucket
	// Hedge sends a second request to the object store when one takes longer than most do.
	Hedge bool

	// Listen are the addresses that Kafka clients reach, [name=]host:port or [name=]host:first-last; each port is a broker
	// of its own to clients, because stock clients bound the requests in flight to a broker. Default :9092-9095.
	Listen []string
	// Advertise is what clients of a listener are told to connect to: [name=] and one host, or host:port for each port
	// of it, with {zone}, {hostname} and {ip} filled in. Default: the host of Listen, or this machine's name where that
	// is every interface.
	Advertise []string
	// SharedAdvertise makes listeners shared. An entry [listener]/[zone]=host:port, or host:first-last, is the load balancer of a
	// zone, with as many ports as the listener has. Metadata shows it instead of agents. All agents have the same entries.
	SharedAdvertise []string
	// PodIP is the agent's address as {ip}; "": one of this machine's.
	PodIP string
	// ClientNetworks are the zones of clients by network, prefix=zone, for clients that do not name theirs.
	ClientNetworks []string
	// ListenerZones are the zones of all other clients, by the listener that they came by, name=zone. All agents have the same entries.
	ListenerZones []string
	// ZoneListeners adds a listener for each zone of the cluster, as [host:]port=zone,zone,...: ExpandZoneListeners.
	ZoneListeners string
	zoneListeners []string // names of the listeners that ExpandZoneListeners has added
	// Peers is how agents of the zone share what they have in memory.
	Peers PeerConfig
	// KafkaTLS secures the Kafka listeners; nil: plaintext.
	KafkaTLS *tls.Config
	// HTTPListen is the address of /livez, /readyz, /metrics, /debug/pprof. Default :8080.
	HTTPListen string

	// MemoryLimit is the memory that the process may use, in bytes, at least 128 MiB; memory.go divides it. Required.
	MemoryLimit int64
	// RequestMaxBytes is the largest Kafka request taken. Default 100 MiB.
	RequestMaxBytes int32
	// MaxConnections bounds the open connections of Kafka clients; 0 means EffectiveMaxConnections.
	MaxConnections int
	// MaxConnectionsPerIP bounds those of one address; 0 means no limit.
	MaxConnectionsPerIP int
	// OpenFiles is the process's limit of open files; 0 means unknown.
	OpenFiles int64

	// FlushBytes seals a bundle by size. Default 8 MiB.
	FlushBytes int
	// FlushInterval is the longest a batch waits for a PUT token. Default 250 ms.
	FlushInterval time.Duration
	// Linger is the shortest a batch waits for company. Default 5 ms.
	Linger time.Duration
	// HandOver is how long readers wait for a bundle that the agent has committed and not put into its cache yet, before
	// they read the object store; a straggling hedged PUT can hold it longer. Default 200 ms.
	HandOver time.Duration
	// PutBudget is how many PUTs a second the zone makes while bundles are not full, burst the same. Default: 4 at a store that bills
	// requests, else 50 (open.Charges).
	PutBudget float64
	// FastPutBudget is how many more PUTs a second the zone makes for topics with freshet.latency=fast. Default 40.
	FastPutBudget float64

	// NetworkLimit is how many bytes a second the network carries in each direction; 0: not known.
	NetworkLimit int64

	// Roles are the kinds of work that the agent does (Roles). Default: all.
	Roles []string

	// DeleteRate is the maximum number of objects per second that the agent deletes for the control plane, with a burst of
	// objstore.MaxKeys. Default 200.
	DeleteRate float64
	// DeleteMinAge is the minimum age of these objects. Default metadata.DeadBundleMinMs, the least --garbage-grace. Tests with clocks of
	// their own set a negative one, which means none.
	DeleteMinAge time.Duration

	// AutoCreateTopics creates topics that clients ask about, with the cluster's defaults.
	AutoCreateTopics bool

	// DrainTimeout bounds what the agent does after it was told to stop: leave the membership, flush, commit, answer,
	// close its session. Default 5 s.
	DrainTimeout time.Duration

	Log      *zap.Logger
	Registry *prometheus.Registry // takes the metrics; default: a private one
	Gatherer prometheus.Gatherer  // what /metrics shows; default: Registry
}

// ApplyDefaults sets zero fields to their defaults.
func (c *Config) ApplyDefaults() {
	if len(c.Listen) == 0 {
		c.Listen = []string{":9092-9095"}
	}
	c.Zone = strings.TrimSpace(c.Zone)
	c.HTTPListen = cmp.Or(c.HTTPListen, ":8080")
	c.RequestMaxBytes = cmp.Or(c.RequestMaxBytes, 100<<20)
	c.FlushBytes = cmp.Or(c.FlushBytes, 8<<20)
	c.FlushInterval = cmp.Or(c.FlushInterval, 250*time.Millisecond)
	c.Linger = cmp.Or(c.Linger, 5*time.Millisecond)
	c.HandOver = cmp.Or(c.HandOver, 200*time.Millisecond)
	c.Peers.OwnerSilence = cmp.Or(c.Peers.OwnerSilence, 1500*time.Millisecond)
	c.FastPutBudget = cmp.Or(c.FastPutBudget, 40)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	c.DeleteRate = cmp.Or(c.DeleteRate, 200)
	c.DeleteMinAge = cmp.Or(c.DeleteMinAge, metadata.DeadBundleMinMs*time.Millisecond)
	if len(c.Roles) == 0 {
		c.Roles = Roles()
	}
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registry = cmp.Or(c.Registry, prometheus.NewRegistry())
	c.Gatherer = cmp.Or[prometheus.Gatherer](c.Gatherer, c.Registry)
}

// zones tells where clients are.
func (c *Config) zones() (*kafka.Zones, error) {
	return kafka.NewZones(c.Zone, c.ClientNetworks, c.ListenerZones)
}

// Validate reports all faults at once. What belongs to a part is checked by that part.
func (c *Config) Validate() error {
	var faults []error
	if c.VirtualCluster != "" && !id.ValidVirtualCluster(c.VirtualCluster) {
		faults = append(faults, fmt.Errorf("--virtual-cluster %q is no name of a virtual cluster: set it to 1 to %d of a-z A-Z 0-9 . _ -", c.VirtualCluster, id.MaxVirtualClusterName))
	}
	for _, address := range c.ControlPlane {
		host, port, err := net.SplitHostPort(address)
		switch {
		case c.DialControlPlane != nil:
		case advertise.Unbracketed(address):
			faults = append(faults, fmt.Errorf("--control-plane %q is an IPv6 address without brackets: write [address]:port, such as [2001:db8::1]:7050", address))
		case err != nil || host == "" || port == "":
			faults = append(faults, fmt.Errorf("--control-plane %q has no port: write host:port, such as cp-1:7050", address))
		}
	}
	if len(c.ControlPlane) == 0 {
		faults = append(faults, errors.New("no control-plane address (--control-plane)"))
	}
	if c.AgentKey == "" {
		faults = append(faults, errors.New("no agent key (--agent-key)"))
	}
	if _, err := accesskey.ClusterOf(accesskey.AgentPrefix, c.AgentKey); err != nil {
		faults = append(faults, fmt.Errorf("--agent-key %w", err))
	}
	if c.BucketURL == "" && c.Bucket == nil {
		faults = append(faults, errors.New("no bucket (--bucket)"))
	}
	if _, err := divide(c.MemoryLimit); err != nil {
		faults = append(faults, fmt.Errorf("--memory-limit: %w", err))
	}
	faults = append(faults, c.validateAddresses()...)
	faults = append(faults, c.validateZones()...)
	if err := checkRoles(c.Roles); err != nil {
		faults = append(faults, err)
	}
	if c.NetworkLimit < 0 {
		faults = append(faults, fmt.Errorf("network limit of %d bytes a second (--network-limit) is negative", c.NetworkLimit))
	}
	if err := c.Peers.validate(); err != nil {
		faults = append(faults, err)
	}
	if c.RequestMaxBytes < 1<<10 {
		faults = append(faults, fmt.Errorf("request size limit of %d bytes (--request-max-bytes) is below 1 KiB", c.RequestMaxBytes))
	}
	if c.MaxConnections < 0 || c.MaxConnectionsPerIP < 0 {
		faults = append(faults, errors.New("--max-connections and --max-connections-per-ip must not be negative"))
	}
	if c.FlushBytes < 64<<10 || int64(c.FlushBytes) > c.MemoryLimit/8 {
		faults = append(faults, fmt.Errorf("flush size of %d bytes (--flush-bytes) is not between 64 KiB and an eighth of the memory limit", c.FlushBytes))
	}
	if !(c.DeleteRate >= minDeleteRate && c.DeleteRate <= maxDeleteRate) {
		faults = append(faults, fmt.Errorf("--delete-rate is not between %d and %d", minDeleteRate, maxDeleteRate))
	}
	if err := c.ValidateWriting(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// validateZones returns the faults in the agent's zone and in its clients' zones.
func (c *Config) validateZones() (faults []error) {
	if _, err := zonename.Parse(c.Zone); err != nil {
		faults = append(faults, fmt.Errorf("--zone: %w", err))
	}
	for _, entry := range c.ClientNetworks {
		if _, err := kafka.NewZones("", []string{entry}, nil); err != nil {
			faults = append(faults, fmt.Errorf("--client-zones: %w", err))
		}
	}
	listen, listenErr := ParseListen(c.Listen)
	for _, entry := range c.ListenerZones {
		name, _, _ := strings.Cut(entry, "=")
		name = strings.TrimSpace(name)
		if _, err := kafka.NewZones("", nil, []string{entry}); err != nil {
			faults = append(faults, fmt.Errorf("--listener-zones: %w", err))
		} else if listenErr == nil && !slices.ContainsFunc(listen, func(l Listen) bool { return l.Name == name }) {
			faults = append(faults, fmt.Errorf("--listener-zones %q: there is no listener %q: add it to --kafka-listen", entry, name))
		}
	}
	return faults
}

// validateAddresses returns the faults in the addresses that the agent listens on and advertises.
func (c *Config) validateAddresses() (faults []error) {
	for _, spec := range c.Listen {
		name, _, named := strings.Cut(spec, "=")
		if named && !id.ValidVirtualCluster(name) { // the names of listeners and of virtual clusters follow one rule
			faults = append(faults, fmt.Errorf("--kafka-listen %q: %q is no name of a listener: set it to 1 to %d of a-z A-Z 0-9 . _ -", spec, name, id.MaxVirtualClusterName))
		} else if _, err := ParseListen([]string{spec}); err != nil {
			faults = append(faults, fmt.Errorf("--kafka-listen: %w", err))
		}
	}
	if len(faults) > 0 {
		return faults
	}
	all, err := c.addresses()
	switch {
	case err == nil:
	case strings.HasPrefix(err.Error(), "--"):
		return []error{err}
	default:
		return []error{fmt.Errorf("--advertise: %w", err)}
	}
	for _, a := range all.told {
		if err := advertise.CheckHost(a.Host); err != nil {
			return []error{fmt.Errorf("--advertise %w", err)}
		}
	}
	if c.Peers.Advertise == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Peers.Advertise)
	if err != nil {
		host = c.Peers.Advertise // without a port
	}
	if err := advertise.CheckHost(host); err != nil {
		return []error{fmt.Errorf("--peer-advertise %w", err)}
	}
	return nil
}

// ValidateWriting reports the faults in how records are written, where defaults have been filled in: a zero is not one of them.
func (c *Config) ValidateWriting() error {
	var faults []error
	for _, b := range []struct {
		flag  string
		value float64
	}{
		{"--flush-interval", float64(c.FlushInterval)},
		{"--linger", float64(c.Linger)},
		{"--fast-put-budget", c.FastPutBudget},
		{"--drain-timeout", float64(c.DrainTimeout)},
	} {
		if !(b.value > 0) { // nor a number
			faults = append(faults, fmt.Errorf("%s is not above 0", b.flag))
		}
	}
	if !(c.PutBudget >= 0 && c.PutBudget <= maxPutBudget) {
		faults = append(faults, fmt.Errorf("--put-budget is not above 0 and at most %d", maxPutBudget))
	}
	return errors.Join(faults...)
}

// Bounds of DeleteRate. At the least, the objects of one errand wait 20 of the 30 s that it has. The most is more than any object store takes.
const (
	minDeleteRate = objstore.MaxKeys / 20
	maxDeleteRate = 1_000_000
)

// maxPutBudget is more than any object store takes. The owner drops load reports with larger budgets.
const maxPutBudget = 1_000_000

// Defaults of PutBudget.
const (
	billedPutBudget = 4
	freePutBudget   = 50
)

// EffectivePutBudget returns PutBudget, or its default for the bucket, and the reason as a clause of a log line.
func (c *Config) EffectivePutBudget() (rate float64, reason string) {
	if c.PutBudget > 0 {
		return c.PutBudget, "--put-budget is set"
	}
	charges, reason := open.Charges(c.BucketURL)
	if charges {
		return billedPutBudget, reason
	}
	return freePutBudget, reason
}

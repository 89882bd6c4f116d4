package controlplane

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/controlplane/registry/mail"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/scale"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/advertise"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
)

// Default addresses.
const (
	DefaultGRPCListen = ":7050"
	DefaultHTTPListen = ":8090"
)

// VirtualCluster is one Kafka cluster as clients see it.
type VirtualCluster struct {
	// Name is part of etcd keys and object keys: 1 to 249 characters of a-z A-Z 0-9 . _ -
	Name string
	// AgentKeys are the keys of its agents, at least one without a file of them. The virtual cluster does not start if one holds another cluster id (package accesskey).
	AgentKeys []string
	// ReadOnlyKeys open the calls of scalers.
	ReadOnlyKeys []string
	// DefaultPartitions is the partition count of topics created without one; default 1.
	DefaultPartitions int32
	// Broker is what Kafka's brokers have in their configuration about groups and transactions.
	Broker brokerconfig.Settings
}

// Config of a control-plane replica.
type Config struct {
	// ReplicaID is unique among the replicas and stays the same over restarts. If two replicas have one id, the later one ends
	// after half a minute.
	ReplicaID string
	// Version of the program, for operators.
	Version string
	// GRPCListen is the address for agents; default ":7050". Port 0 takes any.
	GRPCListen string
	// Advertise is the host:port at which agents and other replicas reach GRPCListen, with {hostname} and {ip} filled in.
	// Default: the host of GRPCListen. If that is every address, the default is this machine's IP address, with TLS its name.
	Advertise string
	// PublicAddress is the host:port at which agents reach GRPCListen, if that is not Advertise. Other replicas never use it.
	PublicAddress string
	// PodIP is the replica's address as {ip}; "": one of this machine's.
	PodIP string
	// HTTPListen is the address of /livez, /readyz, /metrics and /debug/pprof; default ":8090". "none" turns them off.
	HTTPListen string
	// TLS is for agents; nil for none. ReplicaTLS is for connections to other replicas' GRPCListen; nil if TLS is nil.
	TLS, ReplicaTLS *tls.Config
	// PublicListen is the address of the HTTP API for tenants (package registry/httpapi); "" turns it off. It needs PublicTLS.
	PublicListen string
	PublicTLS    *tls.Config
	// SignUp is the value of --signup for PublicListen; default closed.
	SignUp httpapi.SignUpMode
	// MaxHosted is the value of --max-hosted-clusters for PublicListen; default registry.DefaultMaxHosted.
	MaxHosted int
	// MailServer sends mails for PublicListen, which name PublicURL; nil sends none.
	MailServer *mail.Server
	PublicURL  string
	// TrustedProxies are the networks of proxies before PublicListen whose X-Forwarded-For counts.
	TrustedProxies []netip.Prefix

	// OperatorKeys open the operators' calls of all virtual clusters, and profiles; empty: neither is served, unless KeyFiles has some.
	OperatorKeys []string
	// KeyFiles are paths of files of keys by kind (keys.File): Agent, ReadOnly and Operator. They are read again when they change.
	KeyFiles map[keys.Kind]string

	// Etcd holds the metadata logs. It is not closed here.
	Etcd *clientv3.Client
	// EtcdTLS is the TLS configuration of Etcd, or nil.
	EtcdTLS *tls.Config
	// EtcdPrefix is the beginning of all keys; default etcdlog.DefaultPrefix.
	EtcdPrefix string
	// NoMaintenance turns off compacting and defragmenting etcd (see etcdlog.Maintainer).
	NoMaintenance bool
	// Bucket has the snapshots, under "<cluster id>/snapshots/", and the clock by which objects age. Without AgentsBucket, agents keep bundles
	// there too, under "<cluster id>/bundles/". It is not closed here.
	Bucket objstore.Bucket
	// BucketLocation names Bucket in logs and errors, without secrets.
	BucketLocation string
	// AgentsBucket reports that agents keep bundles in a bucket that control planes do not reach. Agents mark it.
	AgentsBucket bool
	// VirtualClusters of the settings. Others come from etcd (package directory).
	VirtualClusters []VirtualCluster
	// TakeOver removes this replica's own old ownership at start instead of waiting for its lease. Only for a process
	// that holds a lock which proves that its predecessor is gone (freshet dev).
	TakeOver bool

	// StateVersion is the newest version that states may rise to while this replica runs. A state's version never falls, so a
	// lower one keeps an upgrade reversible. 0 means the newest that this program knows.
	StateVersion uint32

	// Timing of ownership; zero fields take the defaults.
	Timing metalog.Timing
	// Limits of agent sessions; zero fields take the defaults, or what follows from the description of a virtual cluster.
	Limits session.Limits
	// A snapshot is taken after SnapshotBytes of log or SnapshotInterval; defaults 64 MiB, 5 min.
	SnapshotBytes    int64
	SnapshotInterval time.Duration
	// Above SoftLogBytes of untrimmed log a virtual cluster's commits are delayed, above HardLogBytes they are refused; defaults
	// 256 MiB, 512 MiB.
	SoftLogBytes, HardLogBytes int64
	// MemoryLimit is the memory of the process, in bytes. The virtual clusters of the settings share it (Bounds). Those of etcd have memory of
	// their own (directory.Spec). Default: the
	// limit of the Go runtime (GOMEMLIMIT), or no bound if that has none.
	MemoryLimit int64
	// MaxExtents and MaxFreshBundles bound the live extents of a virtual cluster and its bundles that are not compacted yet.
	// Commits are delayed from 3/4 of either bound on, and refused at it. Defaults: the extents that MemoryLimit allows if nothing
	// else takes memory, or 4 Mi without a limit; 100,000.
	MaxExtents      int64
	MaxFreshBundles int
	// MaxProducers bounds the idempotent producers that wrote to a partition of a virtual cluster within 24 hours, each counted
	// once per partition. Beyond it a new one is refused. Default: an eighth of MemoryLimit over the virtual
	// clusters, metadata.ProducerBytes each, at least 65,536, or metadata.MaxProducers if there is no limit.
	MaxProducers int64
	// StateLimits are the limits of a virtual cluster's topics, groups and the like. 0 takes the number that needs half of the state's
	// memory, which follows from MemoryLimit, or no limit if there is no MemoryLimit.
	StateLimits metadata.Limits
	// Lifecycle has the intervals of retention and of deletion; zero fields take the defaults.
	Lifecycle lifecycle.Settings
	// Jobs has the rules for planning and distributing background jobs; zero fields take the defaults.
	Jobs job.Settings
	// Scale has the targets for the number of agents of a zone; zero fields take the defaults.
	Scale scale.Settings

	Log *zap.Logger
	// Registry has the metrics that /metrics shows; default a new one.
	Registry *prometheus.Registry
}

// Bounds of a replica's life.
const (
	// stopGRPC is the time that calls in flight have when the replica stops. Streams end before.
	stopGRPC = time.Second
	// readMembers is the interval of reading the other replicas' addresses.
	readMembers = 2 * time.Second
	// introduction is the time after registration in which the other replicas have read this one's address: their interval, and time for the answer.
	introduction = readMembers + time.Second
)

// ApplyDefaults sets fields that are zero to their defaults.
func (c *Config) ApplyDefaults() {
	c.GRPCListen = cmp.Or(c.GRPCListen, DefaultGRPCListen)
	c.HTTPListen = cmp.Or(c.HTTPListen, DefaultHTTPListen)
	c.EtcdPrefix = cmp.Or(c.EtcdPrefix, etcdlog.DefaultPrefix)
	c.MaxHosted = cmp.Or(c.MaxHosted, registry.DefaultMaxHosted)
	c.SignUp = cmp.Or(c.SignUp, httpapi.SignUpClosed)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registry = cmp.Or(c.Registry, prometheus.NewRegistry())
	c.Timing.ApplyDefaults()
	var l session.Limits
	l.ApplyDefaults()
	c.Limits.SessionTimeout = cmp.Or(c.Limits.SessionTimeout, l.SessionTimeout) // other defaults depend on the virtual cluster
	c.Lifecycle.ApplyDefaults()
	c.Jobs.ApplyDefaults()
	c.Scale.ApplyDefaults()
	var r replica.Config
	r.ApplyDefaults()
	c.SnapshotBytes = cmp.Or(c.SnapshotBytes, r.SnapshotBytes)
	c.SnapshotInterval = cmp.Or(c.SnapshotInterval, r.SnapshotInterval)
	c.SoftLogBytes = cmp.Or(c.SoftLogBytes, r.Owner.SoftLogBytes)
	c.HardLogBytes = cmp.Or(c.HardLogBytes, r.Owner.HardLogBytes)
}

// bucketSetting returns the setting of Bucket.
func (c *Config) bucketSetting() string {
	if c.AgentsBucket {
		return "--state-bucket"
	}
	return "--bucket"
}

// Validate returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if c.ReplicaID == "" {
		errs = append(errs, errors.New("no replica id"))
	}
	if strings.ContainsFunc(c.ReplicaID, unprintable) || strings.Contains(c.ReplicaID, "/") {
		errs = append(errs, fmt.Errorf("--replica-id %q is no name of a replica: set it to printable ASCII without spaces and slashes", c.ReplicaID))
	}
	if !validPrefix(c.EtcdPrefix) {
		errs = append(errs, fmt.Errorf("--etcd-prefix %q is no prefix of keys: set it to / and printable ASCII without spaces and without / at the end, such as %s",
			c.EtcdPrefix, etcdlog.DefaultPrefix))
	}
	if c.Etcd == nil {
		errs = append(errs, errors.New("no etcd"))
	}
	if c.Bucket == nil {
		errs = append(errs, errors.New("no bucket"))
	}
	if c.MaxProducers < 0 {
		errs = append(errs, fmt.Errorf("bound of %d producers: must not be negative", c.MaxProducers))
	}
	for kind, limit := range c.StateLimits {
		if limit < 0 {
			errs = append(errs, fmt.Errorf("%s %d: must not be negative", metadata.LimitKind(kind).Setting(), limit))
		}
	}
	if v := c.stateVersion(); v < metadata.MinVersion || v > metadata.MaxVersion {
		errs = append(errs, fmt.Errorf("state version %d: this program knows %d to %d", v, metadata.MinVersion, metadata.MaxVersion))
	}
	if _, err := c.advertised(advertise.Here("", c.PodIP), 0); err != nil {
		errs = append(errs, err)
	}
	if c.PublicAddress != "" {
		if err := checkAddress("--public-address", c.PublicAddress); err != nil {
			errs = append(errs, err)
		}
	}
	if c.MaxHosted < 1 {
		errs = append(errs, fmt.Errorf("--max-hosted-clusters %d: must be at least 1", c.MaxHosted))
	}
	if c.PublicListen != "" && c.PublicTLS == nil {
		errs = append(errs, errors.New("--public-listen has no certificate: set --public-tls-cert and --public-tls-key"))
	}
	seen := map[string]bool{}
	for _, vc := range c.VirtualClusters {
		if seen[vc.Name] {
			errs = append(errs, fmt.Errorf("virtual cluster %q is given twice", vc.Name))
		}
		seen[vc.Name] = true
		if !id.ValidVirtualCluster(vc.Name) {
			errs = append(errs, fmt.Errorf("--virtual-cluster %q is no name of a virtual cluster: set it to 1 to %d of a-z A-Z 0-9 . _ -", vc.Name, id.MaxVirtualClusterName))
		}
		if err := vc.Broker.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("virtual cluster %q: %w", vc.Name, err))
		}
		if len(vc.AgentKeys) == 0 && c.KeyFiles[keys.Agent] == "" {
			errs = append(errs, fmt.Errorf("virtual cluster %q has no agent key", vc.Name))
		}
		if slices.Contains(vc.AgentKeys, "") || slices.Contains(vc.ReadOnlyKeys, "") {
			errs = append(errs, fmt.Errorf("virtual cluster %q has an empty key", vc.Name))
		}
		if _, err := vc.clusterID(); err != nil {
			errs = append(errs, fmt.Errorf("virtual cluster %q: %w", vc.Name, err))
		}
	}
	for _, key := range c.OperatorKeys {
		if _, err := accesskey.ClusterOf(accesskey.OperatorPrefix, key); err != nil {
			errs = append(errs, fmt.Errorf("--operator-key %w", err))
		}
		if key == "" {
			errs = append(errs, errors.New("--operator-key: an empty key"))
		}
	}
	if err := keys.NewSet().Replace("settings", c.keys()); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, c.Lifecycle.Validate(), c.Jobs.Validate(), c.Scale.Validate())...)
}

// keys returns the keys in the settings.
func (c *Config) keys() (all []keys.Entry) {
	for _, vc := range c.VirtualClusters {
		all = append(all, vc.spec(0).Entries()...)
	}
	for _, key := range c.OperatorKeys {
		all = append(all, keys.Entry{Hash: accesskey.HashOf(key), Kind: keys.Operator})
	}
	return all
}

// spec returns the description of the virtual cluster, with the cluster id in its keys if clusterID returns no error.
func (vc *VirtualCluster) spec(memory int64) *directory.Spec {
	s := &directory.Spec{Name: vc.Name, State: directory.Active, Warm: true, Memory: memory, DefaultPartitions: vc.DefaultPartitions, Broker: vc.Broker}
	s.ID, _ = vc.clusterID() // Validate has reported the error
	for _, key := range vc.AgentKeys {
		s.Keys = append(s.Keys, directory.Key{Hash: accesskey.HashOf(key), Kind: keys.Agent})
	}
	for _, key := range vc.ReadOnlyKeys {
		s.Keys = append(s.Keys, directory.Key{Hash: accesskey.HashOf(key), Kind: keys.ReadOnly})
	}
	return s
}

// clusterID returns the cluster id in the keys, or "" if none has one. It returns an error for a malformed key, and for keys of two cluster
// ids.
func (vc *VirtualCluster) clusterID() (string, error) {
	common := ""
	check := func(setting, prefix string, all []string) error {
		for _, key := range all {
			clusterID, err := accesskey.ClusterOf(prefix, key)
			switch {
			case err != nil:
				return fmt.Errorf("%s %w", setting, err)
			case clusterID != "" && common != "" && clusterID != common:
				return fmt.Errorf("%s: keys of two clusters, %s and %s: remove those of the other cluster", setting, common, clusterID)
			}
			common = cmp.Or(clusterID, common)
		}
		return nil
	}
	err := errors.Join(check("--agent-key", accesskey.AgentPrefix, vc.AgentKeys), check("--read-only-key", accesskey.ReadOnlyPrefix, vc.ReadOnlyKeys))
	return common, err
}

// validPrefix reports whether prefix is a valid prefix of the keys in etcd. It must not end with a slash: /freshet and /freshet/
// would be two clusters.
func validPrefix(prefix string) bool {
	return !strings.ContainsFunc(prefix, unprintable) && strings.HasPrefix(prefix, "/") && !strings.HasSuffix(prefix, "/")
}

// unprintable reports whether c is a space or not printable ASCII.
func unprintable(c rune) bool { return c <= ' ' || c > '~' }

// SnapshotPrefix returns the prefix of the snapshots of a cluster id in the bucket.
func SnapshotPrefix(clusterID string) string { return marker.Prefix(clusterID) + "snapshots/" }

// BundlePrefix returns the prefix of the bundles of a cluster id in the bucket.
func BundlePrefix(clusterID string) string { return marker.Prefix(clusterID) + "bundles/" }

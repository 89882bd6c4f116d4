package controlplane

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/scale"
	"github.com/freshet-io/freshet/controlplane/session"
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
	// AgentKeys are the keys that its agents may use; at least one.
	AgentKeys []string
	// DefaultPartitions is the partition count of topics created without one; default 1.
	DefaultPartitions int32
	// Broker is what Kafka's brokers have in their configuration about groups and transactions.
	Broker brokerconfig.Settings
}

// Config of a control-plane replica.
type Config struct {
	// ReplicaID is unique among the replicas and stays the same over restarts. A replica that starts beside another one of its id
	// ends after half a minute.
	ReplicaID string
	// GRPCListen is where agents are served; default ":7050". Port 0 takes any.
	GRPCListen string
	// Advertise is the host:port at which agents and other replicas reach GRPCListen, with {hostname} and {ip} filled in.
	// Default: the host of GRPCListen, or where that is every address this machine's IP address, with TLS its name.
	Advertise string
	// PodIP is the replica's address as {ip}; "": one of this machine's.
	PodIP string
	// HTTPListen is where /livez, /readyz, /metrics and /debug/pprof are served; default ":8090", "none" for nowhere.
	HTTPListen string
	// TLS for agents; nil for none. ReplicaTLS is for connections to other replicas' GRPCListen, nil where TLS is.
	TLS, ReplicaTLS *tls.Config

	// Etcd holds the metadata logs. It is not closed here.
	Etcd *clientv3.Client
	// EtcdPrefix is where all keys begin; default etcdlog.DefaultPrefix.
	EtcdPrefix string
	// NoMaintenance leaves compacting and defragmenting etcd to somebody else (see etcdlog.Maintainer).
	NoMaintenance bool
	// Bucket holds snapshots, under "<cluster id>/snapshots/", and the agents' bundles, under
	// "<cluster id>/bundles/". It is not closed here.
	Bucket objstore.Bucket
	// BucketLocation is where that is, for people; without secrets.
	BucketLocation string
	// VirtualClusters served; at least one.
	VirtualClusters []VirtualCluster
	// TakeOver removes this replica's own old ownership at start instead of waiting for its lease. Only for a process
	// that holds a lock which proves that its predecessor is gone (freshet dev).
	TakeOver bool

	// StateVersion is the newest version that states may rise to while this replica is there, for upgrades that are to be
	// taken back: a state's version never falls. 0: the newest that this program knows.
	StateVersion uint32

	// Timing of ownership; zero fields take the defaults.
	Timing metalog.Timing
	// Limits of agent sessions; zero fields take the defaults.
	Limits session.Limits
	// SnapshotBytes and SnapshotInterval are the log and the time after which a snapshot is taken; defaults 64 MiB, 5 min.
	SnapshotBytes    int64
	SnapshotInterval time.Duration
	// SoftLogBytes is the untrimmed log of a virtual cluster from which on its commits are slowed down, HardLogBytes
	// that from which on they are refused; defaults 256 MiB, 512 MiB.
	SoftLogBytes, HardLogBytes int64
	// MaxExtents and MaxFreshBundles bound the live extents of a virtual cluster and its bundles that were not compacted
	// yet: from 3/4 of either on its commits are slowed down, at the bound they are refused. Defaults: a quarter of the
	// memory limit (GOMEMLIMIT) over the virtual clusters, 64 bytes an extent, or 4 Mi if there is none; 100,000.
	MaxExtents      int64
	MaxFreshBundles int
	// MaxProducers bounds the idempotent producers that wrote to a partition of a virtual cluster within 24 hours, each counted
	// once per partition. Beyond it a new one is refused. Default: an eighth of the memory limit (GOMEMLIMIT) over the virtual
	// clusters, metadata.ProducerBytes each, at least 65,536, or metadata.MaxProducers if there is no limit.
	MaxProducers int64
	// Lifecycle says how often retention is looked at and when what is dead is deleted; zero fields take the defaults.
	Lifecycle lifecycle.Settings
	// Jobs says when background jobs are planned and how they are shared out; zero fields take the defaults.
	Jobs job.Settings
	// Scale says how many agents zones should have; zero fields take the defaults.
	Scale scale.Settings

	Log *zap.Logger
	// Registry takes the metrics, and is what /metrics shows; default a new one.
	Registry *prometheus.Registry
}

// Bounds of a replica's life.
const (
	// stopGRPC is how long calls under way get when the replica stops; streams were ended before.
	stopGRPC = time.Second
	// registrationLife is the lease of the replica's address in etcd.
	registrationLife = 10 * time.Second
	// readRegistry is how often the other replicas' addresses are read.
	readRegistry = 2 * time.Second
)

// ApplyDefaults sets what is zero to its default.
func (c *Config) ApplyDefaults() {
	c.GRPCListen = cmp.Or(c.GRPCListen, DefaultGRPCListen)
	c.HTTPListen = cmp.Or(c.HTTPListen, DefaultHTTPListen)
	c.EtcdPrefix = cmp.Or(c.EtcdPrefix, etcdlog.DefaultPrefix)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registry = cmp.Or(c.Registry, prometheus.NewRegistry())
	c.Timing.ApplyDefaults()
	c.Limits.ApplyDefaults()
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

// extentBytes is about what an extent takes in memory, with its share of the tree.
const extentBytes = 64

// maxExtents is the bound of live extents of one virtual cluster; 0 for the owner's default.
func (c *Config) maxExtents() int64 {
	limit := debug.SetMemoryLimit(-1)
	if c.MaxExtents != 0 || limit == math.MaxInt64 {
		return c.MaxExtents
	}
	return max(1, limit/4/extentBytes/int64(max(1, len(c.VirtualClusters))))
}

// leastProducers is the least default bound of active producers.
const leastProducers = 1 << 16

// maxProducers is the bound of active producers of one virtual cluster.
func (c *Config) maxProducers() int64 {
	limit := debug.SetMemoryLimit(-1)
	switch {
	case c.MaxProducers != 0:
		return c.MaxProducers
	case limit == math.MaxInt64:
		return metadata.MaxProducers
	}
	return max(leastProducers, limit/8/metadata.ProducerBytes/int64(max(1, len(c.VirtualClusters))))
}

// Validate gives all faults at once.
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
	if v := c.stateVersion(); v < metadata.MinVersion || v > metadata.MaxVersion {
		errs = append(errs, fmt.Errorf("state version %d: this program knows %d to %d", v, metadata.MinVersion, metadata.MaxVersion))
	}
	if len(c.VirtualClusters) == 0 {
		errs = append(errs, errors.New("no virtual cluster"))
	}
	if _, err := c.advertised(advertise.Here("", c.PodIP), 0); err != nil {
		errs = append(errs, err)
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
		if len(vc.AgentKeys) == 0 {
			errs = append(errs, fmt.Errorf("virtual cluster %q has no agent key", vc.Name))
		}
		for _, key := range vc.AgentKeys {
			if key == "" {
				errs = append(errs, fmt.Errorf("virtual cluster %q has an empty agent key", vc.Name))
			}
		}
	}
	return errors.Join(append(errs, c.Lifecycle.Validate(), c.Jobs.Validate(), c.Scale.Validate())...)
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

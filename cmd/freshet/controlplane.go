package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/controlplane/registry/mail"
	"github.com/freshet-io/freshet/internal/advertise"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/logging"
	"github.com/freshet-io/freshet/internal/program"
	"github.com/freshet-io/freshet/internal/spoken"
	"github.com/freshet-io/freshet/internal/tlsfiles"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/open"
)

// controlSettings are a control-plane replica's configuration as flags say it.
type controlSettings struct {
	controlplane.Config
	log               logging.Config
	bucketURL         string
	stateBucketURL    string
	oneZone           bool
	etcd              etcdlog.ClientConfig
	etcdTLS           tlsfiles.Files
	forceEtcdTLS      bool
	tls               tlsfiles.Files
	replicaCA         string
	publicTLS         tlsfiles.Files
	trustedProxies    []string
	smtpURL, mailFrom string
	virtualClusters   []string
	agentKeys         []string
	readOnlyKeys      []string
	keyFiles          struct{ agents, readers, operators string }
	defaultPartitions int32
	broker            brokerconfig.Settings
}

const defaultPartitionsHelp = "partitions of topics that are created without a number"

// etcdCheck bounds the look at etcd's members at start.
const etcdCheck = 5 * time.Second

// collectAt is the growth of the heap, in percent, at which the garbage collector runs if GOGC is not set. Go's default is 100. The heap of a
// control plane lives long, and idle virtual clusters make little garbage. So less room for garbage saves memory, and costs little.
const collectAt = 60

func newControlPlane(p program.Program) *cobra.Command {
	s := controlSettings{defaultPartitions: 1}
	s.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "controlplane",
		Short: "Run a control-plane replica: the sequencer of virtual clusters",
		Long: "Run a control-plane replica. It gives records their offsets, coordinates groups and transactions, and plans what agents do in\n" +
			"the background; records do not pass through it. Each virtual cluster is run by one replica, its owner, and another one takes\n" +
			"over when that fails: run three.\n\n" +
			"Needed are --bucket (the agents') or --state-bucket, --virtual-cluster, --agent-key or --agent-keys, and --etcd. /readyz says why a replica is not ready.\n\n" +
			"With --public-listen, tenants create virtual clusters by an HTTP API, and --virtual-cluster is not needed. `freshet ctl` calls the API.",
		Example: `  freshet controlplane --etcd etcd-1:2379,etcd-2:2379,etcd-3:2379 --virtual-cluster main --agent-key "$KEY" \
      --bucket 's3://name/prefix?region=eu-central-1' --grpc-listen :7050 --advertise cp-1.internal:7050`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), p) },
	}
	f := cmd.Flags()
	f.StringVar(&s.bucketURL, "bucket", s.bucketURL, bucketHelp)
	f.StringVar(&s.stateBucketURL, "state-bucket", s.stateBucketURL, "bucket or prefix for the control plane's own objects, in the syntax of --bucket and instead of it; only agents reach the records then")
	f.BoolVar(&s.oneZone, "one-zone-durability", s.oneZone, oneZoneHelp)
	f.Var(config.List(&s.virtualClusters), "virtual-cluster", "names of the virtual clusters to serve")
	f.StringVar(&s.keyFiles.agents, "agent-keys", "", "file of agent keys, read again when it changes: in each line the name of a virtual cluster and the SHA-256 of a key, in hexadecimal digits")
	f.Var(config.List(&s.OperatorKeys), "operator-key", "keys for `freshet status`, cluster, job, zone, bundle and deleted topics of all virtual clusters, and for profiles; better given in the environment")
	f.StringVar(&s.keyFiles.operators, "operator-keys", "", "file of operator keys, read again when it changes: in each line the SHA-256 of a key, in hexadecimal digits")
	f.Var(config.List(&s.readOnlyKeys), "read-only-key", "keys for lists of zones, writers and jobs, as autoscalers need them; each NAME=KEY, or KEY if there is one virtual cluster; better given in the environment")
	f.StringVar(&s.keyFiles.readers, "read-only-keys", "", "file of read-only keys, as --agent-keys")
	f.Var(config.List(&s.agentKeys), "agent-key", "agent keys, each NAME=KEY with the virtual cluster that it opens, or KEY if there is one virtual cluster; several of one while it is being replaced; better given in the environment")
	f.StringVar(&s.ReplicaID, "replica-id", s.ReplicaID, "name of this replica, unique and the same over restarts; if not given, the machine's name and the port of --grpc-listen. "+
		"Set it where that name changes, as in a Deployment, and where several replicas on one machine take any port (0). "+
		"In a StatefulSet the default is right")
	f.Uint32Var(&s.StateVersion, "state-version", s.StateVersion, "newest version that the metadata may rise to, for an upgrade that is to be taken back; 0 is the newest that this program knows")
	f.StringVar(&s.GRPCListen, "grpc-listen", s.GRPCListen, "address for agents")
	f.StringVar(&s.Advertise, "advertise", s.Advertise, "host:port at which agents and the other replicas reach --grpc-listen; "+
		"{hostname} and {ip} are filled in; if not given, the host listened on, or this machine's IP address, with TLS its name")
	f.StringVar(&s.PublicAddress, "public-address", "", "host:port at which agents reach this replica if they cannot reach --advertise, such as port 443 of a load balancer before it. Each replica has its own, "+
		"which the certificate of --tls-cert names; if not given, --advertise")
	f.StringVar(&s.HTTPListen, "http-listen", s.HTTPListen, "address of /livez, /readyz, /metrics and /debug/pprof; none for nowhere")
	f.StringVar(&s.PublicListen, "public-listen", "", "address of the HTTP API for tenants, over TLS: teams, virtual clusters, agent keys and API tokens; if not given, it is not served")
	f.StringVar(&s.publicTLS.Cert, "public-tls-cert", "", "PEM file or text of the certificate of --public-listen")
	f.StringVar(&s.publicTLS.Key, "public-tls-key", "", "PEM file or text of the key of --public-tls-cert")
	f.Var(config.Choice((*string)(&s.SignUp), httpapi.SignUpModes()...), "signup", "who creates accounts at --public-listen: with closed, operators alone; with invite-only, also invitations into a team; with open, anyone gets an account with a team, a virtual cluster and an agent key")
	f.IntVar(&s.MaxHosted, "max-hosted-clusters", registry.DefaultMaxHosted, "number of virtual clusters of all teams up to which --public-listen creates further ones; teams of a sign-up that no operator has approved leave a tenth to the others; the same on all replicas")
	f.StringVar(&s.PublicURL, "public-url", "", "https:// address at which tenants reach --public-listen, in mails")
	f.StringVar(&s.smtpURL, "smtp-url", "", "mail server for sign-ups and forgotten passwords: smtps://user:password@host:465, or smtp://user:password@host:587 for STARTTLS; sign-ups are then confirmed by mail. Better given in the environment")
	f.StringVar(&s.mailFrom, "mail-from", "", "sender of mails, such as \"Freshet <freshet@example.com>\"")
	f.Var(config.List(&s.trustedProxies), "trusted-proxies", "networks of proxies before --public-listen, such as 10.0.0.0/8; X-Forwarded-For counts from these alone")
	f.StringVar(&s.tls.Cert, "tls-cert", "", "PEM file or text of the certificate for agents; turns TLS on")
	f.StringVar(&s.tls.Key, "tls-key", "", "PEM file or text of the key of --tls-cert")
	f.StringVar(&s.tls.CA, "tls-client-ca", "", "PEM file or text of certificates that agents' certificates must be signed by")
	f.StringVar(&s.replicaCA, "tls-replica-ca", "", "PEM file or text of certificates that other replicas' certificates must be signed by, for operators' calls that are forwarded to the owner. "+
		"With --tls-client-ca, --tls-cert is shown to them and must be valid for clients too; if not given, --tls-client-ca, else the system's")
	f.Int32Var(&s.defaultPartitions, "default-partitions", s.defaultPartitions, defaultPartitionsHelp)
	f.Var(config.Size(&s.MemoryLimit), "memory-limit", "memory to use; 0 is GOMEMLIMIT, else nine tenths of the container's limit or of the machine")
	s.bindEtcd(f)
	s.bindTimings(f)
	s.bindLogBudget(f)
	bindLimits(f, &s.StateLimits)
	bindLifecycle(f, &s.Lifecycle)
	bindJobs(f, &s.Jobs)
	bindTarget(f, &s.Scale)
	s.broker.Bind(f)
	program.BindLog(f, &s.log)
	groupServer(f)
	return cmd
}

func (s *controlSettings) bindEtcd(f *pflag.FlagSet) {
	f.Var(config.List(&s.etcd.Endpoints), "etcd", "host:port of all etcd members")
	f.StringVar(&s.EtcdPrefix, "etcd-prefix", s.EtcdPrefix, "where all keys in etcd begin")
	f.StringVar(&s.etcd.Username, "etcd-username", "", "user to authenticate to etcd as")
	f.StringVar(&s.etcd.Password, "etcd-password", "", "password of --etcd-username; better given in the environment")
	f.BoolVar(&s.forceEtcdTLS, "etcd-tls", s.forceEtcdTLS, "use TLS to etcd")
	f.StringVar(&s.etcdTLS.CA, "etcd-tls-ca", "", "PEM file or text of certificates to trust for etcd; implies --etcd-tls")
	f.StringVar(&s.etcdTLS.Cert, "etcd-tls-cert", "", "PEM file or text of the certificate shown to etcd")
	f.StringVar(&s.etcdTLS.Key, "etcd-tls-key", "", "PEM file or text of the key of --etcd-tls-cert")
	f.BoolVar(&s.NoMaintenance, "no-etcd-maintenance", s.NoMaintenance, "do not compact and defragment etcd, for an etcd with maintenance of its own")
}

func (s *controlSettings) bindTimings(f *pflag.FlagSet) {
	f.DurationVar(&s.Timing.Lease, "lease", s.Timing.Lease, "how long a dead owner keeps its virtual clusters; whole seconds")
	f.DurationVar(&s.Timing.Renew, "lease-renew", s.Timing.Renew, "how often an owner renews")
	f.DurationVar(&s.Timing.SelfFence, "self-fence", s.Timing.SelfFence, "time without a renewed lease after which an owner stops answering")
	f.DurationVar(&s.Limits.SessionTimeout, "session-timeout", s.Limits.SessionTimeout, "time without a message after which an agent's session is closed; its uncommitted bundles are rejected")
}

func (s *controlSettings) bindLogBudget(f *pflag.FlagSet) {
	f.Var(config.Size(&s.SnapshotBytes), "snapshot-bytes", "take a snapshot of a virtual cluster's state after this much of its log")
	f.DurationVar(&s.SnapshotInterval, "snapshot-interval", s.SnapshotInterval, "take a snapshot of a virtual cluster's state after this much time, if --snapshot-bytes did not come first")
	f.Var(config.Size(&s.SoftLogBytes), "log-soft-limit", "slow a virtual cluster's commits down when its untrimmed log is larger than this")
	f.Var(config.Size(&s.HardLogBytes), "log-hard-limit", "refuse a virtual cluster's commits, retriably, when its untrimmed log is larger than this")
	f.Int64Var(&s.MaxExtents, "max-extents", s.MaxExtents, "bound of a virtual cluster's live extents: commits slow down from 3/4 of it on, and are refused, retriably, at it; "+
		"0 takes a quarter of --memory-limit, 96 bytes an extent. All metadata of the virtual clusters is bounded by a quarter of --memory-limit in any case")
	f.Int64Var(&s.MaxProducers, "max-producers", s.MaxProducers, "maximum of a virtual cluster's idempotent producers that wrote within 24 hours, counted once per partition; "+
		"new ones are refused, retriably, at it; 0 takes an eighth of --memory-limit, 200 bytes each")
	f.IntVar(&s.MaxFreshBundles, "max-fresh-bundles", s.MaxFreshBundles, "bound of a virtual cluster's bundles that were not compacted yet, with the same effect as --max-extents; 0 takes 100,000")
}

// bindLimits binds the limits of a virtual cluster.
func bindLimits(f *pflag.FlagSet, limits *metadata.Limits) {
	count := func(kind metadata.LimitKind, help string) {
		f.Int64Var(&limits[kind], kind.Setting()[2:], limits[kind], help)
	}
	count(metadata.LimitTopics, "maximum topics of a virtual cluster, with deleted ones that can be undeleted; 0 takes what half of the virtual cluster's metadata memory holds, "+
		"an eighth of --memory-limit, at 1 KiB each")
	count(metadata.LimitPartitions, "maximum partitions of all topics of a virtual cluster; 0 is as for --max-topics, at 352 bytes each")
	count(metadata.LimitGroups, "maximum consumer groups of a virtual cluster; 0 is as for --max-topics, at 2 KiB each")
	count(metadata.LimitGroupMembers, "maximum members of a consumer group, on top of group.max.size and group.consumer.max.size; 0 is as for --max-topics, at 8 KiB each")
	count(metadata.LimitTransactionalIDs, "maximum transactional IDs of a virtual cluster used within 7 days; 0 is as for --max-topics, at 768 bytes each")
	f.Var(config.Size(&limits[metadata.LimitOffsetBytes]), metadata.LimitOffsetBytes.Setting()[2:],
		"maximum memory of the offsets that the groups of a virtual cluster have committed, with their metadata; 0 is an eighth of --memory-limit")
	f.Var(config.Size(&limits[metadata.LimitTextBytes]), metadata.LimitTextBytes.Setting()[2:],
		"maximum length of configs, and of names of topics, groups and transactional IDs, of a virtual cluster together; 0 is an eighth of --memory-limit")
}

func (s *controlSettings) run(ctx context.Context, p program.Program) error {
	log, err := logging.New(s.log, p.Streams.Err)
	if err != nil {
		return err
	}
	if err := s.complete(log); err != nil {
		return &cli.UsageError{Message: err.Error()}
	}
	log.Info("control plane is starting", zap.String("replica", s.ReplicaID), zap.Strings("virtual_clusters", s.virtualClusters),
		zap.Strings("etcd", s.etcd.Endpoints), zap.String("version", p.Version))
	s.MemoryLimit = memoryLimit(s.MemoryLimit, availableMemory())
	debug.SetMemoryLimit(controlplane.RuntimeMemory(s.MemoryLimit))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	s.PodIP, s.Version = os.Getenv("POD_IP"), p.Version
	s.Registry = newRegistry()
	if err := s.openBucket(ctx); err != nil {
		return err
	}
	defer s.Bucket.Close()
	if s.Etcd, err = etcdlog.NewClient(s.etcd); err != nil {
		return err
	}
	defer s.Etcd.Close()
	s.EtcdTLS = s.etcd.TLS
	plane, err := controlplane.New(s.Config)
	if err != nil {
		return &cli.UsageError{Message: err.Error()}
	}
	if err := s.checkEtcd(ctx, log); err != nil {
		return err
	}
	if err := plane.Listen(ctx); err != nil {
		return err
	}
	setting, _ := s.bucket()
	return nameStored(plane.Run(ctx), "--etcd-prefix "+s.EtcdPrefix, setting+" "+s.BucketLocation)
}

// bucket returns the setting of the control plane's bucket, and its value.
func (s *controlSettings) bucket() (setting, url string) {
	if s.AgentsBucket {
		return "--state-bucket", s.stateBucketURL
	}
	return "--bucket", s.bucketURL
}

// openBucket opens the control plane's bucket, with metrics.
func (s *controlSettings) openBucket(ctx context.Context) error {
	setting, at := s.bucket()
	bucket, err := open.Bucket(ctx, at, open.AllowOneZone(s.oneZone), open.Log(s.Log.Named("store")))
	if err != nil && s.AgentsBucket {
		return fmt.Errorf("%s: %w", setting, err)
	}
	if err != nil {
		return err
	}
	s.Bucket, s.BucketLocation = meter.New(bucket, s.Registry), open.Redact(at)
	return nil
}

// complete turns what flags say into what the replica takes, with all faults at once.
func (s *controlSettings) complete(log *zap.Logger) error {
	s.Log = log
	var faults []error
	fault := func(what string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", what, err))
		}
	}
	var err error
	s.TLS, err = s.tls.Server(log)
	fault("TLS for agents", err)
	s.ReplicaTLS, err = s.replicaTLS(log)
	fault("TLS to other replicas", err)
	s.PublicTLS, err = s.publicTLS.Server(log)
	fault("TLS of --public-listen", err)
	if s.PublicTLS != nil && s.PublicListen == "" {
		faults = append(faults, errors.New("--public-tls-cert without --public-listen: set --public-listen, or remove it"))
	}
	if s.SignUp != httpapi.SignUpClosed && s.PublicListen == "" {
		faults = append(faults, fmt.Errorf("--signup %s without --public-listen: set --public-listen, or remove it", s.SignUp))
	}
	fault("--smtp-url", s.setMail())
	if s.mailFrom != "" && s.smtpURL == "" { // sign-ups would be unconfirmed
		faults = append(faults, errors.New("--mail-from without --smtp-url: set --smtp-url (FRESHET_SMTP_URL), or remove it"))
	}
	if s.MaxHosted < 1 {
		faults = append(faults, fmt.Errorf("--max-hosted-clusters %d: must be at least 1", s.MaxHosted))
	}
	for _, network := range s.trustedProxies {
		prefix, err := netip.ParsePrefix(network)
		if err != nil || prefix != prefix.Masked() {
			faults = append(faults, fmt.Errorf("--trusted-proxies %q is no network: write an address and the length of its prefix, such as 10.0.0.0/8", network))
		}
		s.TrustedProxies = append(s.TrustedProxies, prefix)
	}
	s.etcd.TLS, err = s.etcdTLS.Client(s.forceEtcdTLS, log)
	fault("TLS to etcd", err)
	if len(s.etcd.Endpoints) == 0 {
		faults = append(faults, errors.New("--etcd is needed"))
	}
	for _, endpoint := range s.etcd.Endpoints {
		if advertise.Unbracketed(etcdlog.Address(endpoint)) {
			faults = append(faults, fmt.Errorf("--etcd %q is an IPv6 address without brackets: write [address]:port, such as [2001:db8::1]:2379", endpoint))
		} else if err := etcdlog.CheckEndpoint(endpoint); err != nil {
			faults = append(faults, fmt.Errorf("--etcd %w", err))
		}
	}
	switch s.AgentsBucket = s.stateBucketURL != ""; {
	case s.AgentsBucket && s.bucketURL != "":
		faults = append(faults, errors.New("--state-bucket and --bucket: remove --bucket if only agents are to reach the records, or --state-bucket if there is one bucket"))
	case !s.AgentsBucket && s.bucketURL == "":
		faults = append(faults, errors.New("--bucket or --state-bucket is needed"))
	}
	hosted := len(s.virtualClusters) == 0 && s.PublicListen != "" // tenants create the virtual clusters
	if len(s.virtualClusters) == 0 && !hosted {
		faults = append(faults, errors.New("--virtual-cluster is needed: set it to the names of the virtual clusters to serve"))
	}
	if len(s.agentKeys) == 0 && s.keyFiles.agents == "" && !hosted {
		faults = append(faults, errors.New("--agent-key or --agent-keys is needed"))
	}
	agentKeys, err := keysOf(s.agentKeys, s.virtualClusters)
	fault("--agent-key", err)
	readOnlyKeys, err := keysOf(s.readOnlyKeys, s.virtualClusters)
	fault("--read-only-key", err)
	s.KeyFiles = map[keys.Kind]string{keys.Agent: s.keyFiles.agents, keys.ReadOnly: s.keyFiles.readers, keys.Operator: s.keyFiles.operators}
	fault("timings", s.Timing.Validate())
	fault("coordinators", s.broker.Validate())
	s.ReplicaID = cmp.Or(s.ReplicaID, replicaID(s.GRPCListen))
	for _, name := range s.virtualClusters {
		if !id.ValidVirtualCluster(name) {
			faults = append(faults, fmt.Errorf("--virtual-cluster %q is no name of a virtual cluster: set it to 1 to %d of a-z A-Z 0-9 . _ -", name, id.MaxVirtualClusterName))
		}
		s.VirtualClusters = append(s.VirtualClusters, controlplane.VirtualCluster{
			Name: name, AgentKeys: agentKeys[name], ReadOnlyKeys: readOnlyKeys[name], DefaultPartitions: s.defaultPartitions, Broker: s.broker.Clone(),
		})
	}
	return errors.Join(faults...)
}

// keysOf returns the keys of each virtual cluster. A key can hold an equals sign: it is a name's only behind the name of a virtual cluster.
func keysOf(given, virtualClusters []string) (map[string][]string, error) {
	keys := map[string][]string{}
	for i, one := range given {
		name, key, found := strings.Cut(one, "=")
		switch {
		case found && key != "" && slices.Contains(virtualClusters, name):
		case len(virtualClusters) == 1:
			name, key = virtualClusters[0], one
		default:
			return nil, fmt.Errorf("item %d opens no virtual cluster of --virtual-cluster: with several of them write each key as NAME=KEY", i+1)
		}
		keys[name] = append(keys[name], key)
	}
	return keys, nil
}

// replicaTLS is the client's side of the TLS that replicas serve.
func (s *controlSettings) replicaTLS(log *zap.Logger) (*tls.Config, error) {
	if s.tls != (tlsfiles.Files{}) {
		return tlsfiles.Files{CA: cmp.Or(s.replicaCA, s.tls.CA), Cert: s.tls.Cert, Key: s.tls.Key}.Client(false, log)
	}
	if s.replicaCA != "" {
		return nil, fmt.Errorf("--tls-replica-ca %s without --tls-cert: set --tls-cert and --tls-key, or remove it", s.replicaCA)
	}
	return nil, nil //nolint:nilnil // no TLS is a value here, not a failure
}

// checkEtcd warns of faults of etcd's members. The replica starts regardless, and its first rounds report etcd members that do not answer. Only
// TLS on one side alone and ports of other programs are errors, because waiting does not cure them.
func (s *controlSettings) checkEtcd(ctx context.Context, log *zap.Logger) error {
	checked, cancel := context.WithTimeout(ctx, etcdCheck)
	silent, faults := etcdlog.Check(checked, s.Etcd)
	cancel()
	if faults != nil {
		log.Warn("etcd works, but not as it should", zap.Error(faults))
	}
	if len(silent) == 0 {
		return nil
	}
	ctx, cancel = context.WithTimeout(ctx, etcdCheck) // a new one: members that are down use up the first
	defer cancel()
	var addresses []string
	for _, endpoint := range s.etcd.Endpoints {
		address := etcdlog.Address(endpoint)
		addresses = append(addresses, address)
		switch kind := spoken.At(ctx, address, nil); {
		case kind == spoken.TLS && s.etcd.TLS == nil && !strings.HasPrefix(endpoint, "https://"):
			return fmt.Errorf("--etcd %s speaks TLS: set --etcd-tls, or --etcd-tls-ca to the certificates to trust", endpoint)
		case kind == spoken.Plain && (s.etcd.TLS != nil || strings.HasPrefix(endpoint, "https://")):
			return fmt.Errorf("--etcd %s does not speak TLS: remove --etcd-tls and the settings that begin with it, and https:// from --etcd", endpoint)
		}
	}
	return cli.CheckEtcd(ctx, addresses)
}

// replicaID names a replica by where it runs.
func replicaID(listen string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if i := strings.LastIndexByte(listen, ':'); i >= 0 {
		host += listen[i:]
	}
	return host
}

// setMail sets the server of mails.
func (s *controlSettings) setMail() (err error) {
	if s.smtpURL == "" {
		return nil
	}
	if s.mailFrom == "" {
		return errors.New("no --mail-from: set it to the sender of mails")
	}
	u, err := url.Parse(s.PublicURL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("--public-url %q: set it to the https:// address of --public-listen, which mails name", s.PublicURL)
	}
	if s.PublicListen == "" {
		return errors.New("no --public-listen: set it, or remove --smtp-url")
	}
	s.MailServer, err = mail.NewServer(s.smtpURL, s.mailFrom)
	return err
}

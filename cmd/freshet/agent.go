package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/internal/advertise"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/logging"
	"github.com/freshet-io/freshet/internal/program"
	"github.com/freshet-io/freshet/internal/tlsfiles"
	"github.com/freshet-io/freshet/internal/zone"
	"github.com/freshet-io/freshet/internal/zonename"
	"github.com/freshet-io/freshet/objstore/open"
)

// agentSettings are an agent's configuration as flags say it.
type agentSettings struct {
	agent.Config
	log             logging.Config
	controlPlaneTLS tlsfiles.Files
	forceTLS        bool
	kafkaTLS        tlsfiles.Files
	peerTLS         tlsfiles.Files
	nodeName        string
	defaultZone     string
}

func newAgent(p program.Program) *cobra.Command {
	s := agentSettings{}
	s.Hedge, s.AutoCreateTopics = true, true
	s.ApplyDefaults()
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run an agent: a stateless process that serves Kafka clients",
		Long: "Run an agent: a stateless process that serves Kafka clients. Run as many as you like, in each availability zone.\n\n" +
			"Needed are --bucket, --control-plane and --agent-key, and --zone where there are several zones.\n" +
			"/readyz says why an agent is not ready.",
		Example: `  freshet agent --control-plane cp-1:7050,cp-2:7050 --agent-key "$KEY" \
      --bucket 's3://name/prefix?region=eu-central-1' --zone eu-central-1a --advertise agent-1.internal`,
		Args: program.Takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd, p) },
	}
	f := cmd.Flags()
	f.StringVar(&s.BucketURL, "bucket", s.BucketURL, bucketHelp)
	f.BoolVar(&s.OneZoneDurability, "one-zone-durability", s.OneZoneDurability, oneZoneHelp)
	f.StringVar(&s.VirtualCluster, "virtual-cluster", s.VirtualCluster, "name of the virtual cluster to serve; if not given, the one that the agent key opens")
	f.StringVar(&s.Zone, "zone", s.Zone, "availability zone this agent runs in; auto: ask the platform (ECS task metadata, the node's label "+zone.ZoneLabel+
		" in a Kubernetes pod with --node-name, instance metadata of AWS, GCP, Azure)")
	f.StringVar(&s.nodeName, "node-name", s.nodeName, "Kubernetes node that runs the agent's pod, for --zone auto: spec.nodeName by the downward API. The pod's service account needs get on nodes")
	f.StringVar(&s.defaultZone, "default-zone", s.defaultZone, "zone for --zone auto where the platform answers that there is none, as for a node without the label; if not given, the agent does not start there")
	f.Var(config.List(&s.ControlPlane), "control-plane", "host:port of control-plane replicas; one is enough to find the others")
	f.Var(config.List(&s.Roles), "roles", "work that the agent does: produce and fetch (clients are sent to it) and jobs (compaction and the deletion of dead objects)")
	f.Float64Var(&s.DeleteRate, "delete-rate", s.DeleteRate, "maximum number of dead objects per second that an agent with the role jobs deletes, at least 50; 1,000 of them may go at once")
	f.StringVar(&s.AgentKey, "agent-key", s.AgentKey, "key that opens a virtual cluster of the control plane; better given in the environment")
	f.BoolVar(&s.forceTLS, "control-plane-tls", s.forceTLS, "use TLS to the control plane")
	f.StringVar(&s.controlPlaneTLS.CA, "control-plane-tls-ca", "", "PEM file or text of certificates to trust for the control plane; implies --control-plane-tls")
	f.StringVar(&s.controlPlaneTLS.Cert, "control-plane-tls-cert", "", "PEM file or text of the certificate shown to the control plane")
	f.StringVar(&s.controlPlaneTLS.Key, "control-plane-tls-key", "", "PEM file or text of the key of --control-plane-tls-cert")
	bindKafka(f, &s)
	bindPeers(f, &s)
	bindWriting(f, &s.Config)
	bindLoad(f, &s.Config)
	program.BindLog(f, &s.log)
	groupServer(f)
	return cmd
}

const bucketHelp = "object store: s3://bucket/prefix?region=...&endpoint=...&path-style=true&ca-file=..., or file:///directory for a single process"

const oneZoneHelp = "allow a directory bucket (S3 Express One Zone), which keeps objects in one availability zone: " +
	"acknowledged records are lost with that zone"

// bindKafka adds the flags of what clients see.
func bindKafka(f *pflag.FlagSet, s *agentSettings) {
	f.Var(config.List(&s.Listen), "kafka-listen", "addresses for Kafka clients, [listener=]host:port or [listener=]host:first-last; each port is a broker to clients, "+
		"which allows more requests in flight to clients with a bound per broker")
	f.Var(config.List(&s.Advertise), "advertise", "addresses in Metadata, for clients to connect to: [listener=] and one host, or host:port for each port; "+
		"{zone}, {hostname} and {ip} are filled in; if not given, the host listened on, or this machine's name")
	f.Var(config.List(&s.SharedAdvertise), "shared-advertise", "load balancers in front of agents, one per zone, [listener]/[zone]=host:port or host:first-last with as many ports "+
		"as the listener has, such as external/eu-1a=lb-a.example.com:9192-9195; clients of the listener see these nodes instead of agents; the same on all agents")
	f.Var(config.List(&s.ClientNetworks), "client-zones", "zones of clients by network, as 10.0.1.0/24=eu-1a, for clients that do not name theirs in the client id; "+
		"the same on all agents")
	f.Var(config.List(&s.ListenerZones), "listener-zones", "zones of all other clients by the listener that they come by, as external=eu-1a; the same on all agents")
	f.StringVar(&s.ZoneListeners, "zone-listeners", s.ZoneListeners, "listeners of zones, [host:]port=zone,zone,..., such as 9292=eu-1a,eu-1b: one with four ports for each zone of the cluster, "+
		"from the port on, under the zone's name and with its --listener-zones entry; clients of a zone use its port at any agent; the same on all agents")
	f.StringVar(&s.kafkaTLS.Cert, "kafka-tls-cert", "", "PEM file or text of the certificate for Kafka clients; turns TLS on")
	f.StringVar(&s.kafkaTLS.Key, "kafka-tls-key", "", "PEM file or text of the key of --kafka-tls-cert")
	f.StringVar(&s.kafkaTLS.CA, "kafka-tls-client-ca", "", "PEM file or text of certificates that clients' certificates must be signed by")
	f.StringVar(&s.HTTPListen, "http-listen", s.HTTPListen, "address of /livez, /readyz, /metrics and /debug/pprof")
	f.Var(config.Size(&s.RequestMaxBytes), "request-max-bytes", "largest Kafka request taken")
	f.IntVar(&s.MaxConnections, "max-connections", s.MaxConnections, "largest number of connections of Kafka clients, as Kafka's max.connections; at the bound a new one replaces one without a request "+
		"in progress; 0 is 20,000, or fewer with less than 2.5 GiB of --memory-limit (8 for each MiB) or fewer than 26,667 open files (three quarters of them)")
	f.IntVar(&s.MaxConnectionsPerIP, "max-connections-per-ip", s.MaxConnectionsPerIP, "largest number of connections of one client address, as Kafka's max.connections.per.ip; further ones are refused; "+
		"an IPv6 address counts by its first 64 bits; 0 is no limit")
	f.BoolVar(&s.AutoCreateTopics, "auto-create-topics", s.AutoCreateTopics, "create topics that clients ask about, with the cluster's defaults, as Kafka's auto.create.topics.enable does")
}

// bindWriting adds the flags of memory and of how records are written.
func bindWriting(f *pflag.FlagSet, c *agent.Config) {
	f.Var(config.Size(&c.MemoryLimit), "memory-limit", "memory to use; 0 is GOMEMLIMIT, else nine tenths of the container's limit or of the machine")
	f.Var(config.Size(&c.FlushBytes), "flush-bytes", "a bundle of this size is written at once")
	f.DurationVar(&c.FlushInterval, "flush-interval", c.FlushInterval, "records wait no longer than this to be written")
	f.DurationVar(&c.Linger, "linger", c.Linger, "records wait at least this long for others to share their bundle")
	f.Var(config.Rate(&c.PutBudget), "put-budget", "PUTs per second and zone for bundles that are not full; a record waits at most --flush-interval for a slot; "+
		"auto is 4 at AWS and other public endpoints, which bill requests, and 50 at a directory or an endpoint in a private network")
	f.Float64Var(&c.FastPutBudget, "fast-put-budget", c.FastPutBudget, "PUTs a second and zone beyond --put-budget, for topics with freshet.latency=fast")
	f.BoolVar(&c.Hedge, "hedge", c.Hedge, "send a second request to the object store when one takes longer than 19 of 20 do")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "bound for flushing, committing and answering after SIGTERM")
}

func (s *agentSettings) run(cmd *cobra.Command, p program.Program) error {
	log, err := logging.New(s.log, p.Streams.Err)
	if err != nil {
		return err
	}
	if err := s.complete(log, p.Version); err != nil {
		return &cli.UsageError{Message: err.Error()}
	}
	if err := s.findZone(cmd.Context()); err != nil {
		return err
	}
	s.PodIP = os.Getenv("POD_IP")
	s.MemoryLimit, s.OpenFiles = memoryLimit(s.MemoryLimit, math.MaxInt64), openFiles()
	if err := errors.Join(s.ExpandZoneListeners(), s.Validate()); err != nil {
		return &cli.UsageError{Message: err.Error()}
	}
	s.Registry = newRegistry()
	s.Gatherer = s.Registry // the defaults' was another
	a, err := agent.New(cmd.Context(), s.Config)
	if err != nil {
		return err
	}
	s.warnIfLocal(a.Addresses())
	if !zonename.InClientIDs(s.Zone) {
		log.Warn("clients cannot name this zone in their client ids: set --zone to a name without white space, commas, semicolons and ampersands, or map clients by --client-zones",
			zap.String("zone", s.Zone))
	}
	return nameStored(runAgent(cmd.Context(), a, s.ControlPlane), "", "--bucket "+open.Redact(s.BucketURL))
}

// warnIfLocal warns of an advertised address at which clients on other machines would reach themselves. advertised has one
// address for each entry of --kafka-listen.
func (s *agentSettings) warnIfLocal(advertised []agent.Address) {
	listen, _ := agent.ParseListen(s.Listen) // agent.New has returned its errors
	for i, l := range listen {
		if host, _, _ := net.SplitHostPort(l.Address); advertise.OnlyLocal(host, advertised[i].Host) {
			s.Log.Warn("advertised address leads clients on other machines to themselves: set --advertise to a name or address of this machine that clients reach",
				zap.Stringer("advertise", advertised[i]))
			return
		}
	}
}

// zoneAuto as the zone asks the platform for it.
const zoneAuto = "auto"

// findZone asks the platform for the zone, if that is wanted. Not to know it is an error: an agent in the wrong zone, or
// in none, would have its clients pay for traffic between zones.
func (s *agentSettings) findZone(ctx context.Context) error {
	if s.Zone != zoneAuto {
		return nil
	}
	found, err := zone.Detector{Getenv: os.Getenv, Node: s.nodeName, Log: s.Log}.Detect(ctx)
	switch {
	case err == nil:
		s.Zone = found
	case errors.Is(err, zone.ErrNone) && s.defaultZone != "":
		s.Log.Info("agent takes the default zone", zap.String("zone", s.defaultZone), zap.Error(err))
		s.Zone = s.defaultZone
	case errors.Is(err, zone.ErrNone):
		return fmt.Errorf("--zone auto: %w: set --default-zone for such machines, or name the zone by --zone", err)
	default:
		return fmt.Errorf("--zone auto: %w; or name the zone by --zone", err)
	}
	return nil
}

// complete turns files into what the agent takes.
func (s *agentSettings) complete(log *zap.Logger, version string) (err error) {
	s.Log, s.Version = log, version
	if s.Zone, err = zonename.Parse(s.Zone); err != nil {
		return fmt.Errorf("--zone: %w", err)
	}
	if s.defaultZone, err = zonename.Parse(s.defaultZone); err != nil {
		return fmt.Errorf("--default-zone: %w", err)
	}
	if s.ControlPlaneTLS, err = s.controlPlaneTLS.Client(s.forceTLS, log); err != nil {
		return fmt.Errorf("TLS to the control plane: %w", err)
	}
	if s.KafkaTLS, err = s.kafkaTLS.Server(log); err != nil {
		return fmt.Errorf("TLS for Kafka clients: %w", err)
	}
	return s.completePeers(log)
}

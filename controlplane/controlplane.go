package controlplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/registry/expiry"
	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/controlplane/registry/mail"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/adminhttp"
	"github.com/freshet-io/freshet/internal/advertise"
	"github.com/freshet-io/freshet/internal/service"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/open"
	"github.com/freshet-io/freshet/objstore/probe"
)

// ControlPlane is one replica. New checks the configuration, Listen opens the addresses, Run serves.
type ControlPlane struct {
	cfg       Config
	socket    net.Listener
	grpc      *grpc.Server
	http      *adminhttp.Server
	public    *httpapi.Server // nil without the HTTP API for tenants
	expiry    *expiry.Sweeper // nil without the HTTP API for tenants
	mails     *mail.Queue     // nil without --smtp-url
	contacts  *contacts
	lease     *metalog.Lease
	members   *members
	clusters  *clusters
	placement *placement
	answers   *session.Answers  // of all clusters
	messages  *session.Messages // likewise
	warm      chan struct{}     // has an element for each cluster that stays warm without Spec.Warm
	takeovers *semaphore.Weighted
	snapshots *semaphore.Weighted
	space     *etcdSpace
	heap      *heapRoom
	store     *probe.Watch
	bucket    *storeClock // Config.Bucket
	statuses  *statuses
	keyFiles  []*keys.File
	// introduced is closed once the other replicas know this one's address. Without the HTTP API it is closed at the start.
	introduced chan struct{}
}

// New builds a replica. It starts nothing.
func New(cfg Config) (*ControlPlane, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	return &ControlPlane{cfg: cfg, bucket: newStoreClock(cfg.Bucket), introduced: make(chan struct{}), warm: make(chan struct{}, maxWarm), takeovers: semaphore.NewWeighted(maxTakeovers), snapshots: semaphore.NewWeighted(maxSnapshots), store: probe.NewWatch(probe.CreateOnly, open.Address(cfg.BucketLocation), cfg.Log)}, nil
}

// Listen opens the addresses and builds the servers, so that a fault shows before anything runs.
func (c *ControlPlane) Listen(ctx context.Context) error {
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", c.cfg.GRPCListen)
	if err != nil {
		return fmt.Errorf("listen for agents on %s: %w", c.cfg.GRPCListen, err)
	}
	c.socket = socket
	c.cfg.Advertise, err = c.cfg.advertised(advertise.Here("", c.cfg.PodIP), socket.Addr().(*net.TCPAddr).Port)
	if err == nil {
		c.warnIfLocal()
		err = c.build(ctx)
	}
	if err != nil {
		c.Close()
		return err
	}
	return nil
}

// warnIfLocal warns of an advertised address at which processes on other machines would reach themselves.
func (c *ControlPlane) warnIfLocal() {
	listen, _, _ := net.SplitHostPort(c.cfg.GRPCListen)
	advertised, _, _ := net.SplitHostPort(c.cfg.Advertise)
	if advertise.OnlyLocal(listen, advertised) {
		c.cfg.Log.Warn("advertised address leads agents and replicas on other machines to themselves: set --advertise to a name or address of this machine that they reach",
			zap.String("advertise", c.cfg.Advertise))
	}
}

// build makes the parts once the address is known.
func (c *ControlPlane) build(ctx context.Context) error {
	// No virtual cluster has a plus in its name, so the members' keys are apart.
	set, err := c.loadKeys()
	if err != nil {
		return err
	}
	health := newEtcdHealth(c.cfg.Etcd, c.cfg.EtcdTLS)
	c.lease, err = etcdlog.NewLease(c.cfg.Etcd, c.cfg.EtcdPrefix, metalog.Config{
		Timing: c.cfg.Timing, Logger: explaining(c.cfg.Log, health.explainRequest), Registerer: c.cfg.Registry,
	})
	if err != nil {
		return err
	}
	c.members = &members{
		client: c.cfg.Etcd, prefix: c.cfg.EtcdPrefix + "/+replicas/", replica: c.cfg.ReplicaID, instance: rand.Text(), address: c.cfg.Advertise, public: c.cfg.PublicAddress,
		log: c.cfg.Log, known: make(chan struct{}), health: health, lease: c.lease, rivals: rivalRounds(c.cfg.Timing.Lease),
		key: &replicaKey{client: c.cfg.Etcd, name: c.cfg.EtcdPrefix + "/+replicas-key", set: set},
		versions: &versions{
			client: c.cfg.Etcd, prefix: c.cfg.EtcdPrefix + "/+versions/",
			replica: c.cfg.ReplicaID, own: c.cfg.stateVersion(), log: c.cfg.Log,
		},
	}
	c.cfg.Log = explaining(c.cfg.Log, c.members.health.explain)
	c.space = newEtcdSpace(c.cfg.Etcd, func() int { return len(c.members.Replicas()) }, c.cfg.Log, c.cfg.Registry)
	c.heap = newHeapRoom(c.cfg.Registry)
	c.answers, c.messages = session.NewAnswers(c.cfg.memory()), session.NewMessages(c.cfg.memory())
	c.clusters = newClusters(c.newCluster, c.readyCluster, set, c.cfg.Registry, c.cfg.Log)
	c.contacts = newContacts(c.clusters, c.registry().ClusterContacted, c.cfg.Log, c.cfg.Registry)
	c.placement = newPlacement(c.members, c.clusters.owned, func(ctx context.Context, address, clusterID string) error {
		return askToTake(ctx, address, clusterID, c.members.replicaKey(), c.cfg.ReplicaTLS)
	}, c.cfg.Log, c.cfg.Registry)
	c.cfg.Registry.MustRegister(clusterStates{c.clusters})
	operated := operator.Config{
		Open: operatorOpens(set), Cluster: c.clusters.operator, List: c.clusters.list, Forwarder: operator.NewForwarder(c.cfg.ReplicaTLS),
		Plane: func(ctx context.Context) *operator.Plane { return c.statuses.ofPlane(ctx) },
	}
	c.statuses = &statuses{
		plane: c, began: time.Now(), forwarder: operated.Forwarder,
		peers: newPeers(c.members, c.cfg.Timing.Lease, c.cfg.ReplicaTLS),
	}
	for _, vc := range c.cfg.VirtualClusters {
		if err := c.clusters.add(vc.spec(c.cfg.share())); err != nil {
			return fmt.Errorf("virtual cluster %s: %w", vc.Name, err)
		}
	}
	unknown := newStrangers(maxStrangers, c.cfg.Log, c.cfg.Registry)
	c.socket = unknown.Listener(c.socket)
	connections := session.NewConnections(c.maxConnections, c.cfg.Log, c.cfg.Registry)
	c.grpc = grpc.NewServer(append(session.ServerOptions(set, unknown.TLS(c.cfg.TLS), c.cfg.Log), unknown.options(connections)...)...)
	api.RegisterControlPlaneServer(c.grpc, session.NewServer(c.clusters.session))
	api.RegisterReplicasServer(c.grpc, replicaServer{
		replica: c.cfg.ReplicaID, version: c.cfg.Version, http: c.httpAddress, began: c.statuses.began, takes: c.takes,
	})
	api.RegisterOperatorsServer(c.grpc, operator.NewServer(operated))
	if err := c.listenPublic(ctx, set); err != nil {
		return err
	}
	if c.cfg.HTTPListen == "none" {
		return nil
	}
	handler := operator.Handler(operated)
	c.http = adminhttp.New(adminhttp.Config{
		Address: c.cfg.HTTPListen, Ready: c.Ready, Warnings: c.Warnings, Gatherer: c.clusters, Log: c.cfg.Log,
		Handlers: map[string]http.Handler{operator.Prefix: handler, strings.TrimSuffix(operator.Prefix, "/"): handler, operator.StatusPath: handler},
		Profiles: func(key string) bool {
			g := set.Grant(key)
			return g != nil && g.Kind == keys.Operator
		},
	})
	return c.http.Listen(ctx)
}

// operatorOpens returns the function that reports whether a key opens a virtual cluster to operators.
func operatorOpens(set *keys.Set) func(virtualCluster, key string, readOnly bool) bool {
	return func(virtualCluster, key string, readOnly bool) bool {
		g := set.Grant(key)
		switch {
		case g == nil:
			return false
		case g.Kind == keys.ReadOnly:
			return readOnly && g.VirtualCluster == virtualCluster
		}
		return g.Kind == keys.Operator || g.Kind == keys.Replica
	}
}

// loadKeys returns the Set with the keys in the settings and files.
func (c *ControlPlane) loadKeys() (*keys.Set, error) {
	set := keys.NewSet()
	set.SetPartial(true) // until the reconciler has read etcd
	if err := set.Replace("settings", c.cfg.keys()); err != nil {
		return nil, err
	}
	names := make([]string, len(c.cfg.VirtualClusters))
	for i, vc := range c.cfg.VirtualClusters {
		names[i] = vc.Name
	}
	for _, kind := range []keys.Kind{keys.Agent, keys.ReadOnly, keys.Operator} {
		path := c.cfg.KeyFiles[kind]
		if path == "" {
			continue
		}
		f := &keys.File{Path: path, Kind: kind, VirtualClusters: names, Set: set, Log: c.cfg.Log}
		if err := f.Load(); err != nil {
			return nil, fmt.Errorf("file of each %s: %w", kind, err)
		}
		c.keyFiles = append(c.keyFiles, f)
	}
	return set, nil
}

// Addr is the address that agents are served at; nil before Listen.
func (c *ControlPlane) Addr() net.Addr {
	if c.socket == nil {
		return nil
	}
	return c.socket.Addr()
}

// HTTPAddr is the address of the HTTP side; nil before Listen or without one.
func (c *ControlPlane) HTTPAddr() net.Addr {
	if c.http == nil {
		return nil
	}
	return c.http.Addr()
}

// PublicAddr returns the address of the HTTP API for tenants, nil before Listen or without one.
func (c *ControlPlane) PublicAddr() net.Addr {
	if c.public == nil {
		return nil
	}
	return c.public.Addr()
}

// httpAddress returns the host:port at which operators reach the HTTP side, "" without one. A listener at all addresses has the host of
// the advertised address.
func (c *ControlPlane) httpAddress() string {
	if c.http == nil {
		return ""
	}
	host, port, _ := net.SplitHostPort(c.http.Addr().String())
	if advertise.Unspecified(host) {
		host, _, _ = net.SplitHostPort(c.cfg.Advertise)
	}
	return net.JoinHostPort(host, port)
}

// Close gives the addresses back if Run never ran.
func (c *ControlPlane) Close() {
	if c.socket != nil {
		_ = c.socket.Close() // nothing was served
	}
	if c.http != nil {
		c.http.Close()
	}
	if c.public != nil {
		c.public.Close()
	}
}

// Gatherer returns the metrics of the process and of all virtual clusters. It must not be called before Listen.
func (c *ControlPlane) Gatherer() prometheus.Gatherer { return c.clusters }

// Ready returns nil if this replica knows an owner of every virtual cluster of the settings, and the object store does not refuse the replica,
// which then could take no snapshot. A replica without virtual clusters in the settings is ready while etcd answers. A replica that starts is not
// ready before it knows an owner of every virtual cluster of etcd that does not fail, nor, with the HTTP API, before the other replicas know it. Errors
// name the cause.
func (c *ControlPlane) Ready() error {
	unready := c.clusters.unready()
	if len(c.cfg.VirtualClusters) == 0 {
		unready = append(unready, c.members.health.fault())
	}
	if err := errors.Join(append(unready, c.store.Refused())...); err != nil {
		return err
	}
	select {
	case <-c.introduced:
		return nil
	default:
		return errUnintroduced
	}
}

var errUnintroduced = fmt.Errorf("the other replicas read the address of this one within %v", introduction)

// introduce ends the wait of Ready for the other replicas. They answer sign-ups with the addresses of all replicas, and read these every readMembers.
func (c *ControlPlane) introduce() {
	if c.public == nil || len(c.members.others()) == 0 {
		close(c.introduced)
		return
	}
	time.AfterFunc(introduction, func() { close(c.introduced) })
}

// readyCluster returns nil if a virtual cluster is ready on this replica.
func (c *ControlPlane) readyCluster(built *cluster) error {
	err := built.ready(c.store.Works())
	if errors.Is(err, errNotCompared) {
		owner, _ := built.located()
		if reason := built.stored.Load().bucket.reason(owner); reason != nil {
			return fmt.Errorf("%w: %w", err, reason)
		}
	}
	return err
}

// Warnings returns the faults that the replica works with: an object store, etcd or a registered replica that does not answer, and clocks that differ.
func (c *ControlPlane) Warnings() []string {
	var all []string
	if fault := c.store.Warning(); fault != nil {
		all = append(all, fault.Error())
	}
	if fault := c.members.health.fault(); fault != nil && c.Ready() == nil { // else Ready names it
		all = append(all, fault.Error())
	}
	crowded := c.space.crowded()
	if c.public != nil {
		crowded = c.crowded()
	}
	if crowded != nil {
		all = append(all, crowded.Error())
	}
	all = append(all, c.statuses.silent()...)
	return append(all, c.clusters.warnings()...)
}

// Run serves until ctx ends, then hands ownership over, ends the streams and returns. It listens first if Listen was
// not called.
func (c *ControlPlane) Run(ctx context.Context) error {
	if c.socket == nil {
		if err := c.Listen(ctx); err != nil {
			return err
		}
	}
	c.cfg.Log.Info("control plane listens", zap.String("replica", c.cfg.ReplicaID), zap.Stringer("address", c.socket.Addr()),
		zap.String("advertised", c.cfg.Advertise))
	var services []service.Service
	if c.http != nil {
		services = append(services, c.http.Service())
	}
	services = append(services,
		// The lease stops after the virtual clusters have resigned and the replica has left.
		service.Service{Name: "replica lease", Run: c.lease.Run},
		service.Service{Name: "replica members", Run: c.members.run},
		service.Service{Name: "room in etcd", Run: c.space.run},
		service.Service{Name: "other replicas", Run: c.statuses.peers.run},
		// The start does not wait for the store: Ready, Warnings and logs name one that is away.
		service.Service{Name: "object store probe", Run: func(ctx context.Context) error { return c.store.Run(ctx, c.cfg.Bucket) }},
	)
	for _, f := range c.keyFiles {
		services = append(services, service.Service{Name: "keys in " + f.Path, Run: f.Run})
	}
	if !c.cfg.NoMaintenance {
		maintain, err := c.maintainer()
		if err != nil {
			c.Close()
			return err
		}
		services = append(services, maintain)
	}
	services = append(services,
		service.Service{Name: "contacts of agents", Run: c.contacts.run},
		service.Service{Name: "control plane grpc", Run: c.serve},
		service.Service{Name: "virtual clusters", Run: c.runClusters},
		service.Service{Name: "placement", Run: c.placement.run},
	)
	if c.public != nil {
		c.cfg.Log.Info("HTTP API for tenants listens", zap.Stringer("public_address", c.public.Addr()))
		services = append(services,
			service.Service{Name: "expiry of clusters and accounts", Run: c.expiry.Run},
			service.Service{Name: "HTTP API for tenants", Run: c.public.Run},
		)
	}
	if c.mails != nil {
		services = append(services, service.Service{Name: "mails", Run: c.mails.Run})
	}
	err := service.Run(ctx, c.cfg.Log, services...)
	c.cfg.Log.Info("control plane has stopped", zap.Error(err))
	var wrong *marker.WrongError
	var older *replica.OlderError
	var same *sameIDError
	switch { // each is one line without the names of services
	case errors.As(err, &wrong):
		return wrong
	case errors.As(err, &older):
		return older
	case errors.As(err, &same):
		return same
	}
	return err
}

func (c *ControlPlane) maintainer() (service.Service, error) {
	m, err := etcdlog.NewMaintainer(etcdlog.MaintainerConfig{
		Client: c.cfg.Etcd, Prefix: c.cfg.EtcdPrefix, Replica: c.cfg.ReplicaID, Registerer: c.cfg.Registry,
		Logger: explaining(c.cfg.Log, c.members.health.explainRequest),
	})
	if err != nil {
		return service.Service{}, fmt.Errorf("control plane: %w", err)
	}
	return service.Service{Name: "etcd maintainer", Run: m.Run}, nil
}

// serve answers agents until ctx ends. The tenures have ended their streams by then.
func (c *ControlPlane) serve(ctx context.Context) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		hard := time.AfterFunc(stopGRPC, c.grpc.Stop)
		defer hard.Stop()
		c.grpc.GracefulStop()
	}()
	if err := c.grpc.Serve(c.socket); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve agents: %w", err)
	}
	<-stopped
	return nil
}

// runClusters runs the virtual clusters until ctx ends. One that stops leaves the others alone (I10). They begin once this replica has read
// the other replicas' versions and written its own.
func (c *ControlPlane) runClusters(ctx context.Context) error {
	select {
	case <-c.members.known:
	case <-ctx.Done():
		return nil
	}
	c.introduce()
	watch := func(ctx context.Context, apply func([]directory.Change)) { c.directory().Watch(ctx, c.cfg.Log, apply) }
	return c.clusters.reconcile(ctx, watch, func(run context.Context, built *cluster) error {
		run, cancel := leaving(run, func() bool { return ctx.Err() != nil && c.clusters.count() > maxTakeovers && !built.loaded() })
		defer cancel()
		return built.run(run, c.store.Works())
	})
}

func (c *ControlPlane) directory() directory.Directory {
	return directory.Directory{Client: c.cfg.Etcd, Prefix: c.cfg.EtcdPrefix}
}

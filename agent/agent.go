package agent

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/agent/kafka"
	"github.com/freshet-io/freshet/agent/load"
	"github.com/freshet-io/freshet/agent/peer"
	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/agent/zonewriter"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/internal/adminhttp"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/hedge"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/open"
	"github.com/freshet-io/freshet/objstore/probe"
)

// Agent is one agent process's parts, built but not running.
type Agent struct {
	cfg       Config
	log       *zap.Logger
	began     time.Time // start of the process, for operators
	budgets   budgets
	addresses []Address // advertised, one per listener
	shared    kafka.SharedListeners
	views     *kafka.Views
	sockets   []net.Listener
	// peerAddress is what other agents are told; "" where bytes are not shared.
	peerAddress string

	bucket    objstore.Bucket
	requests  *meter.Bucket // below bucket
	store     *probe.Watch  // tells whether it can be used
	owned     *ownership    // tells whether it is the virtual cluster's
	patience  time.Duration // joinPatience
	zone      *peer.Zone    // nil: bytes are not shared
	peers     *peer.Server  // nil with it
	session   *client.Session
	listeners *listeners
	slabs     *slab.Pool
	writer    *writer.Writer
	route     *zonewriter.Route // where clients' batches go: to writer, or to another agent's
	taker     *zonewriter.Taker // what other agents' batches come by
	cache     *cache.Cache
	fetcher   *fetch.Fetcher
	departure *kafka.Departure
	edge      *edge.Server
	http      *adminhttp.Server
	load      *load.Meter
}

// New builds an agent and opens its listeners, so that addresses in use are a fault at once. Nothing else happens
// before Run: neither the object store nor the control plane need be there. Close or Run gives everything back.
func New(ctx context.Context, cfg Config) (_ *Agent, err error) {
	cfg.ApplyDefaults()
	if err := errors.Join(cfg.ExpandZoneListeners(), cfg.Validate()); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a := &Agent{cfg: cfg, log: cfg.Log, began: time.Now(), patience: joinPatience, listeners: &listeners{catalogue: view.NewCatalogue()}}
	a.listeners.catalogue.ShowInternal()
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if a.budgets, err = divide(cfg.MemoryLimit); err != nil {
		return nil, err
	}
	for _, build := range []func(context.Context) error{
		a.listen, a.openBucket, a.buildPeers, a.buildSession, a.buildWriter, a.buildReader, a.buildJobs, a.buildErrands, a.buildEdge, a.buildLoad, a.buildHTTP,
	} {
		if err = build(ctx); err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
	}
	return a, nil
}

// Addresses are what clients are told to connect to, one per port.
func (a *Agent) Addresses() []Address { return a.addresses }

// Await returns when the agent can answer clients and use the object store, or with the end of ctx.
func (a *Agent) Await(ctx context.Context) error {
	for _, ready := range []<-chan struct{}{a.listeners.catalogue.Ready(), a.store.Works(), a.owned.gate.Opened()} {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// PutBudget returns the PUTs per second and zone for bundles that are not full, and the reason for this number.
func (a *Agent) PutBudget() (rate float64, reason string) { return a.cfg.EffectivePutBudget() }

// HTTPAddress is where /readyz and the like are.
func (a *Agent) HTTPAddress() net.Addr { return a.http.Addr() }

// Close gives back what New opened, for an agent that never ran.
func (a *Agent) Close() {
	for _, s := range a.sockets {
		_ = s.Close()
	}
	if a.http != nil {
		a.http.Close()
	}
	if a.cache != nil {
		a.cache.Close()
	}
	a.closePeers()
	if a.bucket != nil {
		_ = a.bucket.Close()
	}
}

func (a *Agent) listen(ctx context.Context) error {
	all, err := a.cfg.addresses()
	if err != nil {
		return err
	}
	a.addresses, a.shared = all.told, all.shared
	for i, l := range all.listen {
		socket, err := new(net.ListenConfig).Listen(ctx, "tcp", l.Address)
		if err != nil {
			if slices.Contains(a.cfg.zoneListeners, l.Name) {
				return fmt.Errorf("listen for kafka clients of a zone on %s: %w", l.Address, err)
			}
			return fmt.Errorf("listen for kafka clients on %s: %w", l.Address, err)
		}
		a.sockets = append(a.sockets, socket)
		if a.addresses[i].Port == 0 {
			a.addresses[i].Port = int32(socket.Addr().(*net.TCPAddr).Port)
		}
	}
	return nil
}

func (a *Agent) openBucket(ctx context.Context) (err error) {
	bucket := a.cfg.Bucket
	if bucket == nil {
		if bucket, err = open.Bucket(ctx, a.cfg.BucketURL, open.AllowOneZone(a.cfg.OneZoneDurability), open.Log(a.log.Named("store"))); err != nil {
			return fmt.Errorf("--bucket: %w", err)
		}
	}
	a.requests = meter.New(bucket, a.cfg.Registry)
	a.owned = newOwnership(a.requests, &a.cfg)
	a.listeners.owned = a.owned
	a.bucket, a.store = a.owned.gate, probe.NewWatch(probe.Reach, open.Address(a.cfg.BucketURL), a.log.Named("store"))
	if a.cfg.Hedge {
		a.bucket, err = hedge.New(a.bucket, hedge.Config{}, a.cfg.Registry)
	}
	return err
}

func (a *Agent) buildSession(context.Context) (err error) {
	endpoints := make([]*api.Endpoint, len(a.addresses))
	for i, address := range a.addresses {
		endpoints[i] = &api.Endpoint{Listener: address.Listener, Host: address.Host, Port: address.Port}
	}
	a.session, err = client.New(client.Config{
		Replicas: a.cfg.ControlPlane, VirtualCluster: a.cfg.VirtualCluster, AgentKey: a.cfg.AgentKey,
		TLS: a.cfg.ControlPlaneTLS, Zone: a.cfg.Zone, Endpoints: endpoints, Version: a.cfg.Version, Peer: a.peerAddress,
		Roles: a.cfg.wireRoles(), Handler: a.listeners, Load: a.currentLoad, Log: a.log.Named("session"), Registerer: a.cfg.Registry, Dial: a.cfg.DialControlPlane,
		StreamTimeout: a.cfg.OwnerTimeout, Marker: a.owned.hello, AutoCreateTopics: a.cfg.AutoCreateTopics,
	})
	return err
}

func (a *Agent) buildWriter(context.Context) (err error) {
	if a.slabs, err = slab.NewPool(slab.Config{Budget: a.budgets.slabs, Poison: poison}, a.cfg.Registry); err != nil {
		return err
	}
	if a.cache, err = cache.New(cache.Config{
		Bucket: a.bucket, Key: a.listeners.key, Zone: a.cacheZone(),
		Live:    cache.Bounds{Bytes: a.budgets.live},
		CatchUp: cache.Bounds{Bytes: a.budgets.catchUp},
		Log:     a.log.Named("cache"), Registerer: a.cfg.Registry,
	}); err != nil {
		return err
	}
	putRate, _ := a.cfg.EffectivePutBudget()
	a.writer, err = writer.New(writer.Config{
		Pool: a.slabs, Bucket: a.bucket, Committer: a.session, Sink: sink{a.cache}, Share: func() float64 { return a.route.Share() },
		FlushBytes: a.cfg.FlushBytes, FlushInterval: a.cfg.FlushInterval, Linger: a.cfg.Linger,
		PutRate: putRate, PutBurst: max(putRate, 1), FastPutRate: a.cfg.FastPutBudget,
		Log: a.log.Named("writer"),
	}, a.cfg.Registry)
	if err != nil {
		return err
	}
	a.buildRoute()
	a.listeners.writer, a.listeners.route = a.writer, a.route
	return nil
}

// buildRoute builds what takes clients' batches to the zone's writer, and takes other agents' in.
func (a *Agent) buildRoute() {
	log := a.log.Named("zonewriter")
	fit := func() bool { return !a.writer.Stuck() && a.session.Hears(a.cfg.Peers.OwnerSilence) }
	cfg := zonewriter.Config{
		Own: a.writer, Fit: fit, Session: func() id.Session { return a.listeners.catalogue.Load().Session }, Agents: a.agentsInZone,
		Open: a.isOpen, Address: a.addressOf, Silence: a.cfg.Peers.Silence, Patience: a.cfg.Peers.TurnPatience, Log: log,
		Registerer: a.cfg.Registry,
	}
	if a.zone != nil {
		cfg.Dial = func(ctx context.Context, to id.Session) (net.Conn, *bufio.Reader, error) {
			return a.zone.Stream(ctx, to, zonewriter.Protocol)
		}
	}
	a.route = zonewriter.New(cfg)
	a.taker = zonewriter.NewTaker(zonewriter.TakerConfig{
		Own: a.writer, Fit: fit, Address: a.addressOf, Silence: a.cfg.Peers.Silence, Log: log, Registerer: a.cfg.Registry,
		LargeBytes: min(zonewriter.DefaultLargeBytes, a.budgets.produceFrames),
	})
}

func (a *Agent) buildReader(context.Context) (err error) {
	if a.listeners.partitions, err = view.NewPartitions(view.Config{
		Source: a.session, MaxExtents: a.budgets.extents, Log: a.log.Named("view"), Registerer: a.cfg.Registry,
	}); err != nil {
		return err
	}
	a.fetcher, err = fetch.New(fetch.Config{
		Views: a.listeners.partitions, Bytes: ownFirst{a.cache, a}, Internal: kafka.NewInternalReader(a.session), UnsentBytes: a.budgets.unsent, Pressed: a.pressed,
		RequestBytes: a.budgets.fetches, Reclaim: func() { a.edge.Reclaim() }, Log: a.log.Named("fetch"), Registerer: a.cfg.Registry,
	})
	return err
}

func (a *Agent) buildEdge(context.Context) error {
	handler, err := a.newHandler()
	if err != nil {
		return err
	}
	cfg := edge.Config{
		Handler: handler, MaxRequestBytes: a.cfg.RequestMaxBytes, ProduceMemory: a.budgets.produceFrames,
		OtherMemory: a.budgets.otherFrames, DrainTimeout: edgeDrainTimeout, Log: a.log.Named("edge"), Registerer: a.cfg.Registry,
		Abroad: a.closesAbroad, MaxConnections: a.cfg.EffectiveMaxConnections(), MaxConnectionsPerIP: a.cfg.MaxConnectionsPerIP,
	}
	a.cfg.warnOfFiles()
	for i, socket := range a.sockets {
		cfg.Listeners = append(cfg.Listeners, edge.Listener{Name: a.addresses[i].Listener, Socket: socket, TLS: a.cfg.KafkaTLS, PortIndex: i})
	}
	a.edge, err = edge.New(cfg)
	return err
}

func (a *Agent) buildHTTP(ctx context.Context) error {
	a.http = adminhttp.New(adminhttp.Config{
		Address: a.cfg.HTTPListen, Ready: a.ready, Warnings: a.warnings, Gatherer: a.cfg.Gatherer, Log: a.log.Named("http"),
	})
	return a.http.Listen(ctx)
}

// errNoCatalogue: the agent cannot answer anything yet.
var errNoCatalogue = errors.New("nothing heard from the control plane yet")

// ready tells whether the agent serves, and has seen the object store work. It stays ready while the control plane is away,
// since it serves what it knows, and while the store is: that is away for all, and no other agent would serve better.
func (a *Agent) ready() error {
	select {
	case <-a.listeners.catalogue.Ready():
		return cmp.Or(a.store.Ready(), a.owned.ready())
	default:
	}
	heard := errNoCatalogue
	if fault := a.session.Fault(); fault != nil {
		heard = fmt.Errorf("%w: %w", heard, fault)
	}
	return errors.Join(a.store.Ready(), heard) // freshet health shows the first line
}

// warnings returns the faults that the agent serves with: an object store or a control plane that does not answer.
func (a *Agent) warnings() (all []string) {
	if fault := a.store.Warning(); fault != nil {
		all = append(all, fault.Error())
	}
	if away := a.listeners.away(); away > 0 {
		text := fmt.Sprintf("no session with the control plane, %d s", int64(away.Round(time.Second)/time.Second))
		if fault := a.session.Fault(); fault != nil {
			text += ": " + strings.ReplaceAll(fault.Error(), "\n", "; ")
		}
		all = append(all, text)
	}
	return all
}

// pressed tells whether unsent answers pin more than their share of memory.
func (a *Agent) pressed() bool { return a.cache.Pinned() > a.budgets.unsent }

// agentsInZone is how many agents share the zone's PUT budget, this one included.
func (a *Agent) agentsInZone() int {
	n := 0
	for _, m := range a.listeners.catalogue.Load().Members {
		if m.Zone == a.cfg.Zone {
			n++
		}
	}
	return max(n, 1)
}

// addressOf is where clients reach a member, "" if it is none.
func (a *Agent) addressOf(session id.Session) string {
	for _, m := range a.listeners.catalogue.Load().Members {
		if m.Session == session && len(m.Endpoints) > 0 {
			return Address(m.Endpoints[0]).String()
		}
	}
	return ""
}

// isOpen tells whether another agent's session may still commit, as far as this agent has been told.
func (a *Agent) isOpen(session id.Session) bool {
	known := a.listeners.catalogue.Load()
	return slices.ContainsFunc(known.Members, func(m *view.Member) bool { return m.Session == session }) ||
		slices.Contains(known.Unshown, uint32(session))
}

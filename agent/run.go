package agent

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/internal/service"
	"github.com/freshet-io/freshet/metadata/id"
)

// Parts of Config.DrainTimeout. What is not done in its part's time is given up: clients then get retriable errors or
// ask again, and nothing acknowledged is at stake.
const (
	// leavePart is for leaving the membership that clients see. Shared listeners serve for all of it: meanwhile load balancers
	// notice that this agent stops, and agents of a zone that stop together notice each other.
	leavePart = 0.2
	// handOverPart is for what other agents of the zone write for this one, and for those that this one writes for to
	// turn to another writer.
	handOverPart = 0.2
	flushPart    = 0.4 // seal, put, commit and answer what was taken in
	// redirectPart is within the two before: how long clients are still told where to go after the agent left the
	// membership. One that has no request under way at the moment would find its connection closed without a word,
	// and many wait seconds before they ask for Metadata again.
	redirectPart = 0.2
	// refreshPart replaces redirectPart while redirected clients have not refreshed their metadata. It exceeds the 2 s that sarama waits
	// (Consumer.Retry.Backoff), at the default DrainTimeout.
	refreshPart = 0.6
	goodbyePart = 0.1 // close the session
	// edgeDrainTimeout is for writing the last answers to clients.
	edgeDrainTimeout = 500 * time.Millisecond
)

// Run serves until ctx ends, then drains within Config.DrainTimeout: out of Metadata, parked fetches and new produce
// requests sent elsewhere, shared listeners closed, everything taken in flushed, committed and answered, and only then the
// session closed, so that the next owner need not wait for it to expire.
func (a *Agent) Run(ctx context.Context) error {
	defer a.Close()
	a.log.Info("agent is starting", zap.String("virtual_cluster", a.cfg.VirtualCluster), zap.String("zone", a.cfg.Zone),
		zap.Stringers("advertised", a.addresses), zap.String("peer_address", a.peerAddress), zap.String("http", a.HTTPAddress().String()),
		zap.Int64("memory_limit_bytes", a.cfg.MemoryLimit), zap.String("version", a.cfg.Version))
	// Stopped from last to first.
	err := service.Run(ctx, a.log,
		a.http.Service(),
		service.Service{Name: "peers", Run: a.runPeers},
		service.Service{Name: "load", Run: a.load.Run},
		service.Service{Name: "object store probe", Run: func(ctx context.Context) error { return a.store.Run(ctx, a.requests) }},
		service.Service{Name: "bucket's cluster id", Run: func(ctx context.Context) error { return a.owned.run(ctx, a.store.Works()) }},
		service.Service{Name: "session", Run: a.runSession},
		service.Service{Name: "partitions", Run: a.listeners.partitions.Run},
		service.Service{Name: "advertised addresses", Run: a.watchAddresses},
		service.Service{Name: "jobs", Run: a.runJobs},
		service.Service{Name: "errands", Run: a.listeners.errands.Run},
		service.Service{Name: "writer", Run: a.writer.Run},
		service.Service{Name: "zone's writer", Run: a.route.Run},
		service.Service{Name: "ready line", Run: a.logReady},
		service.Service{Name: "kafka listener", Run: a.edge.Run},
		service.Service{Name: "drain", Run: a.drain},
	)
	a.log.Info("agent has stopped", zap.Error(err))
	return a.plainFault(err)
}

// logReady logs once that clients can be served, with the rate of PUTs in the bill.
func (a *Agent) logReady(ctx context.Context) error {
	if err := a.Await(ctx); err == nil {
		rate, reason := a.cfg.EffectivePutBudget()
		a.log.Info("ready, Kafka clients at "+a.advertised(), zap.Float64("put_budget", rate), zap.String("put_budget_reason", reason))
	}
	<-ctx.Done()
	return nil
}

// advertised returns the addresses that clients receive, with commas between them.
func (a *Agent) advertised() string {
	texts := make([]string, len(a.addresses))
	for i, address := range a.addresses {
		texts[i] = address.String()
	}
	return strings.Join(texts, ", ")
}

// Bounds of the watch for other agents that advertise an address of this one.
const (
	rivalPause = 5 * time.Second
	// rivalRounds is the number of rounds in a row that find a rival before it is logged. The session of a killed predecessor
	// is closed earlier.
	rivalRounds = 6
)

// rivals counts, for each other member of the catalogue, the rounds in a row in which it advertised an address of this agent.
type rivals map[id.Session]int

// round checks a catalogue. It calls warn for a rival found in rivalRounds rounds in a row, once.
func (r *rivals) round(s *view.Snapshot, own []string, warn func(address string, other id.Session)) {
	found := make(rivals)
	for _, m := range s.Members {
		address := sharedAddress(m, own)
		if m.Session == s.Session || address == "" {
			continue
		}
		found[m.Session] = (*r)[m.Session] + 1
		if found[m.Session] == rivalRounds {
			warn(address, m.Session)
		}
	}
	*r = found
}

// sharedAddress returns an address of own that m advertises too, "" if there is none.
func sharedAddress(m *view.Member, own []string) string {
	if m.Peer != "" && slices.Contains(own, m.Peer) {
		return m.Peer
	}
	for _, e := range m.Endpoints {
		if address := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))); slices.Contains(own, address) {
			return address
		}
	}
	return ""
}

// watchAddresses warns of other agents that advertise an address of this one, because clients of one agent reach the other.
// Addresses of shared listeners are exempt.
func (a *Agent) watchAddresses(ctx context.Context) error {
	own := []string{a.peerAddress} // "" matches nothing
	for _, address := range a.addresses {
		if _, shared := a.shared[address.Listener]; !shared {
			own = append(own, net.JoinHostPort(address.Host, strconv.Itoa(int(address.Port))))
		}
	}
	tick := time.NewTicker(rivalPause)
	defer tick.Stop()
	var found rivals
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		found.round(a.listeners.catalogue.Load(), own, func(address string, other id.Session) {
			a.log.Warn("another agent advertises the same address: set --advertise and --peer-advertise of each agent to its own, or --shared-advertise to that of a load balancer",
				zap.String("address", address), zap.Uint32("other_session", uint32(other)))
		})
	}
}

// drain waits until the agent is to stop, then sees to it that nothing is left behind.
func (a *Agent) drain(ctx context.Context) error {
	<-ctx.Done()
	began := time.Now()
	left := began.Add(time.Duration(leavePart * float64(a.cfg.DrainTimeout)))
	err := a.within(ctx, leavePart, a.session.Drain)
	if err == nil {
		a.log.Info("left the membership", zap.Duration("took", time.Since(began)))
	} else {
		a.log.Info("the control plane could not be told that this agent leaves", zap.Error(err))
	}
	if len(a.listenersWithSiblings()) > 0 {
		<-time.After(time.Until(left))
	}
	a.fetcher.Drain()
	a.edge.HangUp(a.listenersWithSiblings()...)
	began = time.Now()
	redirected := time.After(a.redirectTime())
	refreshed, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(refreshPart*float64(a.cfg.DrainTimeout)))
	defer stop()
	err = errors.Join(a.within(ctx, handOverPart, a.handOver), a.within(ctx, flushPart, a.writer.Drain))
	a.log.Info("flushed", zap.Duration("took", time.Since(began)), zap.Error(err))
	<-redirected
	if err := a.departure.AwaitRefresh(refreshed); err != nil {
		a.log.Info("redirected clients did not refresh their metadata", zap.Duration("took", time.Since(began)))
	}
	return nil
}

// handOver ends the handing over of batches, both ways.
func (a *Agent) handOver(ctx context.Context) error {
	var taken error
	var waiting sync.WaitGroup
	waiting.Go(func() { taken = a.taker.Drain(ctx) })
	handed := a.route.Drain(ctx)
	waiting.Wait()
	return errors.Join(handed, taken)
}

// redirectTime is how long to go on telling clients to go elsewhere: none where there is no other agent.
func (a *Agent) redirectTime() time.Duration {
	if len(a.listeners.catalogue.Load().Members) == 0 {
		return 0
	}
	return time.Duration(redirectPart * float64(a.cfg.DrainTimeout))
}

// listenersWithSiblings returns the shared listeners whose load balancer has other agents. Their clients only have to reconnect. Clients of
// other shared listeners are redirected to another zone.
func (a *Agent) listenersWithSiblings() (listeners []string) {
	s := a.listeners.catalogue.Load()
	for name := range a.shared {
		if a.views.HasSibling(s, name) {
			listeners = append(listeners, name)
		}
	}
	return listeners
}

// left reports whether the agent drains, clients see that, and there are other agents for them to go to.
func (a *Agent) left() bool {
	s := a.listeners.catalogue.Load()
	return a.fetcher.Draining() && len(s.Members) > 0 && !s.IsMember()
}

// joinPatience is how long joining the cluster waits for the object store's first answer: credentials of an instance and
// a TLS session may be asked for first.
const joinPatience = 2 * time.Second

// awaitStore keeps an agent out of the cluster that the object store refuses, until it no longer does: clients would be sent
// to it in vain. A store that only does not answer is away for all agents, and is no reason.
func (a *Agent) awaitStore(ctx context.Context) error {
	patience := time.NewTimer(a.patience)
	defer patience.Stop()
	select {
	case <-a.store.Told():
	case <-patience.C:
	case <-ctx.Done():
	}
	if a.store.Refused() != nil {
		a.log.Warn("agent does not join the cluster before it can use the object store")
		select {
		case <-a.store.Works():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-a.store.Works():
	default:
		return ctx.Err()
	}
	if a.owned.name() == "" {
		return ctx.Err() // only a Welcome or a refusal names the marker
	}
	// The owner refuses an agent with another cluster's bucket before that has a session, if it is told in time. With a bucket of agents, it
	// refuses an agent without a marker until the agent has read one.
	select {
	case <-a.owned.read:
	case <-time.After(a.patience):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// runSession keeps the session until ctx ends, and closes it then: by now everything that used it has stopped.
func (a *Agent) runSession(ctx context.Context) error {
	if err := a.awaitStore(ctx); err != nil {
		return nil // ctx ended
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.converse(own) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if err := a.within(ctx, goodbyePart, a.session.Goodbye); err != nil {
		a.log.Info("session not closed, it will expire", zap.Error(err))
	}
	cancel()
	return <-ended
}

// converse runs the session until ctx ends. If the owner refuses the bucket's cluster id, converse calls the owner again after the
// ownership has had time to read the bucket. A bucket of another cluster ends ownership.run, and so the agent.
func (a *Agent) converse(ctx context.Context) error {
	for {
		err := a.session.Run(ctx)
		var wrong *client.WrongBucketError
		if !errors.As(err, &wrong) {
			return err
		}
		a.owned.refused(ctx, wrong)
	}
}

// within calls fn with its part of the time there is for draining.
func (a *Agent) within(ctx context.Context, part float64, fn func(context.Context) error) error {
	limit := time.Duration(part * float64(a.cfg.DrainTimeout))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return fn(ctx)
}

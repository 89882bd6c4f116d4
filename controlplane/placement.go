package controlplane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/wait"
)

const (
	// claimPause is the time by which each replica claims a virtual cluster later than the replica that is placed one better.
	claimPause = 200 * time.Millisecond
	// maxClaimRank bounds the wait of the worst placed replicas.
	maxClaimRank = 10
	// maxTakeovers is the number of virtual clusters that a replica takes over at a time, not counting warm ones. Each may load a snapshot.
	maxTakeovers = 16
	// leavePause is the time by which a replica that stops hands over idle virtual clusters later than loaded ones.
	leavePause = 500 * time.Millisecond
	// handOverPause is the time between two rounds of hand-overs to better placed replicas while virtual clusters are misplaced.
	handOverPause = time.Second
	// lookPause is the time between two rounds while none is misplaced.
	lookPause = 5 * time.Second
	// settledAfter is the time for which a better placed replica must have been registered.
	settledAfter = 10 * time.Second
	// askTimeout bounds a question to a better placed replica, which may ask other clocks.
	askTimeout = 3 * time.Second
	// returnPause and maxReturnPause bound the time before a virtual cluster is handed over again that has come back or was refused.
	returnPause    = time.Minute
	maxReturnPause = 16 * time.Minute
)

// placed returns this replica and the registered ones, best placed first for a cluster id, by rendezvous hashing. So replicas share the virtual
// clusters evenly, and few move when a replica comes or goes.
func (m *members) placed(clusterID string) []string {
	all := []string{m.replica}
	for _, other := range m.others() {
		if !slices.Contains(all, other.id) {
			all = append(all, other.id)
		}
	}
	weights := map[string]uint64{}
	for _, id := range all {
		weights[id] = xxhash.Sum64String(clusterID + "\x00" + id)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a, b)) })
	return all
}

// turn returns how long this replica waits before it claims a virtual cluster without an owner. The former owner goes last: it is about to
// stop, or has just failed.
func (m *members) turn(clusterID, former string) time.Duration {
	all := m.placed(clusterID)
	if i := slices.Index(all, former); i >= 0 {
		all = append(slices.Delete(all, i, i+1), former)
	}
	return claimPause * time.Duration(min(slices.Index(all, m.replica), maxClaimRank))
}

// leaving returns a context for a virtual cluster that ends with ctx, or leavePause later if it may wait. Where idle virtual clusters wait, a
// replica that stops and the next owners have their processors for those whose clients write.
func leaving(ctx context.Context, mayWait func() bool) (context.Context, context.CancelFunc) {
	left, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if mayWait() {
			time.AfterFunc(leavePause, cancel)
		} else {
			cancel()
		}
	})
	return left, func() {
		stop()
		cancel()
	}
}

// loaded reports whether this replica is the owner and clients write.
func (c *cluster) loaded() bool {
	loads := c.sessions.Loads()
	if loads == nil {
		return false
	}
	for _, agent := range loads.Recent(time.Now()) {
		if agent.Load.ProduceBytesPerSecond > 0 {
			return true
		}
	}
	return false
}

// placement hands virtual clusters of etcd over to better placed replicas, one at a time. It asks the better placed replica first, since that
// replica may have another bucket or a clock that is off. Virtual clusters of the settings stay where they are.
type placement struct {
	members *members
	owned   func() []*cluster                                          // virtual clusters of etcd that this replica owns
	ask     func(ctx context.Context, address, clusterID string) error // nil if the replica at address can take the virtual cluster over
	log     *zap.Logger

	settled     time.Duration        // settledAfter
	returnPause time.Duration        // returnPause
	since       map[member]time.Time // when each other replica was seen first; one that restarted is another member
	returns     map[string]*handOver // by cluster id

	misplaced prometheus.Gauge
	handOvers prometheus.Counter
}

// handOver is the newest attempt to hand a virtual cluster over.
type handOver struct {
	next    time.Time // of the next one, if the virtual cluster comes back or stays
	pause   time.Duration
	refused bool // by the better placed replica
}

func newPlacement(
	m *members, owned func() []*cluster, ask func(ctx context.Context, address, clusterID string) error, log *zap.Logger, reg prometheus.Registerer,
) *placement {
	p := &placement{
		members: m, owned: owned, ask: ask, log: log,
		settled: settledAfter, returnPause: returnPause, since: map[member]time.Time{}, returns: map[string]*handOver{},
		misplaced: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "freshet_controlplane_misplaced_virtual_clusters",
			Help: "Virtual clusters of etcd that this replica owns and another replica is placed better for. One is handed over each second.",
		}),
		handOvers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_controlplane_placement_hand_overs_total",
			Help: "Virtual clusters that this replica handed over to a better placed one.",
		}),
	}
	reg.MustRegister(p.misplaced, p.handOvers)
	return p
}

// run hands over until ctx ends.
func (p *placement) run(ctx context.Context) error {
	for pause := handOverPause; wait.For(ctx, pause) == nil; {
		pause = lookPause
		if p.round(ctx, time.Now()) {
			pause = handOverPause
		}
	}
	return nil
}

// round hands one misplaced virtual cluster over, if its attempt is due. It reports whether any virtual cluster is misplaced.
func (p *placement) round(ctx context.Context, now time.Time) (found bool) {
	p.observe(now)
	misplaced := map[string]*cluster{} // by cluster id
	for _, c := range p.owned() {
		if _, ok := p.better(c.clusterID(), now); ok {
			misplaced[c.clusterID()] = c
		}
	}
	p.misplaced.Set(float64(len(misplaced)))
	if id := p.next(misplaced, now); id != "" {
		to, _ := p.better(id, now)
		p.handOver(ctx, misplaced[id], to, now)
	}
	return len(misplaced) > 0
}

// next returns the misplaced virtual cluster whose next attempt has been due longest, or "" if none is due. So refused virtual clusters do not hold up
// the others. next forgets attempts whose virtual cluster is not misplaced any more.
func (p *placement) next(misplaced map[string]*cluster, now time.Time) (next string) {
	for id, h := range p.returns {
		if _, still := misplaced[id]; !still && now.Sub(h.next) > maxReturnPause {
			delete(p.returns, id)
		}
	}
	var since time.Time
	for id := range misplaced {
		var due time.Time
		if h := p.returns[id]; h != nil {
			due = h.next
		}
		if !now.Before(due) && (next == "" || due.Before(since)) {
			next, since = id, due
		}
	}
	return next
}

// handOver hands a virtual cluster over to a better placed replica, unless that replica refuses or does not answer.
func (p *placement) handOver(ctx context.Context, c *cluster, to member, now time.Time) {
	id := c.clusterID()
	h := p.returns[id]
	if h == nil {
		h = &handOver{pause: p.returnPause}
		p.returns[id] = h
	}
	h.next, h.pause = now.Add(h.pause), min(2*h.pause, maxReturnPause)
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	about := []zap.Field{zap.String("virtual_cluster", c.spec.Name), zap.String("other_replica", to.id)}
	if err := p.ask(asking, to.address, id); err != nil {
		if !h.refused && ctx.Err() == nil {
			p.log.Info("the better placed replica cannot take a virtual cluster over, asking again after a pause", append(about, zap.Error(err))...)
		}
		h.refused = true
		return
	}
	h.refused = false
	p.handOvers.Inc()
	p.log.Info("handing a virtual cluster over to a better placed replica", about...)
	if s := c.stored.Load(); s != nil {
		s.replica.HandOver()
	}
}

// observe notes since when the other replicas are registered.
func (p *placement) observe(now time.Time) {
	registered := map[member]time.Time{}
	for _, other := range p.members.others() {
		registered[other] = now
		if since, ok := p.since[other]; ok {
			registered[other] = since
		}
	}
	p.since = registered
}

// better returns the replica that is placed best for a cluster, if it is another one that has been registered for some time.
func (p *placement) better(clusterID string, now time.Time) (best member, ok bool) {
	id := p.members.placed(clusterID)[0]
	if id == p.members.replica {
		return member{}, false
	}
	for _, other := range p.members.others() {
		if since, ok := p.since[other]; ok && other.id == id && now.Sub(since) >= p.settled {
			return other, true
		}
	}
	return member{}, false
}

// takes returns nil if this replica can become the owner of a virtual cluster of etcd, and otherwise the reason. A replica that would hand the
// virtual cluster over asks.
func (c *ControlPlane) takes(ctx context.Context, clusterID string) error {
	e, ok := c.clusters.ofEtcd(clusterID)
	if !ok {
		return errUnlisted
	}
	if err := c.clusters.failed(&e); err != nil {
		return err
	}
	if e.running == nil {
		return errStarts
	}
	s := e.running.stored.Load()
	switch {
	case s == nil:
		return errNoID
	case !s.bucket.marked():
		return errNotCompared
	}
	return s.replica.MayOwn(ctx)
}

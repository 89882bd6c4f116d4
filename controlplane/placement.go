package controlplane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

const (
	// claimPause is the time by which each replica claims a virtual cluster later than the replica that is placed one better.
	claimPause = 200 * time.Millisecond
	// maxClaimRank bounds the wait of the worst placed replicas.
	maxClaimRank = 10
	// maxTakeovers is the number of virtual clusters that a replica takes over at a time, not counting warm ones. Each may load a snapshot.
	maxTakeovers = 16
	// handOverPause is the time between two hand-overs to better placed replicas.
	handOverPause = time.Second
	// settledAfter is the time for which a better placed replica must have been registered.
	settledAfter = 10 * time.Second
	// returnPause and maxReturnPause bound the time before a virtual cluster is handed over again that has come back.
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

// placement hands virtual clusters of etcd over to better placed replicas, one at a time. Those of the settings stay where they are.
type placement struct {
	members  *members
	clusters func() []entry
	log      *zap.Logger

	settled     time.Duration        // settledAfter
	returnPause time.Duration        // returnPause
	since       map[string]time.Time // when each other replica was registered, by id
	returns     map[string]*handOver // by cluster id

	misplaced prometheus.Gauge
	handOvers prometheus.Counter
}

// handOver is the newest hand-over of a virtual cluster.
type handOver struct {
	next  time.Time // of the next one, if the virtual cluster comes back
	pause time.Duration
}

func newPlacement(m *members, clusters func() []entry, log *zap.Logger, reg prometheus.Registerer) *placement {
	p := &placement{
		members: m, clusters: clusters, log: log,
		settled: settledAfter, returnPause: returnPause, since: map[string]time.Time{}, returns: map[string]*handOver{},
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
	tick := time.NewTicker(handOverPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			p.round(time.Now())
		}
	}
}

// round hands one virtual cluster over, if one is misplaced.
func (p *placement) round(now time.Time) {
	p.observe(now)
	misplaced, listed := 0, map[string]bool{}
	var next *cluster
	for _, e := range p.clusters() {
		c := e.running
		if e.kind != ofEtcd || c == nil {
			continue
		}
		id := c.clusterID()
		listed[id] = true
		if c.owner() == nil || !p.better(id, now) {
			continue
		}
		misplaced++
		if h := p.returns[id]; next == nil && (h == nil || !now.Before(h.next)) {
			next = c
		}
	}
	p.misplaced.Set(float64(misplaced))
	for id, h := range p.returns {
		if !listed[id] || now.Sub(h.next) > maxReturnPause {
			delete(p.returns, id)
		}
	}
	if next == nil {
		return
	}
	id := next.clusterID()
	h := p.returns[id]
	if h == nil {
		h = &handOver{pause: p.returnPause}
		p.returns[id] = h
	}
	h.next, h.pause = now.Add(h.pause), min(2*h.pause, maxReturnPause)
	p.handOvers.Inc()
	p.log.Info("handing a virtual cluster over to a better placed replica", zap.String("virtual_cluster", next.spec.Name))
	if s := next.stored.Load(); s != nil {
		s.replica.HandOver()
	}
}

// observe notes when the other replicas were registered.
func (p *placement) observe(now time.Time) {
	registered := map[string]time.Time{}
	for _, other := range p.members.others() {
		registered[other.id] = now
		if since, ok := p.since[other.id]; ok {
			registered[other.id] = since
		}
	}
	p.since = registered
}

// better reports whether another replica is placed best for a cluster, and has been registered for some time.
func (p *placement) better(clusterID string, now time.Time) bool {
	best := p.members.placed(clusterID)[0]
	since, ok := p.since[best]
	return ok && best != p.members.replica && now.Sub(since) >= p.settled
}

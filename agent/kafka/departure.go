package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/id"
)

// redirectVersion is the first Fetch version whose answer names the new leader and its address (KIP-951).
const redirectVersion = 16

// Departure redirects consumers from an agent that drains, and consumers abroad: Fetch and ListOffsets get NOT_LEADER_OR_FOLLOWER for a
// partition that another agent leads in the client's view. The client then refreshes its metadata, which no longer names this agent, or follows the leader in the
// answer. Without the error, a client that knows this agent alone loses its only broker when the connection closes.
//
// A partition is served to the end if there is no new leader, if the leader is this zone's load balancer, which may lead back here, or if
// the client already knows the newest epoch. A connection that must refresh its metadata is redirected at most once
// per redirectPause and API. The
// client has its records until it moves, and a client that stays does not spin.
type Departure struct {
	catalogue *view.Catalogue
	views     *Views
	left      func() bool
	sent      *recent // connections that were redirected in a drain
	strays    *recent // connections that were redirected because the client is abroad

	mu struct {
		sync.Mutex
		stale   map[uint64]struct{} // redirected connections without a Metadata request since; sent bounds them
		settled chan struct{}       // closed once stale is empty; nil if nothing waits
	}
}

// NewDeparture returns the Departure of an agent. left reports whether the agent has left the membership while other agents remain.
func NewDeparture(catalogue *view.Catalogue, views *Views, left func() bool) *Departure {
	return &Departure{catalogue: catalogue, views: views, left: left, sent: newRedirects(), strays: newRedirects()}
}

// redirected notes that the client of a connection must refresh its metadata.
func (d *Departure) redirected(connection uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.stale == nil {
		d.mu.stale = make(map[uint64]struct{})
	}
	d.mu.stale[connection] = struct{}{}
}

// refreshed notes that a connection asked for Metadata.
func (d *Departure) refreshed(connection uint64) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.stale, connection)
	if len(d.mu.stale) == 0 && d.mu.settled != nil {
		close(d.mu.settled)
		d.mu.settled = nil
	}
}

// AwaitRefresh returns when every redirected connection has asked for Metadata, or with the end of ctx. Clients wait before they ask:
// sarama 2 s. A client that knows this agent alone has no other broker to ask.
func (d *Departure) AwaitRefresh(ctx context.Context) error {
	d.mu.Lock()
	if len(d.mu.stale) == 0 {
		d.mu.Unlock()
		return nil
	}
	if d.mu.settled == nil {
		d.mu.settled = make(chan struct{})
	}
	settled := d.mu.settled
	d.mu.Unlock()
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// departing is one request while the agent drains, or of a client abroad.
type departing struct {
	*Departure
	ctx      context.Context // ends with the connection
	req      *edge.Request
	snapshot *view.Snapshot
	zone     *zoneView
	drains   bool  // the agent drains; false: the client is abroad
	once     *bool // whether the connection may be redirected; nil until it matters
}

// of returns the request's redirects, or nil if the agent does not drain and the client is not abroad. ctx ends with the connection.
func (d *Departure) of(ctx context.Context, req *edge.Request) *departing {
	if d == nil {
		return nil
	}
	snapshot, drains := d.catalogue.Load(), d.left()
	if !drains && !d.views.Abroad(snapshot, req) {
		return nil
	}
	return &departing{Departure: d, ctx: ctx, req: req, snapshot: snapshot, zone: d.views.of(snapshot, req), drains: drains}
}

// leader returns the new leader of a partition, and false if the partition is to be served. epoch is the one that the client knows, -1
// for none. follows reports whether the client follows a leader in the answer.
func (d *departing) leader(p id.TopicPartition, epoch int32, follows bool) (leader, bool) {
	topic, ok := d.snapshot.TopicByID(p.Topic)
	if !ok {
		return leader{}, false
	}
	l, ok := d.zone.leader(topic, p.Partition)
	if !ok || epoch >= l.epoch || d.views.isOwnNode(d.req.Client.Listener, l.node) {
		return leader{}, false
	}
	if follows && epoch >= 0 {
		return l, true
	}
	if d.once == nil {
		seen := d.strays
		if d.drains {
			seen = d.sent
		}
		allowed := seen.allow(fmt.Sprintf("%d/%d", d.req.Key, d.req.Client.ID), time.Now())
		d.once = &allowed
		if allowed && d.drains {
			d.redirected(d.req.Client.ID)
			context.AfterFunc(d.ctx, func() { d.refreshed(d.req.Client.ID) })
		}
	}
	return l, *d.once
}

// elsewhere holds the new leaders of redirected partitions. The zero value redirects none.
type elsewhere struct {
	leaders   map[int]*fetch.Leader // by index of the request's partitions
	endpoints []fetch.Endpoint      // of these leaders
}

// redirect refuses partitions with NOT_LEADER_OR_FOLLOWER while the agent drains or the client is abroad. From redirectVersion on, it names their new leaders.
func (f *Fetch) redirect(ctx context.Context, req *edge.Request, version int16, s *fetching) (to elsewhere) {
	d := f.cfg.Departure.of(ctx, req)
	if d == nil {
		return to
	}
	named := version >= redirectVersion
	to.leaders = make(map[int]*fetch.Leader)
	for i, t := range s.tracked {
		p := &s.partitions[i]
		if p.Refused != nil {
			continue
		}
		leader, ok := d.leader(p.ID, t.Epoch, named)
		if !ok {
			continue
		}
		p.Refused = kerr.NotLeaderForPartition
		if named {
			to.leaders[i] = &fetch.Leader{NodeID: leader.node, Epoch: leader.epoch}
			to.add(d.zone, leader.node)
		}
	}
	return to
}

// add adds the address of a leader.
func (to *elsewhere) add(zone *zoneView, node int32) {
	for i := range to.endpoints {
		if to.endpoints[i].NodeID == node {
			return
		}
	}
	if b := zone.broker(node); b != nil {
		to.endpoints = append(to.endpoints, fetch.Endpoint{NodeID: b.NodeID, Host: b.Host, Port: b.Port, Rack: b.Rack})
	}
}

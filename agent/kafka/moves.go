package kafka

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
)

const (
	// sendOnFor is how long after a change of the membership producers are sent on to where their partitions went. One that
	// writes all the time is met within that; who comes later is served, as any agent takes any partition.
	sendOnFor = 5 * time.Second
	// maxPast bounds the memberships that partitions are known to have gone from. The oldest are what most clients know.
	maxPast = 8
)

// errSentOn refuses a batch whose producer is told, with it, who has the partition now. With this code librdkafka sends the
// batch again without asking for Metadata, which would move its other partitions too early (sendsOn).
var errSentOn = fmt.Errorf("%w: the partition has gone to another agent", kerr.NotEnoughReplicas)

// sendsOn tells whether idempotent producers of this software are sent on to where their partitions went. Others learn of it by
// Metadata, and are served until then.
//
// librdkafka is. It waits until nothing is under way for a partition that moved, and only then asks for a connection to its new
// leader; if it has none, nothing wakes it in between, and it sleeps for up to a second (rd_kafka_toppar_producer_serve,
// rd_kafka_max_block_ms; seen in 2.15 and 2.16). Metadata comes at any time. A refusal comes when all before it is answered and all
// behind it is refused, and the leader that it names is followed at once, whatever the error (rd_kafka_handle_Produce_metadata_update).
//
// Java is not: it repeats what was refused one batch at a time (RecordAccumulator.shouldStopDrainBatchesForPartition),
// each of which is a wait for a PUT.
func sendsOn(s edge.Software) bool {
	_, _, ok := rdkafka(s)
	return ok
}

// moves are the partitions that this agent gave away lately, as the clients of a zone see it by a listener. Nil: none.
type moves struct {
	own    []int32     // this agent's nodes
	before []*zoneView // of the last memberships
	now    *zoneView
	sentOn prometheus.Counter
}

// moves tells what this agent gave away within sendOnFor.
func (v *Views) moves(s *view.Snapshot, req *edge.Request) *moves {
	v.mu.Lock()
	defer v.mu.Unlock()
	current := v.at(s)
	if current != v.mu.current {
		return nil // a newer one is known, by which the next request is told
	}
	v.forget()
	if len(v.mu.past) == 0 {
		return nil
	}
	key := v.key(req)
	m := &moves{own: current.nodes(), now: current.view(key), sentOn: v.m.sentOn}
	for _, past := range v.mu.past {
		m.own = append(m.own, past.nodes()...)
		m.before = append(m.before, past.view(key))
	}
	return m
}

// retire keeps a membership that is past for as long as producers are sent on from it. The caller holds mu.
func (v *Views) retire(m *membership) {
	m.parts.clear()
	m.ended = time.Now()
	v.forget()
	if len(v.mu.past) < maxPast {
		v.mu.past = append(v.mu.past, m)
	}
}

// forget drops the memberships that nobody is sent on from any more. The caller holds mu.
func (v *Views) forget() {
	now := time.Now()
	v.mu.past = slices.DeleteFunc(v.mu.past, func(m *membership) bool { return now.Sub(m.ended) > sendOnFor })
}

// nodes gives the ids of this agent's nodes, as far as it is shown. The slice may be appended to.
func (m *membership) nodes() []int32 {
	for _, member := range m.members {
		if member.Session == m.session {
			return slices.Clone(member.NodeIDs)
		}
	}
	return nil
}

// away tells whether a partition was this agent's and is another's now.
func (m *moves) away(t *view.Topic, partition int32) bool {
	if m == nil {
		return false
	}
	if at, ok := m.now.leader(t, partition); !ok || slices.Contains(m.own, at.node) {
		return false
	}
	gone := slices.ContainsFunc(m.before, func(v *zoneView) bool {
		at, ok := v.leader(t, partition)
		return ok && slices.Contains(m.own, at.node)
	})
	if gone {
		m.sentOn.Inc()
	}
	return gone
}

package kafka

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// sendOnFor is how long after this agent learnt of other agents producers are sent on to where their partitions went. One
	// that writes all the time is met within that; who comes later is served, as any agent takes any partition.
	sendOnFor = 5 * time.Second
	// maxPast bounds the memberships that partitions are known to have gone from. The oldest are what most clients know.
	maxPast = 8
	// maxSentOn bounds what is known of who was sent on, about 1 MiB; beyond it nobody else is.
	maxSentOn = 16384
)

// errSentOn refuses a batch whose producer is told, with it, who has the partition now. With this code librdkafka sends the
// batch again without asking for Metadata, which would move its other partitions too early (isSentOn).
var errSentOn = fmt.Errorf("%w: the partition has gone to another agent", kerr.NotEnoughReplicas)

// isSentOn tells whether idempotent producers of this software are sent on to where their partitions went. Others learn of it by
// Metadata, and are served until then.
//
// librdkafka is. It waits until nothing is under way for a partition that moved, and only then asks for a connection to its new
// leader; if it has none, nothing wakes it in between, and it sleeps for up to a second (rd_kafka_toppar_producer_serve,
// rd_kafka_max_block_ms; seen in 2.15 and 2.16). Metadata comes at any time. A refusal comes when all before it is answered and all
// behind it is refused, and the leader that it names is followed at once, whatever the error (rd_kafka_handle_Produce_metadata_update).
//
// Java is not: it repeats what was refused one batch at a time (RecordAccumulator.shouldStopDrainBatchesForPartition),
// each of which is a wait for a PUT.
func isSentOn(s edge.Software) bool {
	_, _, ok := rdkafka(s)
	return ok
}

// moves are the partitions that this agent gave away lately, as the clients of a zone see it by a listener. Nil: none.
type moves struct {
	views   *Views
	version uint64      // of the membership now
	own     []int32     // this agent's nodes
	before  []*zoneView // of the last memberships
	now     *zoneView
}

// pipeline is what a producer sends to a partition under one membership.
type pipeline struct {
	version   uint64 // of the membership
	producer  int64
	topic     id.Topic
	partition int32
}

// first is the first batch of a pipeline that was sent on.
type first struct {
	sequence int32
	stays    bool // it came again: its producer goes nowhere else
}

// moves tells what this agent gave away within sendOnFor, if the request's client is sent on. It costs a comparison while nobody is.
func (v *Views) moves(s *view.Snapshot, req *edge.Request) *moves {
	if v.calm.Load() == s {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.meet(s)
	v.forget()
	if len(v.mu.past) == 0 {
		v.calm.Store(s)
		return nil
	}
	if !isSentOn(req.Client.Software()) {
		return nil
	}
	current, key := v.mu.current, v.key(s, req)
	m := &moves{views: v, version: current.version, own: current.nodes(), now: current.view(key)}
	for _, past := range slices.Backward(v.mu.past) {
		m.own = append(m.own, past.nodes()...)
		m.before = append(m.before, past.view(key))
	}
	return m
}

// sendOn tells whether a producer is to send a batch elsewhere: its partition was this agent's and is another's now. A batch that
// comes again is taken, with all that follow: its producer does not go where it was told.
func (m *moves) sendOn(t *view.Topic, partition int32, b kafkaproto.RecordBatch) bool {
	if m == nil || b.ProducerID() < 0 || !m.away(t, partition) {
		return false
	}
	v, at := m.views, pipeline{m.version, b.ProducerID(), t.ID, partition}
	v.mu.Lock()
	defer v.mu.Unlock()
	before, known := v.mu.sentOn[at]
	switch {
	case !known && len(v.mu.sentOn) >= maxSentOn:
		return false
	case !known:
		if v.mu.sentOn == nil {
			v.mu.sentOn = make(map[pipeline]first)
		}
		v.mu.sentOn[at] = first{sequence: b.BaseSequence()}
	case before.stays:
		return false
	case before.sequence == b.BaseSequence():
		v.mu.sentOn[at] = first{stays: true}
		return false
	}
	v.m.sentOn.Inc()
	return true
}

// away tells whether a partition was this agent's and is another's now.
func (m *moves) away(t *view.Topic, partition int32) bool {
	if at, ok := m.now.leader(t, partition); !ok || slices.Contains(m.own, at.node) {
		return false
	}
	return slices.ContainsFunc(m.before, func(v *zoneView) bool {
		at, ok := v.leader(t, partition)
		return ok && slices.Contains(m.own, at.node)
	})
}

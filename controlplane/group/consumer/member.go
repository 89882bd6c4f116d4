package consumer

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/metadata/id"
)

// Epochs with a meaning of their own, in ConsumerGroupHeartbeat.
const (
	epochJoin        int32 = 0
	epochLeave       int32 = -1
	epochLeaveStatic int32 = -2 // a static member goes and means to be back
)

// memberState is how far a member has come towards its target. The numbers are part of the value's format, and Kafka's.
type memberState uint8

const (
	// stable: the member has its target of its epoch.
	stable memberState = iota
	// unrevoked: the member is yet to give up partitions, and stays at its epoch until it has.
	unrevoked
	// unreleased: the member waits for partitions that others are yet to give up.
	unreleased
)

// epochs is a set of partitions, each with the member epoch at which the member got it. It is never changed, only
// replaced.
type epochs map[id.TopicPartition]int32

func (e epochs) sorted() []id.TopicPartition {
	return slices.SortedFunc(maps.Keys(e), id.TopicPartition.Compare)
}

// member is one member. Slices and maps are replaced, never changed: a copy of the struct is a copy of the member.
type member struct {
	id         string
	instance   string // "" for a dynamic member
	rack       string // "" for none
	clientID   string
	clientHost string

	rebalanceMs int32
	topics      []string // subscribed by name, ascending, each once
	regex       string   // "" for none
	assignor    string   // the assignor it asks for, "" for any
	classic     *classicMember

	epoch, previous int32 // previous: the epoch before, which it may still send while an answer is lost
	state           memberState
	assigned        epochs // what it may use
	revoking        epochs // what it is to give up and still owns
	target          []id.TopicPartition

	timers memberTimers

	bytes int // weight when the member became part of the group; 0 before
}

// weight returns the estimated bytes of the member that its client chose: all but its partitions.
func (m *member) weight() int {
	n := classic.MemberOverhead + len(m.id) + len(m.instance) + len(m.rack) + len(m.clientID) + len(m.clientHost) + len(m.regex) + len(m.assignor)
	for _, topic := range m.topics {
		n += nameOverhead + len(topic)
	}
	if m.classic != nil {
		for _, p := range m.classic.protocols {
			n += len(p.Name) + len(p.Metadata)
		}
	}
	return n
}

// nameOverhead is the memory of a string beside its bytes.
const nameOverhead = 16

// classicMember is what a member has that speaks the classic protocol.
type classicMember struct {
	sessionMs int32
	protocols []classic.Protocol // in its order, at least one
}

// memberTimers are soft. Zero times are not set.
type memberTimers struct {
	session   time.Time
	rebalance time.Time // by when revoking has to be done
	atEpoch   int32     // rebalance is void at another member epoch
	join      time.Time // by when a classic member has to rejoin
	sync      time.Time // by when a classic member has to sync
}

func (t *memberTimers) due(now time.Time, epoch int32) string {
	switch past := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }; {
	case past(t.session):
		return "session expired"
	case past(t.rebalance) && t.atEpoch == epoch:
		return "revocation took too long"
	case past(t.join):
		return "classic member did not rejoin in time"
	case past(t.sync):
		return "classic member did not sync in time"
	default:
		return ""
	}
}

// earliest returns the time of the next timer.
func (t *memberTimers) earliest(epoch int32) time.Time {
	next := t.session
	if t.atEpoch == epoch {
		next = earlier(next, t.rebalance)
	}
	return earlier(earlier(next, t.join), t.sync)
}

// earlier returns the earlier of two times. Zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// newMember returns a member that has just joined.
func newMember(id string) *member { return &member{id: id, previous: -1, rebalanceMs: -1} }

func (m *member) clone() *member {
	c := *m
	return &c
}

func (m *member) reconciledTo(epoch int32) bool { return m.state == stable && m.epoch == epoch }

func (m *member) rebalanceTimeout() time.Duration {
	return time.Duration(max(m.rebalanceMs, 0)) * time.Millisecond
}

func (m *member) classicSession() time.Duration {
	return time.Duration(m.classic.sessionMs) * time.Millisecond
}

// move sets the member's epoch and keeps the previous one.
func (m *member) move(epoch int32) { m.previous, m.epoch = m.epoch, epoch }

// sameSubscription reports whether two members have the same identity and subscription.
func sameSubscription(a, b *member) bool {
	return a.id == b.id && a.instance == b.instance && a.rack == b.rack && a.clientID == b.clientID &&
		a.clientHost == b.clientHost && a.rebalanceMs == b.rebalanceMs && slices.Equal(a.topics, b.topics) &&
		a.regex == b.regex && a.assignor == b.assignor && sameClassic(a.classic, b.classic)
}

func sameClassic(a, b *classicMember) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.sessionMs == b.sessionMs && slices.EqualFunc(a.protocols, b.protocols, func(p, q classic.Protocol) bool {
		return p.Name == q.Name && bytes.Equal(p.Metadata, q.Metadata)
	})
}

// sameAssignment reports whether two members have the same partitions, epochs and state.
func sameAssignment(a, b *member) bool {
	return a.epoch == b.epoch && a.previous == b.previous && a.state == b.state &&
		maps.Equal(a.assigned, b.assigned) && maps.Equal(a.revoking, b.revoking)
}

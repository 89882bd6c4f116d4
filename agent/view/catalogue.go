package view

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata/id"
)

// Topic is one topic as clients see it. It does not change; a changed topic is a new value.
type Topic struct {
	ID         id.Topic
	Name       string
	Partitions int32 // count; partitions are [0, Partitions)
	// ReplicationFactor is the number of nodes that clients see of each partition, if there are that many.
	ReplicationFactor int
	Configs           map[string]string // those set explicitly
	Internal          bool              // one of package internaltopic: the owner has no such topic
}

// Endpoint is one address that clients reach an agent at.
type Endpoint struct {
	Listener string // listener name; "" is the default listener
	Host     string
	Port     int32
}

// Member is one agent that Metadata shows. It does not change.
type Member struct {
	Session   id.Session
	Zone      string
	Endpoints []Endpoint // one per listener port
	NodeIDs   []int32    // one per endpoint
	Peer      string     // host:port at which it answers agents of its zone, "" if nowhere
}

// Snapshot is the catalogue as of one log index. It is immutable: callers share it and change nothing in it.
type Snapshot struct {
	ClusterID string
	Session   id.Session // this agent's, as of the newest Welcome
	Index     uint64     // log index of the newest Catalogue message in it; 0 before the first
	Version   uint64     // of the membership; rises with every change, never falls
	Members   []*Member  // in the order of sessions; none while all agents drain
	Last      []*Member  // of the newest membership that had any
	Gone      []*Member  // of each zone that has no member any more, the last one there, without node ids
	Unshown   []uint32   // open sessions that are no members: their agents drain or are hidden, and may still commit
	// BrokerConfigs holds the cluster-wide broker configs that were set explicitly.
	BrokerConfigs map[string]string
	// ClientMetrics holds the configs of the client metrics subscriptions by name (KIP-714), MetricsVersion the log
	// index that they changed at.
	ClientMetrics  map[string]map[string]string
	MetricsVersion uint64

	byName *btree.Map[string, *Topic] // by name
	byID   *btree.Map[string, *Topic] // by the 16 bytes of the id
}

// TopicByName finds a topic by its name.
func (s *Snapshot) TopicByName(name string) (*Topic, bool) { return s.byName.Get(name) }

// TopicByID finds a topic by its id.
func (s *Snapshot) TopicByID(topic id.Topic) (*Topic, bool) { return s.byID.Get(string(topic[:])) }

// Shown returns the agents that clients see. Without members, these are the last ones: the answering agent is among them and still takes
// requests, and librdkafka forgets every broker, and so the cluster, at an answer without brokers.
func (s *Snapshot) Shown() []*Member {
	if len(s.Members) == 0 {
		return s.Last
	}
	return s.Members
}

// IsMember reports whether this agent is in the membership.
func (s *Snapshot) IsMember() bool {
	return slices.ContainsFunc(s.Members, func(m *Member) bool { return m.Session == s.Session })
}

// Topics gives all topics in the order of their names.
func (s *Snapshot) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		s.byName.Scan(func(_ string, t *Topic) bool { return yield(t) })
	}
}

// TopicCount is the number of topics.
func (s *Snapshot) TopicCount() int { return s.byName.Len() }

// Prober tells how far the session stream is: client.Session implements it.
type Prober interface {
	// Fresh returns once everything that was committed before the call began has come by the stream, and gives its
	// log index. Calls under way share a probe where that keeps the promise.
	Fresh(ctx context.Context) (uint64, error)
}

// Catalogue follows the owner's Catalogue messages. The messages come in stream order from one goroutine; Load and
// Fresh are for any goroutine.
type Catalogue struct {
	now      atomic.Pointer[Snapshot]
	internal bool // the internal topics are shown

	mu struct {
		sync.Mutex
		first   chan struct{} // closed by the first full catalogue
		arrived bool
		changed chan struct{} // closed and replaced by every Catalogue message
	}
}

// NewCatalogue makes an empty catalogue: no topics, no members, Index 0.
func NewCatalogue() *Catalogue {
	c := &Catalogue{}
	c.mu.first = make(chan struct{})
	c.mu.changed = make(chan struct{})
	c.now.Store(&Snapshot{
		byName: new(btree.Map[string, *Topic]),
		byID:   new(btree.Map[string, *Topic]),
	})
	return c
}

// ShowInternal shows the internal topics while the owner has groups or transactions. Call it before the first full catalogue.
func (c *Catalogue) ShowInternal() { c.internal = true }

// Load gives the newest snapshot. It is never nil.
func (c *Catalogue) Load() *Snapshot { return c.now.Load() }

// Ready is closed once a full catalogue has arrived; before that the snapshot says nothing.
func (c *Catalogue) Ready() <-chan struct{} { return c.mu.first }

// Changed gives a channel that is closed by the next Catalogue message: take it, then Load, then wait.
func (c *Catalogue) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.changed
}

// Fresh gives a snapshot that holds everything committed before the call began, so that an absence in it is one
// (I4). The error is the prober's: nothing is known then.
func (c *Catalogue) Fresh(ctx context.Context, p Prober) (*Snapshot, error) {
	if _, err := p.Fresh(ctx); err != nil {
		return nil, fmt.Errorf("refresh catalogue: %w", err)
	}
	// The stream's order is the log's: what the stamp covers was applied before the stamp was delivered.
	return c.Load(), nil
}

// OnWelcome takes the cluster's id and the agent's session. Part of client.Handler.
func (c *Catalogue) OnWelcome(w *api.Welcome) {
	s := *c.Load()
	s.ClusterID, s.Session = w.GetClusterId(), id.Session(w.GetSession())
	c.publish(&s)
}

// OnCatalogue applies one message: a full one replaces everything, any other what it names. Part of client.Handler.
func (c *Catalogue) OnCatalogue(m *api.Catalogue) {
	old := c.Load()
	s := *old
	s.Index = max(s.Index, m.GetIndex())
	if m.GetFull() {
		s.byName, s.byID = new(btree.Map[string, *Topic]), new(btree.Map[string, *Topic])
	} else if len(m.GetTopics())+len(m.GetDeletedTopics()) > 0 || m.OffsetsTopic != nil || m.TransactionsTopic != nil {
		s.byName, s.byID = old.byName.Copy(), old.byID.Copy()
	}
	if c.internal {
		s.setInternal(&internaltopic.Offsets, m.OffsetsTopic, m.GetFull())
		s.setInternal(&internaltopic.Transactions, m.TransactionsTopic, m.GetFull())
	}
	for _, raw := range m.GetDeletedTopics() {
		s.remove(raw)
	}
	for _, t := range m.GetTopics() {
		s.put(t)
	}
	if m.GetMembership() != nil {
		s.Version = m.GetMembership().GetVersion()
		s.Members, s.Gone = members(m.GetMembership().GetMembers()), members(m.GetMembership().GetGone())
		s.Unshown = m.GetMembership().GetUnshown()
		if len(s.Members) > 0 {
			s.Last = s.Members
		}
	}
	if m.GetFull() || m.GetBrokerConfigsSet() {
		s.BrokerConfigs = maps.Clone(m.GetBrokerConfigs())
	}
	if m.GetFull() || m.GetClientMetricsSet() {
		s.subscribe(m)
	}
	c.publish(&s)
	if m.GetFull() {
		c.arrived()
	}
}

func (c *Catalogue) publish(s *Snapshot) {
	c.now.Store(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}

func (c *Catalogue) arrived() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.arrived {
		c.mu.arrived = true
		close(c.mu.first)
	}
}

// subscribe takes the client metrics subscriptions into a snapshot that is being made. The same ones again, as after
// a reconnect, are no change.
func (s *Snapshot) subscribe(m *api.Catalogue) {
	all := make(map[string]map[string]string, len(m.GetClientMetrics()))
	for _, c := range m.GetClientMetrics() {
		all[c.GetName()] = maps.Clone(c.GetConfigs())
	}
	if !maps.EqualFunc(all, s.ClientMetrics, maps.Equal[map[string]string, map[string]string]) {
		s.ClientMetrics, s.MetricsVersion = all, m.GetIndex()
	}
}

// setInternal adds an internal topic to a snapshot that is being made, or removes it. nil keeps the topic as it is; in a full message, it
// comes from an older owner and shows the topic. A topic of the owner with such a name hides the internal one.
func (s *Snapshot) setInternal(t *internaltopic.Topic, shown *bool, full bool) {
	switch {
	case shown == nil && !full:
	case shown != nil && !*shown:
		s.remove(t.ID[:])
	default:
		topic := &Topic{
			ID: t.ID, Name: t.Name, Partitions: internaltopic.Partitions, ReplicationFactor: internaltopic.ReplicationFactor,
			Configs: t.Configs, Internal: true,
		}
		s.byID.Set(string(t.ID[:]), topic)
		if _, taken := s.byName.Get(t.Name); !taken {
			s.byName.Set(t.Name, topic)
		}
	}
}

// put adds or replaces a topic of a snapshot that is being made.
func (s *Snapshot) put(m *api.Topic) {
	t := &Topic{
		Name: m.GetName(), Partitions: m.GetPartitions(), ReplicationFactor: max(1, int(m.GetReplicationFactor())), Configs: maps.Clone(m.GetConfigs()),
	}
	if copy(t.ID[:], m.GetId()) != len(t.ID) {
		return // not an id; the owner never sends it
	}
	s.remove(t.ID[:])
	s.byID.Set(string(t.ID[:]), t)
	s.byName.Set(t.Name, t)
}

// remove takes a topic out of a snapshot that is being made. Its name may be another topic's by now: a topic deleted
// and created again comes as one message.
func (s *Snapshot) remove(topic []byte) {
	old, ok := s.byID.Delete(string(topic))
	if !ok {
		return
	}
	if named, ok := s.byName.Get(old.Name); ok && named.ID == old.ID {
		s.byName.Delete(old.Name)
		if t := internaltopic.ByName(old.Name); t != nil { // hidden by the other topic
			if internal, ok := s.byID.Get(string(t.ID[:])); ok {
				s.byName.Set(old.Name, internal)
			}
		}
	}
}

// members converts members, in the order of sessions.
func members(all []*api.Member) []*Member {
	out := make([]*Member, 0, len(all))
	for _, a := range all {
		member := &Member{
			Session: id.Session(a.GetSession()),
			Zone:    a.GetZone(),
			NodeIDs: slices.Clone(a.GetNodeIds()),
			Peer:    a.GetPeerAddress(),
		}
		for _, e := range a.GetEndpoints() {
			member.Endpoints = append(member.Endpoints,
				Endpoint{Listener: e.GetListener(), Host: e.GetHost(), Port: e.GetPort()})
		}
		out = append(out, member)
	}
	slices.SortFunc(out, func(a, b *Member) int { return cmp.Compare(a.Session, b.Session) })
	return out
}

package consumer

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata/id"
)

// client is a consumer as the group sees it: it uses what it is told to, gives up with a delay, loses answers, and goes
// away with or without a word.
type client interface {
	// turn does one thing: a heartbeat, a join, or giving up partitions.
	turn(h *history)
	uses() map[id.TopicPartition]bool
	reads() []string // topics it subscribes to
	leave(h *history)
	// settle does all that is to be done at once; false: there is more to do.
	settle(h *history) bool
}

// history is a group and its clients, and what happens to them at random.
type history struct {
	*world
	t       *testing.T
	r       *rand.Rand
	clients []client
	names   int
	quiet   bool // no answer gets lost
}

func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	h := &history{world: newWorld(), t: t, r: rand.New(rand.NewPCG(seed, 848))}
	h.cfg.Migration = MigrationUpgrade // a group that became classic would end the history
	h.cfg.AssignmentInterval = time.Duration(h.r.IntN(2)) * time.Second
	h.group.Configure(h.cfg)
	h.cat.set("t", int32(1+h.r.IntN(8)))
	h.cat.set("u", int32(1+h.r.IntN(4)))
	return h
}

func (h *history) name() string {
	h.names++
	return fmt.Sprintf("m%d", h.names)
}

// lost tells whether an answer gets lost.
func (h *history) lost() bool { return !h.quiet && h.r.IntN(4) == 0 }

func (h *history) do(s step.Step) {
	h.out.Reset()
	h.apply(h.t, s)
	h.requireExclusive()
}

// requireExclusive: no two clients use a partition at once.
func (h *history) requireExclusive() {
	h.t.Helper()
	users := make(map[id.TopicPartition]client)
	for _, c := range h.clients {
		for p := range c.uses() {
			require.Nil(h.t, users[p], "two clients use %s", h.cat.show([]id.TopicPartition{p}))
			users[p] = c
		}
	}
}

func (h *history) happen() {
	switch n := h.r.IntN(40); {
	case n == 0 && len(h.clients) < 8:
		h.clients = append(h.clients, h.newcomer())
	case n == 1 && len(h.clients) > 0:
		h.remove(true)
	case n == 2 && len(h.clients) > 0:
		h.remove(false)
	case n == 3:
		h.cat.set("t", min(h.cat.byName["t"].partitions+1, 12))
	case n == 4 && h.group.Stored():
		h.group = h.restore(h.t)
	case len(h.clients) > 0:
		h.clients[h.r.IntN(len(h.clients))].turn(h)
	}
	h.now = h.now.Add(time.Duration(h.r.IntN(500)) * time.Millisecond)
	if at := h.group.Deadline(); !at.IsZero() && !h.now.Before(at) {
		h.do(h.group.Expire(h.now, h.cat))
	}
}

// remove takes a client away: it uses nothing from then on, and says so or not.
func (h *history) remove(says bool) {
	i := h.r.IntN(len(h.clients))
	c := h.clients[i]
	h.clients = slices.Delete(h.clients, i, i+1)
	if says {
		c.leave(h)
	}
}

func (h *history) newcomer() client {
	if modern := len(h.group.members) - h.classicMembers(); modern > 0 && h.r.IntN(3) == 0 {
		return &old{id: h.name(), has: make(map[id.TopicPartition]bool), eager: h.r.IntN(2) == 0}
	}
	c := &modern{id: h.name(), has: make(map[id.TopicPartition]bool), topics: []string{"t"}}
	if h.r.IntN(3) == 0 {
		c.topics = []string{"t", "u"}
	}
	if h.r.IntN(4) == 0 {
		c.instance = "i-" + c.id
	}
	return c
}

// modern is a client of the consumer protocol.
type modern struct {
	id, instance string
	topics       []string
	epoch        int32
	in           bool
	has          map[id.TopicPartition]bool
	want         map[id.TopicPartition]bool // nil: nothing to do
	news         bool                       // it uses something else than it told last
	lost         bool                       // an answer was lost: the next heartbeat tells everything
}

func (c *modern) uses() map[id.TopicPartition]bool { return c.has }
func (c *modern) reads() []string                  { return c.topics }

func (c *modern) turn(h *history) {
	if c.want != nil && h.r.IntN(2) == 0 {
		c.follow(h)
		return
	}
	c.beat(h)
}

// follow gives up what leaves, then uses what comes.
func (c *modern) follow(h *history) {
	if c.want != nil {
		c.has, c.want, c.news = c.want, nil, true
		h.requireExclusive()
	}
}

func (c *modern) request() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", c.id, c.epoch
	if c.instance != "" {
		req.InstanceID = &c.instance
	}
	return req
}

func (c *modern) beat(h *history) {
	req := c.request()
	all := !c.in || c.lost
	if all {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 30_000, c.topics
	}
	if all || c.news {
		req.Topics = reported{}
		for p := range c.has {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: p.Topic, Partitions: []int32{p.Partition}})
		}
	}
	for c.lost = c.send(h, req); c.lost && all && h.r.IntN(2) == 0; c.lost = c.send(h, req) {
		// Its agent asks the next owner, as it does not with a heartbeat that tells less (asksOnce in agent/kafka).
		h.group = h.restore(h.t)
	}
}

// send sends a heartbeat and tells whether its answer was lost.
func (c *modern) send(h *history, req *kmsg.ConsumerGroupHeartbeatRequest) (lost bool) {
	lost = h.lost()
	h.do(h.group.Heartbeat(h.now, Client{ID: "c"}, req, h.cat, func(resp *kmsg.ConsumerGroupHeartbeatResponse) {
		switch {
		case lost:
		case resp.ErrorCode != 0:
			// Fenced: all is lost, and the next heartbeat joins under a new id.
			c.in, c.epoch, c.want, c.id = false, 0, nil, h.name()
			clear(c.has)
		default:
			c.take(resp)
		}
	}))
	return lost
}

func (c *modern) take(resp *kmsg.ConsumerGroupHeartbeatResponse) {
	c.in, c.news, c.epoch = true, false, resp.MemberEpoch
	if resp.Assignment == nil {
		return
	}
	c.want = make(map[id.TopicPartition]bool)
	for _, topic := range resp.Assignment.Topics {
		for _, p := range topic.Partitions {
			c.want[id.TopicPartition{Topic: topic.TopicID, Partition: p}] = true
		}
	}
}

func (c *modern) leave(h *history) {
	if !c.in {
		return
	}
	req := c.request()
	req.MemberEpoch = epochLeave
	h.do(h.group.Heartbeat(h.now, Client{ID: "c"}, req, h.cat, func(*kmsg.ConsumerGroupHeartbeatResponse) {}))
}

// settled runs the clients without accidents until the group is stable and all use what they are to.
func (h *history) settled() {
	h.quiet = true
	if !slices.ContainsFunc(h.clients, func(c client) bool { _, ok := c.(*modern); return ok }) {
		// Classic members alone make no target in a group that may not become a classic one.
		h.clients = append(h.clients, &modern{id: h.name(), has: make(map[id.TopicPartition]bool), topics: []string{"t"}})
	}
	for round := range 200 {
		done := round > 30 // sessions of those that went without a word have ended
		for _, c := range h.clients {
			done = c.settle(h) && done
		}
		h.now = h.now.Add(2 * time.Second)
		h.do(h.group.Expire(h.now, h.cat))
		if done && (h.group.State() == "Stable" || h.group.Empty()) {
			return
		}
	}
	h.show()
	require.Fail(h.t, "the group does not settle", h.out.String())
}

func (c *modern) settle(h *history) bool {
	c.follow(h)
	c.beat(h)
	return c.in && (c.want == nil || maps.Equal(c.want, c.has))
}

// subscribed gives the partitions of all topics that a client subscribes to.
func (h *history) subscribed() iter.Seq[id.TopicPartition] {
	return func(yield func(id.TopicPartition) bool) {
		for name, info := range h.cat.byName {
			if !slices.ContainsFunc(h.clients, func(c client) bool { return slices.Contains(c.reads(), name) }) {
				continue
			}
			for n := range info.partitions {
				if !yield(id.TopicPartition{Topic: info.id, Partition: n}) {
					return
				}
			}
		}
	}
}

func TestGroup_NoPartitionIsEverUsedByTwoClients(t *testing.T) {
	for seed := range uint64(300) {
		h := newHistory(t, seed)
		for range 80 {
			h.happen()
		}
		h.settled()
		users := make(map[id.TopicPartition]bool)
		for _, c := range h.clients {
			for p := range c.uses() {
				users[p] = true
			}
		}
		for p := range h.subscribed() {
			require.True(t, users[p], "seed %d: nobody uses %v", seed, p)
		}
	}
}

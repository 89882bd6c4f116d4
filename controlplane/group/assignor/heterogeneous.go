package assignor

import (
	"cmp"
	"maps"
	"slices"

	"github.com/freshet-io/freshet/metadata/id"
)

// maxBalanceRounds bounds the passes over all topics that balance them. Where the subscribers of each topic have
// equal subscriptions one pass is enough; each further one about halves the imbalance.
const maxBalanceRounds = 16

// unowned marks a partition that no member has.
const unowned = -1

// heterogeneousBuilder assigns where subscriptions differ: members keep what they have of subscribed topics, what
// nobody has goes to the least loaded subscribers, then partitions move from the most to the least loaded subscribers
// of each topic until that betters nothing. (UniformHeterogeneousAssignmentBuilder)
type heterogeneousBuilder struct {
	group       Group
	subscribers map[id.Topic][]int // indexes of members, ascending
	owners      map[id.Topic][]int // index of the owner by partition, or unowned
	sizes       []int              // partitions by member index
}

func newHeterogeneous(g Group) *heterogeneousBuilder {
	b := &heterogeneousBuilder{
		group: g, subscribers: make(map[id.Topic][]int), owners: make(map[id.Topic][]int), sizes: make([]int, len(g.Members)),
	}
	for i, m := range g.Members {
		for _, t := range m.Topics {
			b.subscribers[t] = append(b.subscribers[t], i)
			if b.owners[t] == nil {
				b.owners[t] = slices.Repeat([]int{unowned}, int(g.Partitions[t]))
			}
		}
	}
	return b
}

func (b *heterogeneousBuilder) assign() Assignment {
	b.keep()
	b.fill()
	b.balance()
	out := make(Assignment, len(b.group.Members))
	for i, m := range b.group.Members {
		mine := make([]id.TopicPartition, 0, b.sizes[i])
		for _, t := range m.Topics {
			for p, owner := range b.owners[t] {
				if owner == i {
					mine = append(mine, id.TopicPartition{Topic: t, Partition: int32(p)})
				}
			}
		}
		out[m.ID] = mine
	}
	return out
}

// keep leaves each member what it has of the topics that it subscribes to.
func (b *heterogeneousBuilder) keep() {
	for i, m := range b.group.Members {
		for _, p := range m.Assigned {
			if _, ok := slices.BinarySearchFunc(m.Topics, p.Topic, compareTopics); !ok {
				continue
			}
			if owners := b.owners[p.Topic]; int(p.Partition) < len(owners) && owners[p.Partition] == unowned {
				b.give(p.Topic, int(p.Partition), i)
			}
		}
	}
}

// fill gives what nobody has to the least loaded subscribers.
func (b *heterogeneousBuilder) fill() {
	for _, t := range b.sortedTopics() {
		l := newLoads(b.subscribers[t], b.sizes)
		for p, owner := range b.owners[t] {
			if owner == unowned {
				b.give(t, p, l.nextLeast())
			}
		}
	}
}

// balance evens the subscribers of each topic out, topic after topic, until a whole pass moved nothing.
func (b *heterogeneousBuilder) balance() {
	topics := slices.DeleteFunc(b.sortedTopics(), func(t id.Topic) bool { return len(b.subscribers[t]) < 2 })
	last := -1 // the topic that was changed last
	for range maxBalanceRounds {
		for i, t := range topics {
			if i == last {
				return
			}
			if b.balanceTopic(t) || last == -1 {
				last = i
			}
		}
	}
}

// balanceTopic moves partitions of one topic from the most to the least loaded of its subscribers.
func (b *heterogeneousBuilder) balanceTopic(t id.Topic) (moved bool) {
	l := newLoads(b.subscribers[t], b.sizes)
	if l.spread() <= 1 {
		return false
	}
	held := make(map[int][]int) // by member, ascending
	for p, owner := range b.owners[t] {
		held[owner] = append(held[owner], p)
	}
	for {
		from, ok := l.nextMost(func(member int) bool { return len(held[member]) > 0 })
		if !ok {
			return moved
		}
		p := held[from][len(held[from])-1]
		held[from] = held[from][:len(held[from])-1]
		to := l.nextLeast()
		if l.balanced() {
			return moved
		}
		b.give(t, p, to)
		moved = true
	}
}

// give makes a member the owner of a partition.
func (b *heterogeneousBuilder) give(t id.Topic, partition, member int) {
	if old := b.owners[t][partition]; old != unowned {
		b.sizes[old]--
	}
	b.owners[t][partition] = member
	b.sizes[member]++
}

// sortedTopics gives the topics by partitions per subscriber, descending, then by subscribers, ascending, then by id.
func (b *heterogeneousBuilder) sortedTopics() []id.Topic {
	topics := slices.Collect(maps.Keys(b.subscribers))
	slices.SortFunc(topics, func(x, y id.Topic) int {
		xs, ys := len(b.subscribers[x]), len(b.subscribers[y])
		return cmp.Or(
			cmp.Compare(len(b.owners[y])*xs, len(b.owners[x])*ys), // partitions / subscribers, multiplied out
			cmp.Compare(xs, ys),
			compareTopics(x, y))
	})
	return topics
}

package assignor

import (
	"slices"

	"github.com/freshet-io/freshet/metadata/id"
)

// homogeneousBuilder assigns where all members subscribe to the same topics: each member keeps what it has up to its
// quota, what is left over fills the members that have room. (UniformHomogeneousAssignmentBuilder)
type homogeneousBuilder struct {
	group      Group
	unassigned []id.TopicPartition
	claimed    map[id.TopicPartition]bool
	quota      int // the least that every member gets
	extras     int // members that may still take one more than quota
	unfilled   []room
	out        Assignment
}

// room is how many more partitions a member takes.
type room struct {
	member string
	left   int
}

func newHomogeneous(g Group) *homogeneousBuilder {
	return &homogeneousBuilder{
		group: g, out: make(Assignment, len(g.Members)), claimed: make(map[id.TopicPartition]bool),
	}
}

func (b *homogeneousBuilder) assign() Assignment {
	total := b.collect()
	b.quota, b.extras = total/len(b.group.Members), total%len(b.group.Members)
	for i := range b.group.Members {
		b.keep(i)
	}
	b.fill()
	return b.out
}

// collect finds the partitions that nobody has and counts all.
func (b *homogeneousBuilder) collect() int {
	topics := b.group.Members[0].Topics
	owned := make(map[id.TopicPartition]bool)
	for _, m := range b.group.Members {
		for _, p := range m.Assigned {
			owned[p] = true
		}
	}
	total := 0
	for _, t := range topics {
		for p := range b.group.Partitions[t] {
			if tp := (id.TopicPartition{Topic: t, Partition: p}); !owned[tp] {
				b.unassigned = append(b.unassigned, tp)
			}
			total++
		}
	}
	return total
}

// keep leaves the i-th member what it has of subscribed topics, up to its quota. While extras are left a member may
// keep one more than the quota; one that does not use it gives it up to others, unless so few members follow that it
// must take it.
func (b *homogeneousBuilder) keep(i int) {
	m := &b.group.Members[i]
	quota, extra := b.quota, false
	if b.extras > 0 {
		quota, extra = quota+1, true
	}
	kept := make([]id.TopicPartition, 0, min(quota, len(m.Assigned)))
	for _, p := range m.Assigned {
		_, subscribed := slices.BinarySearchFunc(m.Topics, p.Topic, compareTopics)
		if !subscribed || b.claimed[p] || p.Partition >= b.group.Partitions[p.Topic] {
			continue
		}
		b.claimed[p] = true
		if len(kept) < quota {
			kept = append(kept, p)
		} else {
			b.unassigned = append(b.unassigned, p)
		}
	}
	left := quota - len(kept)
	if left > 0 && extra && len(b.group.Members)-i > b.extras {
		left, extra = left-1, false
	}
	if extra {
		b.extras--
	}
	if left > 0 {
		b.unfilled = append(b.unfilled, room{m.ID, left})
	}
	b.out[m.ID] = kept
}

// fill gives what nobody has to the members with room, which is exactly as much.
func (b *homogeneousBuilder) fill() {
	for _, r := range b.unfilled {
		n := min(r.left, len(b.unassigned))
		b.out[r.member] = sorted(append(b.out[r.member], b.unassigned[:n]...))
		b.unassigned = b.unassigned[n:]
	}
}

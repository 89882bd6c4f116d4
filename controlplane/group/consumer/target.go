package consumer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/assignor"
	"github.com/freshet-io/freshet/metadata/id"
)

// retarget makes a new target assignment if the group epoch calls for one, the last is old enough, and all expressions are resolved. The
// members get there with their own heartbeats. (GroupMetadataManager.maybeUpdateTargetAssignment, TargetAssignmentBuilder)
func (g *Group) retarget(now time.Time, cat Catalogue) {
	if g.assignmentEpoch >= g.epoch || g.unresolved || !g.mayAssign(now) {
		return
	}
	name := g.preferredAssignor()
	out, err := assignor.Assign(name, g.toAssign(cat))
	if err != nil {
		// Names are checked and topics are looked up before.
		panic(fmt.Sprintf("consumer: group %q: %v", g.id, err))
	}
	for _, m := range g.members {
		if target := out[m.id]; !slices.Equal(target, m.target) {
			m.target = target
			g.mark(m.id)
		}
	}
	g.assignmentEpoch, g.assignedMs, g.dirtyHead = g.epoch, now.UnixMilli(), true
	g.cfg.Log.Info("computed target assignment", zap.String("group", g.id), zap.Int32("epoch", g.epoch),
		zap.String("assignor", name), zap.Int("members", len(g.members)))
}

// mayAssign holds targets apart, so that many joins at once cause few of them (KIP-1263). An owner whose clock is behind
// the last one's does not wait until it has caught up.
func (g *Group) mayAssign(now time.Time) bool {
	since := now.UnixMilli() - g.assignedMs
	return g.assignedMs == 0 || since < 0 || since >= g.cfg.AssignmentInterval.Milliseconds()
}

// preferredAssignor is what most of the members ask for that ask for any; of equals, the first by name. Without wishes,
// it is the first that is configured. (ConsumerGroup.computePreferredServerAssignor)
func (g *Group) preferredAssignor() string {
	votes := make(map[string]int)
	for _, m := range g.members {
		if assignor.Known(m.assignor) {
			votes[m.assignor]++
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(votes)) {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	if best != "" {
		return best
	}
	return g.cfg.Assignors[max(slices.IndexFunc(g.cfg.Assignors, assignor.Known), 0)]
}

// toAssign describes the group to an assignor, members in the order of their ids.
func (g *Group) toAssign(cat Catalogue) assignor.Group {
	out := assignor.Group{Partitions: make(map[id.Topic]int32)}
	var last *member
	var topics []id.Topic // of last; members mostly subscribe to the same
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[name]
		if last == nil || last.regex != m.regex || !slices.Equal(last.topics, m.topics) {
			topics = g.topicIDs(m, cat, out.Partitions)
		}
		last = m
		out.Members = append(out.Members, assignor.Member{ID: name, Instance: m.instance, Topics: topics, Assigned: m.target})
	}
	return out
}

// topicIDs returns the ids of the existing topics that a member subscribes to, in ascending order. It adds their partition
// counts to partitions.
func (g *Group) topicIDs(m *member, cat Catalogue, partitions map[id.Topic]int32) []id.Topic {
	var out []id.Topic
	add := func(names []string) {
		for _, name := range names {
			if t, n, ok := cat.Topic(name); ok {
				out = append(out, t)
				partitions[t] = n
			}
		}
	}
	add(m.topics)
	if x := g.regex[m.regex]; x != nil {
		add(x.topics)
	}
	slices.SortFunc(out, func(a, b id.Topic) int {
		return id.TopicPartition{Topic: a}.Compare(id.TopicPartition{Topic: b})
	})
	return slices.Compact(out)
}

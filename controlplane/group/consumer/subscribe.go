package consumer

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata/id"
)

// digest stands for all that a target assignment depends on besides the members: the topics that the group subscribes
// to and that exist, with ids and partition counts, and what each regular expression stands for. Kafka calls it the
// metadata hash and makes it of topics alone.
type digest uint64

// unknown is the digest while the members that it is of are not settled: the epoch was bumped for their change, so
// whatever it turns out to be calls for no other bump.
const unknown digest = 0

var digestOfNothing = digestOf(nil)

func digestOf(b []byte) digest {
	sum := sha256.Sum256(b)
	return max(digest(binary.BigEndian.Uint64(sum[:])), 1)
}

// resubscribed reports whether the member's subscription has changed.
func (e *entry) resubscribed() bool { return e.renamed() || e.next.regex != e.before.regex }

func (e *entry) renamed() bool { return !slices.Equal(e.next.topics, e.before.topics) }

// settle puts the entry's member into the group. It bumps the group epoch if the target depends on the change, or if the
// catalogue has changed. The target also depends on the assignor that most members ask for. A member with an unresolved new regular
// expression bumps the epoch only once the expression is resolved, unless eager. While any expression is unresolved, as after a change of the
// owner, the catalogue is not compared. (GroupMetadataManager.maybeUpdateRegularExpressions, hasPreferredServerAssignorChanged, updateSubscriptionMetadata)
func (g *Group) settle(now time.Time, cat Catalogue, e entry, eager bool) {
	bump := e.renamed()
	wished := !eager && e.next.assignor != e.before.assignor
	var preferred string
	if wished {
		preferred = g.preferredAssignor()
	}
	if e.next.regex != e.before.regex {
		x := g.regex[e.next.regex]
		bump = bump || eager || e.next.regex == "" || x != nil && x.resolved
	}
	g.put(e.found, e.next)
	bump = bump || wished && g.preferredAssignor() != preferred
	switch {
	case e.found == nil:
		g.mark(e.next.id)
	case e.found.id != e.next.id:
		g.mark(e.found.id)
		g.mark(e.next.id)
	case !sameSubscription(e.found, e.next) || !sameAssignment(e.found, e.next):
		g.mark(e.next.id)
	}
	resolved := g.resolve(now, cat)
	if !g.unresolved && (bump || resolved || e.resubscribed() || !g.checked || g.version != cat.Version() || g.digest == unknown) {
		bump = g.review(cat) || bump
	}
	if bump {
		g.bump()
	}
}

// review compares the digest with the catalogue, and reports whether it changed.
func (g *Group) review(cat Catalogue) bool {
	g.checked, g.version = true, cat.Version()
	d := g.computeDigest(cat)
	if d == g.digest {
		return false
	}
	changed := g.digest != unknown
	g.digest, g.dirtyHead = d, true
	return changed
}

func (g *Group) computeDigest(cat Catalogue) digest {
	names := make(map[string]struct{})
	for _, m := range g.members {
		for _, name := range m.topics {
			names[name] = struct{}{}
		}
	}
	for _, x := range g.regex {
		for _, name := range x.topics {
			names[name] = struct{}{}
		}
	}
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if t, partitions, ok := cat.Topic(name); ok {
			b = appendString(b, name)
			b = append(b, t[:]...)
			b = binary.AppendUvarint(b, uint64(partitions))
		}
	}
	for _, source := range slices.Sorted(maps.Keys(g.regex)) {
		if x := g.regex[source]; len(x.topics) > 0 {
			b = appendString(b, source)
			for _, name := range x.topics {
				b = appendString(b, name)
			}
		}
	}
	return digestOf(b)
}

// subscribes reports whether a topic exists and a member subscribes to it.
func (g *Group) subscribes(m *member, t id.Topic, cat Catalogue) bool {
	name, ok := cat.TopicName(t)
	if !ok {
		return false
	}
	if _, ok := slices.BinarySearch(m.topics, name); ok {
		return true
	}
	if x := g.regex[m.regex]; x != nil {
		_, ok := slices.BinarySearch(x.topics, name)
		return ok
	}
	return false
}

// reported has the partitions that a member reports as its own, nil if the request has none.
type reported []kmsg.ConsumerGroupHeartbeatRequestTopic

// within reports whether the member reports its partitions, and all of them are in set.
func (r reported) within(set epochs) bool {
	if r == nil {
		return false
	}
	for _, t := range r {
		for _, p := range t.Partitions {
			if _, ok := set[id.TopicPartition{Topic: t.TopicID, Partition: p}]; !ok {
				return false
			}
		}
	}
	return true
}

// touches reports whether the member may own a partition of set: it reports one, or reports nothing.
func (r reported) touches(set epochs) bool {
	if r == nil {
		return true
	}
	for _, t := range r {
		for _, p := range t.Partitions {
			if _, ok := set[id.TopicPartition{Topic: t.TopicID, Partition: p}]; ok {
				return true
			}
		}
	}
	return false
}

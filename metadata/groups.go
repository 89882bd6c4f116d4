package metadata

import (
	"iter"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/id"
)

// groupEntry is a group: what its coordinator made durable, and the offsets it committed. An entry has a kind or
// offsets, pending ones counted; one that has neither is no entry.
type groupEntry struct {
	gen     uint64
	kind    GroupKind
	head    []byte                    // never changed in place; nil if empty
	members btree.Map[string, []byte] // values are never changed in place

	topics btree.Map[string, *topicOffsets] // by topicKey; those of deleted topics stay until a Tick finds them
}

// GroupInfo describes a group. It is valid as long as the state it was read from is not applied to.
type GroupInfo struct {
	Name    string
	Kind    GroupKind
	Head    []byte // not to be changed
	Members iter.Seq2[string, []byte]
}

func (g *groupEntry) info(name string) GroupInfo {
	return GroupInfo{Name: name, Kind: g.kind, Head: g.head, Members: g.members.Scan}
}

// empty tells whether there is no reason for the entry.
func (g *groupEntry) empty() bool { return g.kind == GroupNone && g.topics.Len() == 0 }

// mutableGroup gives a group's entry to be changed, a new one if there is none.
func (s *machine) mutableGroup(name string) *groupEntry {
	g, ok := s.groups.Get(name)
	switch {
	case !ok:
		g = &groupEntry{gen: s.gen}
	case g.gen == s.gen:
		return g
	default:
		g = &groupEntry{gen: s.gen, kind: g.kind, head: g.head, members: *g.members.Copy(), topics: *g.topics.Copy()}
	}
	s.groups.Set(name, g)
	return g
}

// dropIfEmpty removes a group's entry if it has no reason to be there.
func (s *machine) dropIfEmpty(name string, g *groupEntry) {
	if g.empty() {
		s.groups.Delete(name)
	}
}

func (s *machine) updateGroup(c *UpdateGroup, _ *Effects) Result {
	g := s.mutableGroup(c.Group)
	g.kind = c.Kind
	if c.Head != nil {
		g.head = c.Head
		if len(c.Head) == 0 {
			g.head = nil
		}
	}
	if c.Reset {
		g.members = btree.Map[string, []byte]{}
	}
	for _, m := range c.Members {
		if m.Value == nil {
			g.members.Delete(m.ID)
		} else {
			g.members.Set(m.ID, m.Value)
		}
	}
	if c.Kind == GroupNone {
		g.head, g.members = nil, btree.Map[string, []byte]{}
		s.dropIfEmpty(c.Group, g)
	}
	return Result{}
}

func (s *machine) deleteGroup(c *DeleteGroup, _ *Effects) error {
	if _, ok := s.groups.Delete(c.Group); !ok {
		return ErrUnknownGroup
	}
	return nil
}

// Group gives a group by name; false if there is none. A group of kind GroupNone has committed offsets without having
// had members.
func (s *machine) Group(name string) (GroupInfo, bool) {
	g, ok := s.groups.Get(name)
	if !ok {
		return GroupInfo{}, false
	}
	return g.info(name), true
}

// Groups gives all groups in name order.
func (s *machine) Groups() iter.Seq[GroupInfo] { return s.GroupsFrom("") }

// GroupsFrom gives the groups whose name is at least from, in name order.
func (s *machine) GroupsFrom(from string) iter.Seq[GroupInfo] {
	return func(yield func(GroupInfo) bool) {
		s.groups.Ascend(from, func(name string, g *groupEntry) bool { return yield(g.info(name)) })
	}
}

// GroupCount is the number of groups.
func (s *machine) GroupCount() int { return s.groups.Len() }

// offsetSweepSteps bounds the groups and topics that one Tick looks at for offsets of deleted topics.
const offsetSweepSteps = 4096

// offsetCursor is where the search for offsets of deleted topics goes on.
type offsetCursor struct {
	group string // "" at the beginning
	topic string // topicKey of the first one not looked at yet
}

// sweepOffsets drops offsets of deleted topics, from where the last Tick stopped. Until then reads pass over them.
func (s *machine) sweepOffsets() {
	steps := offsetSweepSteps
	s.groups.Copy().Ascend(s.offsetSweep.group, func(name string, g *groupEntry) bool {
		if name != s.offsetSweep.group {
			s.offsetSweep = offsetCursor{group: name}
		}
		steps--
		s.sweepGroup(name, g, &steps)
		return steps > 0
	})
	if steps > 0 {
		s.offsetSweep = offsetCursor{}
	}
}

// sweepGroup sweeps a group's topics from the cursor on.
func (s *machine) sweepGroup(name string, g *groupEntry, steps *int) {
	var deleted []string
	g.topics.Ascend(s.offsetSweep.topic, func(key string, _ *topicOffsets) bool {
		if *steps <= 0 {
			return false
		}
		*steps--
		if _, ok := s.topics.Get(key); !ok {
			deleted = append(deleted, key)
		}
		s.offsetSweep.topic = key + "\x00" // the next key that can be
		return true
	})
	if len(deleted) == 0 {
		return
	}
	g = s.mutableGroup(name)
	for _, key := range deleted {
		g.topics.Delete(key)
	}
	s.dropIfEmpty(name, g)
}

// topicOfKey is the inverse of topicKey.
func topicOfKey(key string) (t id.Topic) {
	copy(t[:], key)
	return t
}

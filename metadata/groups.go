package metadata

import (
	"iter"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata/id"
)

// groupEntry is a group: its coordinator's durable state, and its committed offsets. An entry has a kind or offsets, pending ones
// included.
type groupEntry struct {
	gen     uint64
	kind    GroupKind
	head    []byte                    // never changed in place; nil if empty
	members btree.Map[string, []byte] // values are never changed in place

	topics btree.Map[string, *topicOffsets] // by topicKey; those of deleted topics stay until a Tick finds them
}

// GroupInfo describes a group. It is valid until Apply is called on its state.
type GroupInfo struct {
	Name    string
	Kind    GroupKind
	Head    []byte // not to be changed
	Members iter.Seq2[string, []byte]
}

func (g *groupEntry) info(name string) GroupInfo {
	return GroupInfo{Name: name, Kind: g.kind, Head: g.head, Members: g.members.Scan}
}

// empty reports whether the entry has neither a kind nor offsets.
func (g *groupEntry) empty() bool { return g.kind == GroupNone && g.topics.Len() == 0 }

// mutableGroup returns a group's entry that may be changed in this generation. It adds the entry if there is none.
func (s *machine) mutableGroup(name string) *groupEntry {
	g, ok := s.groups.Get(name)
	switch {
	case !ok:
		g = &groupEntry{gen: s.gen}
		s.weighGroup(name, g, 1)
	case g.gen == s.gen:
		return g
	default:
		g = &groupEntry{gen: s.gen, kind: g.kind, head: g.head, members: *g.members.Copy(), topics: *g.topics.Copy()}
	}
	s.groups.Set(name, g)
	return g
}

// dropIfEmpty removes a group's entry if it is empty.
func (s *machine) dropIfEmpty(name string, g *groupEntry) {
	if g.empty() {
		s.weighGroup(name, g, -1)
		s.groups.Delete(name)
	}
}

func (s *machine) updateGroup(c *UpdateGroup, _ *Effects) Result {
	if err := s.allowsUpdate(c); err != nil {
		return Result{Err: err}
	}
	g := s.mutableGroup(c.Group)
	g.kind = c.Kind
	if c.Head != nil {
		s.load.Other += allocated(int64(len(c.Head))) - allocated(int64(len(g.head)))
		g.head = c.Head
		if len(c.Head) == 0 {
			g.head = nil
		}
	}
	if c.Reset {
		s.clearMembers(g)
	}
	for _, m := range c.Members {
		s.setMember(g, m.ID, m.Value)
	}
	if c.Kind == GroupNone {
		s.clearMembers(g)
		s.load.Other -= allocated(int64(len(g.head)))
		g.head = nil
		s.dropIfEmpty(c.Group, g)
	}
	return Result{}
}

func (s *machine) allowsUpdate(c *UpdateGroup) error {
	if c.Kind == GroupNone {
		return nil
	}
	return s.allowsGroup(c.Group)
}

// setMember stores the value of a member of a group that may be changed, or removes the member if value is nil.
func (s *machine) setMember(g *groupEntry, member string, value []byte) {
	var old []byte
	var known bool
	if value == nil {
		old, known = g.members.Delete(member)
	} else {
		old, known = g.members.Set(member, value)
		s.load.Other += memberWeight(member, value)
	}
	if known {
		s.load.Other -= memberWeight(member, old)
	}
}

// clearMembers removes all members of a group that may be changed.
func (s *machine) clearMembers(g *groupEntry) {
	g.members.Scan(func(member string, value []byte) bool {
		s.load.Other -= memberWeight(member, value)
		return true
	})
	g.members = btree.Map[string, []byte]{}
}

func (s *machine) deleteGroup(c *DeleteGroup, _ *Effects) error {
	g, ok := s.groups.Delete(c.Group)
	if !ok {
		return ErrUnknownGroup
	}
	s.weighGroup(c.Group, g, -1)
	s.addOffsetBytes(-g.offsetsWeight())
	return nil
}

// Group returns a group by name, or false if there is none. A group of kind GroupNone has committed offsets and never had
// members.
func (s *machine) Group(name string) (GroupInfo, bool) {
	g, ok := s.groups.Get(name)
	if !ok {
		return GroupInfo{}, false
	}
	return g.info(name), true
}

// Groups returns all groups in name order.
func (s *machine) Groups() iter.Seq[GroupInfo] { return s.GroupsFrom("") }

// GroupsFrom returns the groups with a name of at least from, in name order.
func (s *machine) GroupsFrom(from string) iter.Seq[GroupInfo] {
	return func(yield func(GroupInfo) bool) {
		s.groups.Ascend(from, func(name string, g *groupEntry) bool { return yield(g.info(name)) })
	}
}

// GroupCount returns the number of groups.
func (s *machine) GroupCount() int { return s.groups.Len() }

// offsetSweepSteps bounds the groups and topics that one Tick looks at for offsets of deleted topics.
const offsetSweepSteps = 4096

// offsetCursor is the place from which the next Tick searches for offsets of deleted topics.
type offsetCursor struct {
	group string // "" at the beginning
	topic string // topicKey of the first one not looked at yet
}

// sweepOffsets drops offsets of deleted topics, from the cursor of the last Tick on. Reads skip them before that.
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
		if _, ok := s.topics.Get(key); !ok && !internaltopic.Has(topicOfKey(key)) {
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
		t, _ := g.topics.Delete(key)
		s.weighTopicOffsets(t, -1)
	}
	s.dropIfEmpty(name, g)
}

// topicOfKey is the inverse of topicKey.
func topicOfKey(key string) (t id.Topic) {
	copy(t[:], key)
	return t
}

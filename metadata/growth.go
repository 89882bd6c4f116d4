package metadata

import (
	"slices"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// Growth is an upper bound of the memory that a command adds to the state. It is computed from the command alone, and from a commit's
// header counts, without decoding the commit.
type Growth struct {
	// Bytes is the bound without Partitions.
	Bytes int64
	// TopicsAndGroups is the part of Bytes that counts for Load.TopicsAndGroups. It is zero for commits.
	TopicsAndGroups int64
	// Added counts partitions of open transactions, as Load.Added: the end of a transaction writes a marker to each.
	Added int64
	// Partitions counts the partitions that may get their first record, at PartitionBytes each. Only empty partitions can, so Memory caps
	// the count at Load.Empty.
	Partitions int64
}

// Add returns the sum of g and times the growth o.
func (g Growth) Add(o Growth, times int64) Growth {
	return Growth{
		Bytes: g.Bytes + times*o.Bytes, TopicsAndGroups: g.TopicsAndGroups + times*o.TopicsAndGroups, Added: g.Added + times*o.Added,
		Partitions: g.Partitions + times*o.Partitions,
	}
}

// Memory returns the bytes of the growth in a state in which empty partitions (Load.Empty) never had a record.
func (g Growth) Memory(empty int64) int64 { return g.Bytes + min(g.Partitions, empty)*PartitionBytes }

// GrowthOf returns the growth of a command. It is zero for commands that shrink the state, and for commands whose growth another command
// has reserved, such as EndTransaction.
func GrowthOf(c Command) Growth {
	switch c := c.(type) {
	case *CommitBundle:
		return commitGrowth(c)
	case *WriteMarkers:
		n := int64(len(c.Partitions))
		return Growth{Bytes: n * ExtentBytes, Partitions: n}
	case *CreateTopic:
		return topicsAndGroupsGrowth(topicBytes + stringBytes(c.Name) + configWeight(c.Configs))
	case *CreatePartitions:
		return topicsAndGroupsGrowth(topicBytes) // its partitions count once they have records
	case *SetConfigs:
		if c.Resource == ConfigTopic {
			return topicsAndGroupsGrowth(configWeight(c.Set))
		}
		return topicsAndGroupsGrowth(resourceWeight(c.Name, c.Set))
	case *UpdateGroup:
		return topicsAndGroupsGrowth(c.growth())
	case *CommitOffsets:
		return topicsAndGroupsGrowth(c.growth())
	case *InitTransaction:
		return topicsAndGroupsGrowth(transactionBytes + stringBytes(c.TransactionalID))
	case *AddPartitions:
		g := topicsAndGroupsGrowth(int64(len(c.Partitions)) * addedBytes)
		g.Added, g.Partitions = int64(len(c.Partitions)), int64(len(c.Partitions))
		return g
	case *AddOffsets:
		return topicsAndGroupsGrowth(addedBytes + stringBytes(c.Group))
	}
	return Growth{}
}

// PartitionsOf returns the number of partitions of an open transaction.
func (s *machine) PartitionsOf(transactionalID string) int64 {
	if t := s.transaction(transactionalID); t != nil && t.partitions != nil {
		return int64(t.partitions.Len())
	}
	return 0
}

func topicsAndGroupsGrowth(bytes int64) Growth { return Growth{Bytes: bytes, TopicsAndGroups: bytes} }

// GrowthHere returns the growth of a command in this state, which is at most GrowthOf. It is negative for groups and configs that shrink. exists reports
// whether the group or the transactional ID of the command exists. GrowthHere costs as much as the command. Commands that are applied
// before this one may change its growth. For offsets of a transaction, GrowthHere returns GrowthOf.
func (s *machine) GrowthHere(c Command) (g Growth, exists bool) {
	switch c := c.(type) {
	case *UpdateGroup:
		if g, ok := s.groups.Get(c.Group); ok {
			return topicsAndGroupsGrowth(g.growth(c)), true
		}
	case *CommitOffsets:
		var g *groupEntry
		if g, exists = s.groups.Get(c.Group); exists && c.Transaction == nil {
			return topicsAndGroupsGrowth(g.offsetsGrowth(c)), true
		}
	case *SetConfigs:
		if old, changed, err := s.newConfigs(c); err == nil && len(old) > 0 {
			return topicsAndGroupsGrowth(configWeight(changed) - configWeight(old)), false
		}
	case *AddPartitions:
		if t := s.transaction(c.TransactionalID); t != nil {
			added := *c
			added.Partitions = slices.DeleteFunc(slices.Clone(c.Partitions), func(tp id.TopicPartition) bool { _, in := t.partition(tp); return in })
			return GrowthOf(&added), true
		}
	case *AddOffsets:
		if t := s.transaction(c.TransactionalID); t != nil {
			if _, in := t.group(c.Group); in {
				return Growth{}, true
			}
		}
	case *InitTransaction:
		if s.transaction(c.TransactionalID) != nil {
			return Growth{}, true
		}
	}
	return GrowthOf(c), exists
}

// offsetsGrowth returns the growth of a group by a commit. An offset whose metadata shrinks counts as 0: a commit may have a partition twice, and
// its bytes would be subtracted twice.
func (g *groupEntry) offsetsGrowth(c *CommitOffsets) (n int64) {
	for i := range c.Offsets {
		n += max(0, g.offsetGrowth(&c.Offsets[i]))
	}
	return min(n, c.growth())
}

// growth returns the growth of a group by an update.
func (g *groupEntry) growth(c *UpdateGroup) (n int64) {
	if c.Head != nil {
		n += allocated(int64(len(c.Head))) - allocated(int64(len(g.head)))
	}
	if c.Reset {
		g.members.Scan(func(member string, value []byte) bool {
			n -= memberWeight(member, value)
			return true
		})
	}
	for _, m := range c.Members {
		if m.Value != nil {
			n += memberWeight(m.ID, m.Value)
		}
		if old, ok := g.members.Get(m.ID); ok && !c.Reset {
			n -= memberWeight(m.ID, old)
		}
	}
	return n
}

// commitGrowth counts every run with a producer ID as a new producer with a new transaction. A refused run splits an extent, so a
// section of r runs becomes at most (r+1)/2 extents. Apply refuses a malformed commit, which therefore adds nothing.
func commitGrowth(c *CommitBundle) Growth {
	n, err := commit.ParseCounts(c.Encoded)
	if err != nil {
		return Growth{}
	}
	sections, runs, idempotent := int64(n.Sections), int64(n.Runs), int64(n.Runs-n.Plain)
	return Growth{Bytes: bundleBytes + (sections+runs)/2*ExtentBytes + idempotent*(ProducerBytes+addedBytes+transactionalBytes), Partitions: sections}
}

func (c *UpdateGroup) growth() int64 {
	n := groupBytes + stringBytes(c.Group) + allocated(int64(len(c.Head)))
	for _, m := range c.Members {
		n += memberWeight(m.ID, m.Value)
	}
	return n
}

func (c *CommitOffsets) growth() int64 {
	n := groupBytes + stringBytes(c.Group)
	if c.Transaction != nil {
		n += addedBytes + stringBytes(c.Group)
	}
	var last id.Topic
	for i := range c.Offsets {
		o := &c.Offsets[i]
		if i == 0 || o.Partition.Topic != last {
			n, last = n+topicOffsetsBytes, o.Partition.Topic
		}
		if c.Transaction != nil {
			n += pendingExtra + pendingWeight(o.Metadata)*5/4
			continue
		}
		n += offsetBytes
		if note := (offsetNote{metadata: o.Metadata, expires: o.ExpiresMs}); !note.empty() {
			n += note.weight()
		}
	}
	return n
}

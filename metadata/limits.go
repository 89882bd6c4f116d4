package metadata

import (
	"fmt"

	"github.com/freshet-io/freshet/metadata/commit"
)

// Bounds of what clients make the state keep. Kafka has none of the first three: a broker keeps pending offsets in memory
// (OffsetMetadataManager.pendingTransactionalOffsets), and of a transaction's groups their partitions of __consumer_offsets.
// Names and offset metadata are Kafka's STRING, up to 32767 bytes, and every command is bounded by the owner
// (owner.Config.CommandBytes, at most 32 MiB), so each record of a snapshot fits SectionBytes.
const (
	// MaxTransactionGroups is the most groups of one transaction. Kafka Streams and Connect have one.
	MaxTransactionGroups = 1000
	// MaxTransactionGroupBytes is the most bytes of the names of one transaction's groups.
	MaxTransactionGroupBytes = 1 << 20
	// MaxPendingBytes is the most that the pending offsets of one group weigh: pendingOverhead and their metadata.
	MaxPendingBytes = 32 << 20
	// MaxConfigBytes is the most bytes of keys and values that one resource has in its configs.
	MaxConfigBytes = 4 << 20
	// MaxCommitRuns is the most runs of one submission, whose result takes up to 26 bytes for each.
	MaxCommitRuns = 2 << 20

	// pendingOverhead is about what a pending offset takes beside its metadata.
	pendingOverhead = 64
)

// admitsGroup returns ErrTransactionTooLarge if the transaction has no room for another group.
func (s *machine) admitsGroup(t *transaction, group string) error {
	if t.groups == nil {
		return nil
	}
	if t.groups.Len() >= MaxTransactionGroups || t.groupBytes+int64(len(group)) > MaxTransactionGroupBytes {
		return fmt.Errorf("%w: more than %d groups, or %d bytes of their names",
			ErrTransactionTooLarge, MaxTransactionGroups, MaxTransactionGroupBytes)
	}
	return nil
}

// pendingWeight is what a pending offset counts for in MaxPendingBytes.
func pendingWeight(metadata string) int64 { return pendingOverhead + int64(len(metadata)) }

// admitsPending returns ErrTransactionTooLarge if a group has no room for these pending offsets. It does not look which of
// them replace earlier ones. It costs the group's topics.
func (s *machine) admitsPending(c *CommitOffsets) error {
	g, ok := s.groups.Get(c.Group)
	var bytes int64
	for i := range c.Offsets {
		bytes += pendingWeight(c.Offsets[i].Metadata)
	}
	if ok {
		g.topics.Scan(func(_ string, t *topicOffsets) bool {
			bytes += t.pendingBytes
			return true
		})
	}
	if bytes > MaxPendingBytes {
		return fmt.Errorf("%w: pending offsets of the group above %d bytes", ErrTransactionTooLarge, MaxPendingBytes)
	}
	return nil
}

// admitsConfigs returns ErrConfigsTooLarge for configs above the bound, unless they are smaller than those before.
func admitsConfigs(before, after map[string]string) error {
	if size := configBytes(after); size > MaxConfigBytes && size > configBytes(before) {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrConfigsTooLarge, size, MaxConfigBytes)
	}
	return nil
}

func configBytes(m map[string]string) (bytes int) {
	for k, v := range m {
		bytes += len(k) + len(v)
	}
	return bytes
}

// admitsCommit returns commit.ErrMalformed for a commit of more runs than an agent makes.
func admitsCommit(r *commit.Reader) error {
	if r.Runs() > MaxCommitRuns {
		return fmt.Errorf("%w: %d runs, limit %d", commit.ErrMalformed, r.Runs(), MaxCommitRuns)
	}
	return nil
}

package consumer

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/metadata/id"
)

// commitsAsMemberSince is the version of OffsetCommit whose epochs are those of the consumer protocol (KIP-848).
const commitsAsMemberSince = 9

// TxnErrorsSince is the version of TxnOffsetCommit that has errors of its own for an unknown group and a stale member epoch
// (KIP-1319). Earlier ones have ILLEGAL_GENERATION for both.
const TxnErrorsSince = 6

// Commit is an offset commit to be checked.
type Commit struct {
	Member        string
	Instance      *string
	Epoch         int32 // member epoch or generation; -1 for none
	Version       int16 // of OffsetCommit or TxnOffsetCommit
	Transactional bool  // by TxnOffsetCommit
}

// CheckCommit reports whether a member may commit offsets. With code 0 and a nil check, it may. With a check, each
// partition is checked: a member whose epoch is behind may still commit for partitions that it has had since
// (KIP-1251). Codes are UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION and STALE_MEMBER_EPOCH. Classic members, and transactions
// before TxnErrorsSince, get ILLEGAL_GENERATION for the last. (ConsumerGroup.validateOffsetCommit,
// OffsetMetadataManager.validateTransactionalOffsetCommit)
func (g *Group) CheckCommit(c Commit) (check func(id.TopicPartition) int16, code int16) {
	if c.Epoch < 0 && len(g.members) == 0 {
		return nil, 0
	}
	if c.Transactional && c.Epoch == -1 && c.Member == "" && c.Instance == nil {
		return nil, 0
	}
	m, ok := g.members[c.Member]
	if !ok {
		return nil, kerr.UnknownMemberID.Code
	}
	stale := staleCode(m, c.Transactional && c.Version < TxnErrorsSince)
	switch {
	case !c.Transactional && m.classic == nil && c.Version < commitsAsMemberSince:
		return nil, kerr.UnsupportedVersion.Code
	case c.Epoch == m.epoch:
		return nil, 0
	case c.Epoch > m.epoch:
		return nil, stale
	}
	return func(p id.TopicPartition) int16 {
		since, ok := m.assigned[p]
		if !ok {
			since, ok = m.revoking[p]
		}
		if !ok || c.Epoch < since {
			return stale
		}
		return 0
	}, 0
}

func staleCode(m *member, oldTransaction bool) int16 {
	if m.classic != nil || oldTransaction {
		return kerr.IllegalGeneration.Code
	}
	return kerr.StaleMemberEpoch.Code
}

// CheckFetch returns 0 if a request may fetch offsets: a request without a member, or of a member at its epoch.
// (ConsumerGroup.validateOffsetFetch)
func (g *Group) CheckFetch(name *string, epoch int32) int16 {
	if name == nil && epoch < 0 {
		return 0
	}
	if name == nil {
		return kerr.UnknownMemberID.Code
	}
	m, ok := g.members[*name]
	switch {
	case !ok:
		return kerr.UnknownMemberID.Code
	case m.epoch != epoch:
		return staleCode(m, false)
	default:
		return 0
	}
}

package metadata

import (
	"math"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata/id"
)

// never is the NextDue of a state that no Tick changes.
const never int64 = math.MaxInt64

// NextDue returns the earliest command time at which a Tick changes the state, apart from its time and the cursors of its sweeps. It
// returns math.MaxInt64 if no Tick does. Commands may move it in both directions.
//
// Like a Tick, it looks at no more than 4,096 topics and partitions with active producers, and at 4,096 groups and topics with offsets. A
// larger state is always due, because only Ticks sweep it step by step.
func (s *machine) NextDue() int64 {
	if s.CleaningUp() || s.offsetsDue() {
		return s.now
	}
	due := min(s.producersDue(), s.sessionsDue(), s.namesDue())
	if t, ok := s.transactions.due.Min(); ok {
		due = min(due, t.at)
	}
	return max(due, s.now)
}

// PassTime lets Now return a later time than that of the last entry, for readers that compare ages with it. It stands for a Tick at that
// time which would change nothing else. It is no part of the state: hashes and Encode do not have it, and no command depends on it.
func (s *machine) PassTime(now int64) { s.passed = max(s.passed, now) }

// after returns the time ms after at, or never.
func after(at, ms int64) int64 {
	if at > never-ms {
		return never
	}
	return at + ms
}

// producersDue returns when the first active producer goes to rest.
func (s *machine) producersDue() int64 {
	if s.counts.active == 0 {
		return never
	}
	steps, span := sweepSteps, int64(math.MaxUint32)
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		if steps--; e.counts.active > 0 {
			e.partitions.Scan(func(_ int32, p *partition) bool {
				span = min(span, int64(p.firstUse()))
				steps--
				return steps > 0
			})
		}
		return steps > 0
	})
	if steps <= 0 {
		return s.now
	}
	return (span+1)*useSpan*1000 + ProducerIDExpirationMs
}

// firstUse returns the earliest span in which an active producer was used last.
func (p *partition) firstUse() uint32 {
	first := uint32(math.MaxUint32)
	if p.active.tree != nil {
		u, _ := p.active.tree.Min()
		return u.span
	}
	p.producers.Scan(func(_ int64, q producer) bool {
		first = min(first, q.seen/useSpan)
		return true
	})
	return first
}

// offsetsDue reports whether a group may have offsets of a topic that does not exist.
func (s *machine) offsetsDue() (due bool) {
	steps := offsetSweepSteps
	s.groups.Scan(func(_ string, g *groupEntry) bool {
		steps--
		g.topics.Scan(func(key string, _ *topicOffsets) bool {
			steps--
			_, ok := s.topics.Get(key)
			due = steps <= 0 || !ok && !internaltopic.Has(topicOfKey(key))
			return !due
		})
		due = due || steps <= 0
		return !due
	})
	return due
}

// sessionsDue returns when the first closed session is forgotten, or its results are.
func (s *machine) sessionsDue() int64 {
	due, newest := never, s.newestByZone()
	s.sessions.Scan(func(n id.Session, e *session) bool {
		switch {
		case !e.closed:
		case newest[e.zone] == n && e.results.Len() == 0:
			due = min(due, after(e.closedAt, zoneRetentionMs))
		default:
			due = min(due, after(e.closedAt, resultRetentionMs))
		}
		return true
	})
	return due
}

// namesDue returns when the first name of a deleted topic is forgotten.
func (s *machine) namesDue() int64 {
	due := never
	s.gone.Scan(func(_ string, at int64) bool {
		due = min(due, after(at, ProducerIDExpirationMs))
		return true
	})
	return due
}

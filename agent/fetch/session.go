package fetch

import (
	"container/list"
	"time"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/id"
)

// Session is one fetch session. Its requests come by one connection, one after the other, so that no lock guards its
// partitions and epoch.
type Session struct {
	ID       int32
	holder   Holder
	topicIDs bool // requests are of version 13 or later

	epoch   int32
	order   []*Tracked
	tracked map[TopicKey]*Tracked
	peak    int   // partitions that order and tracked had room for since they were made
	names   int64 // bytes of the topic names in tracked

	// Guarded by the lock of Sessions.
	opened, used time.Time
	place        *list.Element // in the order of use
	rank         int           // index in the order by size; -1 if the session is too young
	size         int           // partitions
	bytes        int64
}

// TopicKey names a partition as requests do: by topic ID since version 13, by name before.
type TopicKey struct {
	ID        id.Topic
	Name      string
	Partition int32
}

// Tracked is one partition of a session: its place to fetch from, and the marks in the client's last answer.
type Tracked struct {
	Key      TopicKey
	Offset   int64
	MaxBytes int32
	Epoch    int32 // of the leader that the client knows, -1 if unknown

	marks view.Watermarks
}

// Estimated memory of sessions.
const (
	sessionBytes = 512 // of a session without partitions
	trackedBytes = 256 // of a partition: Tracked, its key in the map, its place in the order
)

// newSession returns a session of the partitions without repetitions.
func newSession(holder Holder, topicIDs bool, partitions []*Tracked) *Session {
	s := &Session{holder: holder, topicIDs: topicIDs, epoch: 1, rank: -1, tracked: make(map[TopicKey]*Tracked, len(partitions))}
	for _, t := range partitions {
		if s.tracked[t.Key] == nil {
			s.add(t)
		}
	}
	s.size, s.bytes = len(s.order), s.memory()
	return s
}

func (s *Session) add(t *Tracked) {
	s.tracked[t.Key] = t
	s.order = append(s.order, t)
	s.names += int64(len(t.Key.Name))
	s.peak = max(s.peak, len(s.order))
}

// memory returns the estimated memory of the session.
func (s *Session) memory() int64 { return sessionBytes + int64(s.peak)*trackedBytes + s.names }

// change adds, changes and forgets partitions, and returns the memory of the session after that.
func (s *Session) change(changed []*Tracked, forgotten []TopicKey) (bytes int64) {
	for _, t := range changed {
		if old := s.tracked[t.Key]; old != nil {
			old.Offset, old.MaxBytes, old.Epoch = t.Offset, t.MaxBytes, t.Epoch
			continue
		}
		t.marks = noMarks // the next answer has the partition
		s.add(t)
	}
	for _, key := range forgotten {
		if s.tracked[key] != nil {
			s.names -= int64(len(key.Name))
			delete(s.tracked, key)
		}
	}
	if len(s.order) != len(s.tracked) {
		s.compact()
	}
	return s.memory()
}

// compact takes forgotten partitions out of the order. A session that became much smaller gets new memory, because neither
// slices nor maps shrink.
func (s *Session) compact() {
	shrunk := len(s.tracked) < s.peak/4
	kept := s.order[:0]
	if shrunk {
		kept = make([]*Tracked, 0, len(s.tracked))
	}
	for _, t := range s.order {
		if s.tracked[t.Key] == t {
			kept = append(kept, t)
		}
	}
	if !shrunk {
		clear(s.order[len(kept):])
		s.order = kept
		return
	}
	s.order, s.peak = kept, len(kept)
	s.tracked = make(map[TopicKey]*Tracked, len(kept))
	for _, t := range kept {
		s.tracked[t.Key] = t
	}
}

// Partitions returns the partitions of the session in the order in which they are to be read, until the next change.
func (s *Session) Partitions() []*Tracked { return s.order }

// Told notes a partition's result in an answer and reports whether it is news for the client: records, an error, or
// marks that moved (FetchSession's CachedPartition).
func (t *Tracked) Told(r *Result) bool {
	if r.Err != nil {
		t.marks = noMarks // the end of the error is news
		return true
	}
	news := r.Size > 0 || r.Marks.HighWatermark != t.marks.HighWatermark || r.Marks.LogStart != t.marks.LogStart
	t.marks = r.Marks
	return news
}

// Rotate moves the partitions that brought records behind the others, so that each gets its turn.
func (s *Session) Rotate(brought func(i int) bool) {
	moved := make([]*Tracked, 0, len(s.order))
	kept := s.order[:0]
	for i, t := range s.order {
		if brought(i) {
			moved = append(moved, t)
		} else {
			kept = append(kept, t)
		}
	}
	s.order = append(kept, moved...)
}

package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/id"
)

// Session epochs with a meaning of their own (KIP-227, FetchMetadata).
const (
	EpochInitial int32 = 0  // asks for a new session
	EpochFinal   int32 = -1 // no session; closes the one named
)

// SessionsConfig bounds fetch sessions. Zero values mean the defaults.
type SessionsConfig struct {
	// Slots bounds the sessions open. Default 10000.
	Slots int
	// Partitions bounds the partitions in all sessions together. Default 1 million.
	Partitions int
	Registerer prometheus.Registerer // nil: a private registry
}

// ApplyDefaults fills in what is zero.
func (c *SessionsConfig) ApplyDefaults() {
	c.Slots = cmp.Or(c.Slots, 10_000)
	c.Partitions = cmp.Or(c.Partitions, 1_000_000)
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate gives all faults of the configuration, nil if there is none. Call it after ApplyDefaults.
func (c *SessionsConfig) Validate() error {
	if c.Slots < 0 || c.Partitions < 0 {
		return errors.New("bounds of fetch sessions must be positive")
	}
	return nil
}

// Holder is who a session belongs to: it is no one else's to use.
type Holder struct {
	Connection uint64
	Principal  string
}

// Sessions are the fetch sessions of this agent (KIP-227): what a client fetches, so that it only sends changes and
// only gets changes. Ids are random. A session ends with its connection.
type Sessions struct {
	cfg     SessionsConfig
	metrics *metrics

	mu struct {
		sync.Mutex
		open       map[int32]*Session
		held       map[uint64]*Session // by connection, each has one; nil if it is closed
		partitions int                 // in all of them
	}
}

// NewSessions checks the configuration.
func NewSessions(cfg SessionsConfig) (*Sessions, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("fetch sessions: %w", err)
	}
	s := &Sessions{cfg: cfg, metrics: newSessionMetrics(cfg.Registerer)}
	s.mu.open = make(map[int32]*Session)
	s.mu.held = make(map[uint64]*Session)
	return s, nil
}

// Session is one fetch session. Its requests come by one connection, one after the other, so that nothing guards
// what is in it but the fields named below.
type Session struct {
	ID       int32
	holder   Holder
	topicIDs bool // requests are of version 13 or later

	epoch   int32
	order   []*Tracked
	tracked map[TopicKey]*Tracked

	// Guarded by the lock of Sessions.
	used time.Time
	size int
}

// TopicKey names a partition as requests do: by topic id since version 13, by name before.
type TopicKey struct {
	ID        id.Topic
	Name      string
	Partition int32
}

// Tracked is one partition of a session: what to fetch, and what the client was last told.
type Tracked struct {
	Key      TopicKey
	Offset   int64
	MaxBytes int32
	Epoch    int32 // of the leader that the client knows, -1 if it says none

	marks view.Watermarks
}

// Get finds the session that an incremental request goes on with, at the request's epoch, and moves it to the next.
func (s *Sessions) Get(sid, epoch int32, holder Holder, topicIDs bool) (*Session, *kerr.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.mu.open[sid]
	switch {
	case session == nil || session.holder != holder:
		return nil, kerr.FetchSessionIDNotFound
	case session.epoch != epoch:
		return nil, kerr.InvalidFetchSessionEpoch
	case session.topicIDs != topicIDs:
		return nil, kerr.FetchSessionTopicIDError
	}
	session.used = time.Now()
	session.epoch = nextEpoch(epoch)
	return session, nil
}

// nextEpoch wraps to 1 (FetchMetadata.nextEpoch).
func nextEpoch(epoch int32) int32 {
	switch {
	case epoch < 0:
		return EpochFinal
	case epoch == 1<<31-1:
		return 1
	}
	return epoch + 1
}

// Open begins a session over the partitions, in their order, in place of the one that the connection has; nil if there
// is no room for it. first says that the connection has had none before: Leave must be called when it ends.
func (s *Sessions) Open(holder Holder, topicIDs bool, partitions []*Tracked) (_ *Session, first bool) {
	session := &Session{holder: holder, topicIDs: topicIDs, epoch: 1, tracked: make(map[TopicKey]*Tracked, len(partitions))}
	for _, t := range partitions {
		if session.tracked[t.Key] == nil {
			session.tracked[t.Key] = t
			session.order = append(session.order, t)
		}
	}
	session.size, session.used = len(session.order), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.mu.held[holder.Connection]
	if old != nil {
		s.remove(old)
	}
	if !s.room(session.size) {
		s.metrics.noSession.Inc()
		return nil, false
	}
	for session.ID == 0 || s.mu.open[session.ID] != nil {
		session.ID = rand.Int32()
	}
	s.mu.open[session.ID] = session
	s.mu.held[holder.Connection] = session
	s.mu.partitions += session.size
	s.metrics.sessions.Set(float64(len(s.mu.open)))
	return session, !known
}

// Leave closes what a connection that ended had.
func (s *Sessions) Leave(connection uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.mu.held[connection]; session != nil {
		s.remove(session)
	}
	delete(s.mu.held, connection)
}

// evictAfter is how long a session must have been idle before another may take its slot (Kafka's
// min.incremental.fetch.session.eviction.ms).
const evictAfter = 2 * time.Minute

// room makes some, if it can, by closing the session that was idle for longest.
func (s *Sessions) room(partitions int) bool {
	if len(s.mu.open) < s.cfg.Slots && s.mu.partitions+partitions <= s.cfg.Partitions {
		return true
	}
	var oldest *Session
	for _, session := range s.mu.open {
		if oldest == nil || session.used.Before(oldest.used) {
			oldest = session
		}
	}
	if oldest == nil || time.Since(oldest.used) < evictAfter {
		return false
	}
	s.metrics.evicted.Inc()
	s.remove(oldest)
	return len(s.mu.open) < s.cfg.Slots && s.mu.partitions+partitions <= s.cfg.Partitions
}

func (s *Sessions) remove(session *Session) {
	delete(s.mu.open, session.ID)
	s.mu.held[session.holder.Connection] = nil
	s.mu.partitions -= session.size
	s.metrics.sessions.Set(float64(len(s.mu.open)))
}

// Close ends a session if it is the holder's.
func (s *Sessions) Close(sid int32, holder Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.mu.open[sid]; session != nil && session.holder == holder {
		s.remove(session)
	}
}

// Update adds, changes and forgets partitions. It reports false if the session would outgrow the bounds: it is closed
// then.
func (s *Sessions) Update(session *Session, changed []*Tracked, forgotten []TopicKey) bool {
	for _, t := range changed {
		if old := session.tracked[t.Key]; old != nil {
			old.Offset, old.MaxBytes, old.Epoch = t.Offset, t.MaxBytes, t.Epoch
			continue
		}
		t.marks = noMarks // what it has is news
		session.tracked[t.Key] = t
		session.order = append(session.order, t)
	}
	for _, key := range forgotten {
		delete(session.tracked, key)
	}
	if len(session.order) != len(session.tracked) {
		kept := session.order[:0]
		for _, t := range session.order {
			if session.tracked[t.Key] == t {
				kept = append(kept, t)
			}
		}
		clear(session.order[len(kept):])
		session.order = kept
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.open[session.ID] != session {
		return true // evicted meanwhile; this request is answered still
	}
	s.mu.partitions += len(session.order) - session.size
	session.size = len(session.order)
	if s.mu.partitions > s.cfg.Partitions {
		s.metrics.noSession.Inc()
		s.remove(session)
		return false
	}
	return true
}

// Partitions are what the session fetches, in the order in which it is to be read. Not to be kept.
func (s *Session) Partitions() []*Tracked { return s.order }

// Told notes what a partition's answer tells the client and reports whether it is news: records, an error, or marks
// that moved (FetchSession's CachedPartition).
func (t *Tracked) Told(r *Result) bool {
	if r.Err != nil {
		t.marks = noMarks // told again when it is over
		return true
	}
	news := r.Size > 0 || r.Marks.HighWatermark != t.marks.HighWatermark || r.Marks.LogStart != t.marks.LogStart
	t.marks = r.Marks
	return news
}

// Rotate moves the partitions that brought records behind the others, so that all get their turn.
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

package fetch

import (
	"cmp"
	"container/heap"
	"container/list"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Session epochs with a meaning of their own (KIP-227, FetchMetadata).
const (
	EpochInitial int32 = 0  // asks for a new session
	EpochFinal   int32 = -1 // no session; closes the one named
)

// SessionsConfig bounds fetch sessions. Zero values mean the defaults.
type SessionsConfig struct {
	// Slots bounds the open sessions. Default 10000.
	Slots int
	// Bytes bounds the memory of all sessions: 512 bytes for each, and 256 bytes and the topic's name for each
	// partition. Default 256 MiB.
	Bytes      int64
	Registerer prometheus.Registerer // nil: a private registry
}

// ApplyDefaults sets the default of each zero field.
func (c *SessionsConfig) ApplyDefaults() {
	c.Slots = cmp.Or(c.Slots, 10_000)
	c.Bytes = cmp.Or(c.Bytes, 256<<20)
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate returns an error if a bound is negative. Call it after ApplyDefaults.
func (c *SessionsConfig) Validate() error {
	if c.Slots < 0 || c.Bytes < 0 {
		return errors.New("bounds of fetch sessions must be positive")
	}
	return nil
}

// Holder owns a session. Requests of other connections or principals do not find it.
type Holder struct {
	Connection uint64
	Principal  string
}

// Sessions are the fetch sessions of this agent (KIP-227): the partitions that a client fetches, so that requests and
// answers only have changes. IDs are random. A session ends with its connection, and each connection has at most one.
//
// Without a free slot, a new session evicts another one by the rules of Kafka's FetchSessionCacheShard.tryEvict. There
// are no followers here, so no session is privileged. Each step is O(1), or O(log n) for the order by size.
type Sessions struct {
	cfg     SessionsConfig
	metrics *metrics

	mu struct {
		sync.Mutex
		open      map[int32]*Session
		held      map[uint64]*Session // by connection; nil if its session is closed
		used      list.List           // of *Session, the least recently used first
		evictable bySize              // sessions that were used evictAfter or more after they were opened
		bytes     int64               // of all sessions
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

// Get returns the session of an incremental request with the request's epoch, and moves it to the next epoch.
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
	s.touch(session)
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

// Open opens a session for the partitions, in their order, in place of the connection's earlier session. It returns nil
// if there is no room. first reports whether this is the connection's first session: Leave must be called when the
// connection ends.
func (s *Sessions) Open(holder Holder, topicIDs bool, partitions []*Tracked) (_ *Session, first bool) {
	session := newSession(holder, topicIDs, partitions)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.mu.held[holder.Connection]
	if old != nil {
		s.remove(old)
	}
	if !s.makeRoom(session) {
		s.metrics.noSession.Inc()
		return nil, false
	}
	for session.ID == 0 || s.mu.open[session.ID] != nil {
		session.ID = rand.Int32()
	}
	s.mu.open[session.ID] = session
	s.mu.held[holder.Connection] = session
	s.mu.bytes += session.bytes
	session.place = s.mu.used.PushBack(session)
	session.opened = time.Now()
	session.used = session.opened
	s.metrics.sessions.Set(float64(len(s.mu.open)))
	return session, !known
}

// Leave closes the session of a connection that ended.
func (s *Sessions) Leave(connection uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.mu.held[connection]; session != nil {
		s.remove(session)
	}
	delete(s.mu.held, connection)
}

// evictAfter is the time without a request after which a session is stale, and the age from which a larger session may
// take its slot: Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
const evictAfter = 2 * time.Minute

// makeRoom evicts sessions until there is room for another one, and reports whether there is.
//
//   - Stale sessions go first, the least recently used one before others.
//   - If none is stale, the new session takes the slot of the smallest session that is old enough and has fewer
//     partitions. That rule is for slots alone: a large session must not evict a thousand small ones for their bytes.
func (s *Sessions) makeRoom(session *Session) bool {
	for {
		slots, bytes := len(s.mu.open) < s.cfg.Slots, s.mu.bytes+session.bytes <= s.cfg.Bytes
		if slots && bytes {
			return true
		}
		var victim *Session
		if oldest := s.mu.used.Front(); oldest != nil && time.Since(oldest.Value.(*Session).used) > evictAfter {
			victim = oldest.Value.(*Session)
		} else if bytes && len(s.mu.evictable) > 0 && s.mu.evictable[0].size < session.size {
			victim = s.mu.evictable[0]
		}
		if victim == nil {
			return false
		}
		s.metrics.evicted.Inc()
		s.remove(victim)
	}
}

// touch notes a use of the session. Called with mu held.
func (s *Sessions) touch(session *Session) {
	session.used = time.Now()
	s.mu.used.MoveToBack(session.place)
	if session.rank < 0 && session.used.Sub(session.opened) > evictAfter {
		heap.Push(&s.mu.evictable, session)
	}
}

// remove closes an open session. Called with mu held.
func (s *Sessions) remove(session *Session) {
	delete(s.mu.open, session.ID)
	s.mu.held[session.holder.Connection] = nil
	s.mu.used.Remove(session.place)
	if session.rank >= 0 {
		heap.Remove(&s.mu.evictable, session.rank)
	}
	s.mu.bytes -= session.bytes
	s.metrics.sessions.Set(float64(len(s.mu.open)))
}

// Close closes a session of the holder.
func (s *Sessions) Close(sid int32, holder Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.mu.open[sid]; session != nil && session.holder == holder {
		s.remove(session)
	}
}

// Update adds, changes and forgets partitions. It closes the session and returns false if the session outgrows the bound
// of bytes.
func (s *Sessions) Update(session *Session, changed []*Tracked, forgotten []TopicKey) bool {
	bytes := session.change(changed, forgotten)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.open[session.ID] != session {
		return true // evicted meanwhile; this request is answered still
	}
	s.mu.bytes += bytes - session.bytes
	session.bytes = bytes
	if size := len(session.order); size != session.size {
		session.size = size
		if session.rank >= 0 {
			heap.Fix(&s.mu.evictable, session.rank)
		}
	}
	if s.mu.bytes > s.cfg.Bytes {
		s.metrics.noSession.Inc()
		s.remove(session)
		return false
	}
	return true
}

// bySize is a heap of sessions, the smallest first. Session.rank is the index in it.
type bySize []*Session

// Len implements heap.Interface.
func (b bySize) Len() int { return len(b) }

// Less implements heap.Interface.
func (b bySize) Less(i, j int) bool { return b[i].size < b[j].size }

// Swap implements heap.Interface.
func (b bySize) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].rank, b[j].rank = i, j
}

// Push implements heap.Interface.
func (b *bySize) Push(x any) {
	session := x.(*Session)
	session.rank = len(*b)
	*b = append(*b, session)
}

// Pop implements heap.Interface.
func (b *bySize) Pop() any {
	last := len(*b) - 1
	session := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	session.rank = -1
	return session
}

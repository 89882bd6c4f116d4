package client

import (
	"sync"
	"time"
)

// ownerClock estimates the owner's clock from probes and their stamps, as NTP does: the stamp was made somewhere
// between a probe's sending and its arrival, so the best estimate is the one with the shortest way there and back.
type ownerClock struct {
	mu struct {
		sync.Mutex
		sent   time.Time     // of the probe under way
		ahead  time.Duration // how far the owner's clock is ahead of this machine's
		within time.Duration // half the round trip of the estimate: its error at most
		at     time.Time     // of the estimate; zero if there is none
	}
}

// estimateLife is how long a good estimate is preferred to a newer, worse one: long enough to keep the best of ten to
// twenty probes, short enough that clocks do not drift apart meanwhile.
const estimateLife = 10 * time.Second

func (c *ownerClock) probeSent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.sent = time.Now()
}

// stamped takes in a stamp that answers the probe sent last.
func (c *ownerClock) stamped(owner time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	within := now.Sub(c.mu.sent) / 2
	if c.mu.at.IsZero() || within <= c.mu.within || now.Sub(c.mu.at) > estimateLife {
		c.mu.ahead, c.mu.within, c.mu.at = owner.Sub(now.Add(-within)), within, now
	}
}

// Now gives the time by the owner's clock, to half a round trip (and a millisecond, the unit of stamps); this
// machine's own time before the first stamp.
func (s *Session) Now() time.Time {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return time.Now().Add(s.clock.mu.ahead)
}

// steady is what the owner's steady clock showed when it was heard of last (api.Welcome, api.Stamp).
type steady struct {
	ms uint64    // 0: its owner has none
	at time.Time // when that was read here, so later
}

func steadyAt(ms uint64) steady { return steady{ms, time.Now()} }

// of gives what the owner's steady clock shows at a time of this process's, or less; 0 if it has none. Less it is by as
// long as the owner's message was on its way, or waited here to be read.
func (s steady) of(at time.Time) uint64 {
	if s.ms == 0 {
		return 0
	}
	return uint64(max(1, int64(s.ms)+at.Sub(s.at).Milliseconds()))
}

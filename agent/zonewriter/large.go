package zonewriter

import (
	"context"
	"time"
)

// ask is another agent's wish to send a batch above window, which has to wait until there is room for it, and no other
// bytes behind it: the stream's signs of life go on meanwhile. Fields are guarded by the intake.
type ask struct {
	number uint16 // of the newest, from 1 on; 0: none yet
	size   int64  // bytes; 0: it is not wanted any more
	room   int64  // bytes of Taker.large held for it
	since  time.Time
	told   bool // that there is room
}

// news gives the number of an ask that there is room for, once; else 0. Called with mu held.
func (a *ask) news() uint16 {
	if a.room == 0 || a.told {
		return 0
	}
	a.told = true
	return a.number
}

// asks takes an ask, which replaces the one before it.
func (s *intake) asks(h head) {
	s.mu.Lock()
	held := s.mu.ask.room
	s.mu.ask = ask{number: h.count, size: int64(min(h.number, uint64(s.taker.cfg.LargeBytes)))}
	s.mu.Unlock()
	s.taker.large.Release(held)
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

// room gives what is held for a batch of a size that comes now; 0 if it was not asked for.
func (s *intake) room(size uint32) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := s.mu.ask.room
	if room < min(int64(size), s.taker.cfg.LargeBytes) {
		return 0
	}
	s.mu.ask = ask{number: s.mu.ask.number}
	return room
}

// roomUnused reports whether a sender has held room for longer than a large batch may take, without sending one. All streams
// share the room, and a sender that is granted some sends its batch at once.
func (s *intake) roomUnused(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.ask.room > 0 && now.Sub(s.mu.ask.since) > largeTimeout
}

// reserve waits for the room that is asked for, until the stream ends.
func (s *intake) reserve() {
	defer s.asks(head{}) // gives back what is held
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.asked:
		}
		s.mu.Lock()
		wanted := s.mu.ask
		s.mu.Unlock()
		if wanted.size == 0 || wanted.room > 0 {
			continue
		}
		if !s.acquire(wanted) {
			return
		}
	}
}

// acquire waits for the room of one ask, or until another one is there. False if the stream has ended.
func (s *intake) acquire(wanted ask) bool {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	got := make(chan error, 1)
	go func() { got <- s.taker.large.Acquire(ctx, wanted.size) }()
	var err error
	select {
	case err = <-got:
	case <-s.asked:
		cancel()
		err = <-got
		defer s.again()
	}
	if err != nil {
		return s.ctx.Err() == nil
	}
	s.mu.Lock()
	current := s.mu.ask.number == wanted.number && s.mu.ask.size == wanted.size && s.mu.ask.room == 0
	if current {
		s.mu.ask.room, s.mu.ask.since = wanted.size, time.Now()
	}
	s.mu.Unlock()
	if !current {
		s.taker.large.Release(wanted.size)
	}
	s.poke()
	return true
}

// again has reserve look once more.
func (s *intake) again() {
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

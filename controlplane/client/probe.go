package client

import (
	"context"
	"sync"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
)

// prober shares probes between the callers of Fresh. At most one probe with waiters is under way. Callers that come
// meanwhile wait for the next one, which is sent when that returns. Every stamp answers a probe that was sent after
// its waiters began to wait (I4).
type prober struct {
	mu struct {
		sync.Mutex
		last    uint64    // token of the newest probe
		sent    time.Time // when it was
		flying  []*waiter // of probe last, which has not been answered on this stream
		inAir   bool
		waiting []*waiter // for the next probe
		heard   bool      // a probe was answered
		doubt   time.Time // when the first probe without an answer was sent, or the stream ended; zero: the owner answers
	}
}

type waiter struct{ stamp chan uint64 } // capacity 1

// Fresh gives the log index of a stamp whose probe was sent after the call began: everything committed before the
// call is at or below it, and the handler has been given all up to it. Error: ErrUnavailable.
func (s *Session) Fresh(ctx context.Context) (index uint64, err error) {
	w := &waiter{stamp: make(chan uint64, 1)}
	p := &s.probes
	p.mu.Lock()
	p.mu.waiting = append(p.mu.waiting, w)
	p.mu.Unlock()
	s.probe(false)
	select {
	case index = <-w.stamp:
		return index, nil
	case <-ctx.Done():
		p.forget(w)
		return 0, unavailable(ctx)
	}
}

// heartbeat sends a probe as a sign of life, and tells the owner the time until the next one. It also sends the agent's load on request.
func (s *Session) heartbeat(st *stream, next time.Duration, load bool) {
	st.due = time.Now().Add(next)
	s.mu.Lock()
	st.next = next
	s.mu.Unlock()
	s.probe(true)
	if load && st.load != nil {
		st.said = st.load
		st.out.push(&api.AgentItem{Item: &api.AgentItem_Load{Load: st.load}})
	}
}

// probe sends the next probe if a caller of Fresh waits for one and none is under way; always, as a sign of life.
func (s *Session) probe(always bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.mu.stream
	if st == nil {
		return // the next stream begins with a probe
	}
	if token, ok := s.probes.next(always); ok {
		s.clock.probeSent()
		st.out.push(&api.AgentItem{Item: &api.AgentItem_Probe{Probe: &api.Probe{Token: token, NextMs: uint32(st.next.Milliseconds())}}})
	}
}

// next begins a probe; ok is false if none is due.
func (p *prober) next(always bool) (token uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.inAir || !always && len(p.mu.waiting) == 0 {
		return 0, false
	}
	p.mu.last++
	p.mu.inAir, p.mu.sent = true, time.Now()
	p.doubted()
	p.mu.flying, p.mu.waiting = p.mu.waiting, nil
	return p.mu.last, true
}

// stamped answers the waiters of the probe under way if the stamp is its, and tells whether others wait.
func (p *prober) stamped(token, index uint64) (answered, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered = p.mu.inAir && token >= p.mu.last; answered {
		for _, w := range p.mu.flying {
			w.stamp <- index
		}
		p.mu.flying, p.mu.inAir = nil, false
		p.mu.heard, p.mu.doubt = true, time.Time{}
	}
	return answered, len(p.mu.waiting) > 0
}

// reset takes the end of a stream: the probe under way gets no answer, its waiters wait for the next.
func (p *prober) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting = append(p.mu.flying, p.mu.waiting...)
	p.mu.flying, p.mu.inAir = nil, false
	p.doubted()
}

// doubted notes that an answer is outstanding. Called with mu held.
func (p *prober) doubted() {
	if p.mu.doubt.IsZero() {
		p.mu.doubt = time.Now()
	}
}

// Hears reports whether the owner has answered a probe, and leaves none without an answer for longer than a time. A time without a stream counts.
func (s *Session) Hears(within time.Duration) bool {
	s.probes.mu.Lock()
	defer s.probes.mu.Unlock()
	return s.probes.mu.heard && (s.probes.mu.doubt.IsZero() || time.Since(s.probes.mu.doubt) <= within)
}

// unanswered reports whether a probe has been under way on this stream for longer than a time.
func (p *prober) unanswered(within time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.inAir && time.Since(p.mu.sent) > within
}

// forget drops a waiter whose caller went away.
func (p *prober) forget(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting = without(p.mu.waiting, w)
	p.mu.flying = without(p.mu.flying, w)
}

func without(ws []*waiter, w *waiter) []*waiter {
	for i := range ws {
		if ws[i] == w {
			return append(ws[:i:i], ws[i+1:]...)
		}
	}
	return ws
}

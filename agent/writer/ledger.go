package writer

import (
	"time"
)

// The bundles' book-keeping in their session: which are put, handed in, answered and gone.

// putEnded frees a PUT slot.
func (s *session) putEnded() {
	s.mu.Lock()
	s.mu.putting--
	s.mu.Unlock()
	s.poke()
}

// handIn marks the bundle as handed in for commit, unless the session was closed, and gives what results were
// received up to now. From then on its outcome is the sequencer's to tell.
func (s *session) handIn(b *sealed) (acked uint32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return 0, false
	}
	b.submitted = true
	return s.mu.acked, true
}

// passOn notes that the bundle's content is handed in, or is given up, and tells those whose turn it is then.
func (s *session) passOn(b *sealed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.handed = true
	for next := s.bundle(s.mu.handed + 1); next != nil && next.handed; {
		s.mu.handed++
		if next = s.bundle(s.mu.handed + 1); next != nil {
			close(next.turn)
		}
	}
}

// answered marks the bundle's result as received and raises the watermark of received results.
func (s *session) answered(b *sealed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.answered = true
	s.mu.company, s.mu.returned = true, time.Now()
	s.poke()
	for {
		next := s.bundle(s.mu.acked + 1)
		if next == nil || !next.answered {
			break
		}
		s.mu.acked++
	}
}

// bundle finds the n-th bundle among those not gone; nil if it is none of them. Called with mu held.
func (s *session) bundle(n uint32) *sealed {
	if len(s.mu.bundles) == 0 {
		return nil
	}
	i := int64(n) - int64(s.mu.bundles[0].n)
	if i < 0 || i >= int64(len(s.mu.bundles)) {
		return nil
	}
	return s.mu.bundles[i]
}

// gone takes the bundle out: its memory was handed over or released.
func (s *session) gone(b *sealed) {
	s.mu.Lock()
	b.left = true
	if s.bundle(b.n) != nil {
		s.mu.bundles[b.n-s.mu.bundles[0].n] = b.remains() // an earlier result may be missing for long
	}
	for len(s.mu.bundles) > 0 && s.mu.bundles[0].left && (s.mu.bundles[0].n <= s.mu.acked || s.mu.closed) {
		s.mu.bundles[0] = nil
		s.mu.bundles = s.mu.bundles[1:]
	}
	s.w.metrics.unsettled.Set(float64(len(s.mu.bundles)))
	s.checkDrained()
	s.mu.Unlock()
	close(b.over)
	s.poke()
}

// settling finds a bundle on its way by its n.
func (s *session) settling(n uint32) (<-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.bundle(n); b != nil && !b.left {
		return b.over, true
	}
	return nil, false
}

// resubmitting counts resubmissions under way.
func (s *session) resubmitting(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.resub += by
	s.checkDrained()
}

// stuckAfter is how long a bundle may be on its way to the object store: a writer that takes longer is none to hand
// batches to. Slow stores take a second or two; clients of other agents wait that long and about 2 s more.
const stuckAfter = 3 * time.Second

// stuck tells whether the oldest bundle that is not stored yet was sealed longer than stuckAfter ago.
func (s *session) stuck(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.mu.bundles {
		if !b.submitted && !b.answered && !b.left {
			return now.Sub(b.at) > stuckAfter
		}
	}
	return false
}

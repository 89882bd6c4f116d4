package zonewriter

import (
	"sync"
	"sync/atomic"
	"time"
)

// lease is how long the batches of one stream may be handed in for commit. Its agent gives the stream up when it has
// heard nothing for the silence, and then writes what follows itself: so this side numbers its beats, hears with each sign
// of life which was the last to arrive, and counts from when *that one was sent*. An agent that was paused finds the lease
// over when it wakes, whatever waits to be read by then: time goes on while a process stands still.
type lease struct {
	began time.Time
	life  time.Duration // from a beat's sending on
	over  atomic.Bool   // the stream has ended
	until atomic.Int64  // time since began

	mu struct {
		sync.Mutex
		last uint64 // beat sent
		sent [keptBeats]time.Duration
	}
}

const (
	// keptBeats is how many beats are remembered: more than fit into the silence.
	keptBeats = 16
	// leaseMargin is the part of the silence (1/leaseMargin) that is left for a commit's way into the owner's log.
	leaseMargin = 6
)

func newLease(silence time.Duration) *lease {
	l := &lease{began: time.Now(), life: silence - silence/leaseMargin}
	l.until.Store(int64(l.life)) // the stream's other side has just begun to listen, or will
	return l
}

// Until implements writer.Lease.
func (l *lease) Until() time.Time {
	if l.over.Load() {
		return l.began
	}
	return l.began.Add(time.Duration(l.until.Load()))
}

// end ends the lease for good.
func (l *lease) end() { l.over.Store(true) }

// beat gives the number of a beat that is sent now.
func (l *lease) beat() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.last++
	l.mu.sent[l.mu.last%keptBeats] = time.Since(l.began)
	return l.mu.last
}

// heard notes that a beat has arrived at the other side.
func (l *lease) heard(beat uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if beat > l.mu.last || beat+keptBeats <= l.mu.last || beat == 0 {
		return
	}
	if until := int64(l.mu.sent[beat%keptBeats] + l.life); until > l.until.Load() {
		l.until.Store(until)
	}
}

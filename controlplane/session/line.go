package session

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// useHalfLife is the time in which the use of a line by a virtual cluster counts half. A long line takes minutes to serve, and virtual
// clusters that fill it again and again stay behind the others for as long.
const useHalfLife = 5 * time.Minute

// line is memory that the messages of all virtual clusters share. If there is too little, messages wait. The next one is of the virtual
// cluster that has used least memory for least time lately. So a virtual cluster that uses little waits for one message that is arriving, and
// not for all that wait (I10).
type line struct {
	mu struct {
		sync.Mutex
		free    int64
		waiting []*waiter // in order of arrival, one of each virtual cluster at most
	}
}

// waiter is a message that waits in a line.
type waiter struct {
	of     *part
	weight int64
	ready  chan struct{} // closed once the message has its memory
}

func newLine(size int64) *line {
	l := new(line)
	l.mu.free = size
	return l
}

// part is the part of one virtual cluster in a line. Its messages wait for each other first, and one of them at a time waits in the line.
// They are one for each stream at most, which the bound of calls bounds.
type part struct {
	line *line
	own  *semaphore.Weighted
	turn *semaphore.Weighted // of the next message in the line

	// Guarded by line.mu.
	used float64 // memory times seconds, as of at
	at   time.Time
}

// part returns the part of another virtual cluster, which may take size of the memory.
func (l *line) part(size int64) *part {
	return &part{line: l, own: semaphore.NewWeighted(size), turn: semaphore.NewWeighted(1)}
}

// take waits for memory. give gives it back.
func (p *part) take(ctx context.Context, weight int64) (give func(), err error) {
	if err := p.own.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	if err := p.enter(ctx, weight); err != nil {
		p.own.Release(weight)
		return nil, err
	}
	began := time.Now()
	return func() {
		p.line.give(p, weight, time.Since(began))
		p.own.Release(weight)
	}, nil
}

// enter waits in the line.
func (p *part) enter(ctx context.Context, weight int64) error {
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.turn.Release(1)
	w := &waiter{p, weight, make(chan struct{})}
	p.line.join(w)
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	p.line.leave(w)
	return ctx.Err()
}

func (l *line) join(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waiting = append(l.mu.waiting, w)
	l.serve()
}

// leave ends the wait of a message, or gives back its memory if it has just got it.
func (l *line) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.mu.waiting, w); i >= 0 {
		l.mu.waiting = slices.Delete(l.mu.waiting, i, i+1)
	} else {
		l.mu.free += w.weight
	}
	l.serve()
}

// give gives back the memory that a virtual cluster used for some time.
func (l *line) give(p *part, weight int64, held time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	p.used, p.at = p.usedAt(now)+float64(weight)*held.Seconds(), now
	l.mu.free += weight
	l.serve()
}

// serve hands out memory. A message that needs more than is left keeps later ones waiting, so that small ones do not pass it for ever.
// Called with mu held.
func (l *line) serve() {
	now := time.Now()
	for len(l.mu.waiting) > 0 {
		next, least := 0, math.Inf(1)
		for i, w := range l.mu.waiting {
			if used := w.of.usedAt(now); used < least {
				next, least = i, used
			}
		}
		w := l.mu.waiting[next]
		if w.weight > l.mu.free {
			return
		}
		l.mu.free -= w.weight
		l.mu.waiting = slices.Delete(l.mu.waiting, next, next+1)
		close(w.ready)
	}
}

// usedAt returns the use that counts at a time. Called with line.mu held.
func (p *part) usedAt(now time.Time) float64 {
	return p.used * math.Exp2(-now.Sub(p.at).Seconds()/useHalfLife.Seconds())
}

// Package periodic repeats work at intervals without a goroutine between two calls. A replica owns a thousand idle virtual clusters, and
// each has a dozen things to look at once in a while.
package periodic

import (
	"context"
	"sync"
	"time"

	"github.com/freshet-io/freshet/internal/wait"
)

// Pauses of at least long end at multiples of slack, so that the processor wakes once for many Loops. Wake-ups are most of the CPU time of an idle
// virtual cluster.
const (
	long  = 5 * time.Second
	slack = 500 * time.Millisecond
)

// aligned returns a pause, extended by less than slack if it is long.
func aligned(pause time.Duration) time.Duration {
	if pause < long {
		return pause
	}
	return wait.Align(pause, slack)
}

// Loop calls a function again and again, one call at a time. Each call has a goroutine of its own, so no Loop waits for another. The zero
// value is a Loop that has not started. Safe for concurrent use.
type Loop struct {
	ctx   context.Context //nolint:containedctx // of Start, for each call
	call  func(context.Context) (pause time.Duration)
	ended chan struct{} // closed when ctx has ended and no call runs

	mu struct {
		sync.Mutex
		timer   *time.Timer // nil before Start
		running bool
		woken   bool // another call follows without a pause
		over    bool
	}
}

// Start begins to call a function, first after a pause, then after the pause that the call before returned, until ctx ends. ctx is
// passed to each call. Start may be called once.
func (l *Loop) Start(ctx context.Context, first time.Duration, call func(context.Context) (pause time.Duration)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx, l.call, l.ended = ctx, call, make(chan struct{})
	if l.mu.woken {
		first = 0
	}
	l.mu.timer = time.AfterFunc(aligned(first), l.run)
	context.AfterFunc(ctx, l.end)
}

// Every returns a Loop that calls a function after each interval until ctx ends.
func Every(ctx context.Context, interval time.Duration, call func(context.Context)) *Loop {
	l := new(Loop)
	l.Start(ctx, interval, func(ctx context.Context) time.Duration {
		call(ctx)
		return interval
	})
	return l
}

// Wake has a call begin after Wake, without a pause. Before Start, it ends the first pause.
func (l *Loop) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.over:
	case l.mu.running, l.mu.timer == nil:
		l.mu.woken = true
	default:
		l.mu.timer.Reset(0)
	}
}

// Wait returns once the context of Start has ended and no call runs any more.
func (l *Loop) Wait() { <-l.ended }

func (l *Loop) run() {
	l.mu.Lock()
	if l.mu.running || l.mu.over || l.ctx.Err() != nil {
		l.mu.Unlock() // the timer fired again while Wake reset it, or end follows
		return
	}
	l.mu.running, l.mu.woken = true, false
	l.mu.Unlock()
	pause := l.call(l.ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.running = false
	switch {
	case l.mu.over:
		close(l.ended)
	case l.mu.woken:
		l.mu.timer.Reset(0)
	default:
		l.mu.timer.Reset(aligned(pause))
	}
}

func (l *Loop) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.over = true
	l.mu.timer.Stop()
	if !l.mu.running {
		close(l.ended)
	}
}

package group

import (
	"context"
	"time"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// deadline is when the machine wants to be called; zero if not.
func (g *group) deadline() time.Time {
	switch {
	case g.consumer != nil:
		return g.consumer.Deadline()
	case g.classic != nil:
		return g.classic.Deadline()
	default:
		return time.Time{}
	}
}

// arm sets the timer. One that fires too early is left alone: a heartbeat moves deadlines away, and must not pay for it.
func (g *group) arm() {
	due := g.deadline()
	if due.IsZero() || g.c.closed.Load() || !g.due.IsZero() && !g.due.After(due) {
		return
	}
	g.due = due
	if wait := time.Until(due); g.timer == nil {
		g.timer = time.AfterFunc(wait, g.fire)
	} else {
		g.timer.Reset(wait)
	}
}

func (g *group) stopTimer() {
	if g.timer != nil {
		g.timer.Stop()
	}
	g.due = time.Time{}
}

// stop ends the timer when the tenure is over.
func (g *group) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopTimer()
}

// fire has the machine do what is due, on a goroutine of the tenure.
func (g *group) fire() {
	g.c.spawn(func(context.Context) {
		ready, _ := g.do(func(g *group) step.Step { // gone, or not to be loaded: nothing is due any more
			g.due = time.Time{}
			return g.expire(time.Now())
		})
		for _, answer := range ready {
			answer()
		}
	})
}

func (g *group) expire(now time.Time) step.Step {
	if g.consumer != nil {
		return g.afterConsumer(now, g.consumer.Expire(now, g.c.topics.Load()))
	}
	return g.classic.Expire(now)
}

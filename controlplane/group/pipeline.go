package group

import (
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata"
)

// pipeline logs one group's writes one after the other and holds the answers that wait for them. Only one write is in
// the log's hands: when it fails, those behind it were built on what is lost and are dropped with it, so that the log
// never has the second of two without the first. Writes that queue up meanwhile become one.
type pipeline struct {
	inFlight bool
	queue    []metadata.Command // behind the one in flight
	last     uint64             // number of the last write taken; those of queue are the last ones up to it
	applied  uint64             // number of the last write applied
	answers  []heldAnswers
}

// heldAnswers go when write number after is applied.
type heldAnswers struct {
	after uint64
	fns   []func()
}

func (p *pipeline) idle() bool { return !p.inFlight && len(p.queue) == 0 }

// mergeBytes bounds what writes are merged to, far below what a command may have: merging must not make two that are
// taken into one that is refused.
const mergeBytes = 1 << 20

// push queues a command.
func (p *pipeline) push(cmd metadata.Command) {
	if update, ok := cmd.(*metadata.UpdateGroup); ok && len(p.queue) > 0 {
		tail, ok := p.queue[len(p.queue)-1].(*metadata.UpdateGroup)
		if ok && size(tail)+size(update) <= mergeBytes {
			p.queue[len(p.queue)-1] = merge(tail, update)
			return
		}
	}
	p.queue = append(p.queue, cmd)
	p.last++
}

// size is about what a write takes in the log.
func size(u *metadata.UpdateGroup) int {
	n := len(u.Head)
	for _, m := range u.Members {
		n += len(m.ID) + len(m.Value)
	}
	return n
}

// merge gives one command with the effect of two.
func merge(a, b *metadata.UpdateGroup) *metadata.UpdateGroup {
	m := &metadata.UpdateGroup{Group: b.Group, Kind: b.Kind, Head: b.Head, Reset: a.Reset || b.Reset}
	if m.Head == nil {
		m.Head = a.Head
	}
	changed := make(map[string]bool, len(b.Members))
	for _, member := range b.Members {
		changed[member.ID] = true
	}
	if !b.Reset {
		for _, member := range a.Members {
			if !changed[member.ID] {
				m.Members = append(m.Members, member)
			}
		}
	}
	m.Members = append(m.Members, b.Members...)
	return m
}

// release takes the answers out that wait for no write any more.
func (p *pipeline) release() (ready []func()) {
	for len(p.answers) > 0 && p.answers[0].after <= p.applied {
		ready = append(ready, p.answers[0].fns...)
		p.answers = p.answers[1:]
	}
	if len(p.answers) == 0 {
		p.answers = nil
	}
	return ready
}

// carry takes a step of the machine, behind commands that were pushed before. Called with mu held, as everything here.
func (g *group) carry(s step.Step) (ready []func()) {
	p := &g.pipe
	for i := range s.Writes {
		p.push(&s.Writes[i])
	}
	if p.idle() {
		return s.Answers
	}
	if len(s.Answers) > 0 {
		p.answers = append(p.answers, heldAnswers{after: p.last, fns: s.Answers})
	}
	return g.flush()
}

// flush hands the next write to the log if none is there.
func (g *group) flush() (ready []func()) {
	p := &g.pipe
	if p.inFlight || len(p.queue) == 0 {
		return nil
	}
	cmd := p.queue[0]
	p.queue = p.queue[1:]
	p.inFlight = true
	if err := g.c.enqueue(cmd, g.written); err != nil {
		p.inFlight = false
		return g.abandon(err)
	}
	return nil
}

// written takes the outcome of the write in flight.
func (g *group) written(result metadata.Result, err error) {
	if err == nil {
		err = result.Err // a limit of the state
	}
	g.mu.Lock()
	ready := g.takeOutcome(err)
	g.settle()
	g.mu.Unlock()
	give(ready)
}

// takeOutcome ends the write in flight and begins the next. Answers that waited for the former are given before the
// latter can fail, which would make them say that there is none.
func (g *group) takeOutcome(err error) (ready []func()) {
	p := &g.pipe
	p.inFlight = false
	if err != nil {
		return g.abandon(err)
	}
	p.applied = p.last - uint64(len(p.queue))
	give(p.release())
	return g.flush()
}

func give(answers []func()) {
	for _, answer := range answers {
		answer()
	}
}

// abandon throws the machine away after a write failed: it knows what will never be. The next request loads the group
// again. Whoever waits gets no answer, and is asked for again by the agent.
func (g *group) abandon(err error) (ready []func()) {
	if !isLimit(err) && g.c.warns.Allow() {
		g.c.log.Warn("group write failed, its coordination starts anew", zap.String("group", g.name), zap.Error(err))
	}
	g.c.metrics.failed.Inc()
	g.life.failure.Store(&err)
	switch {
	case g.consumer != nil:
		ready = g.consumer.Unload().Answers
	case g.classic != nil:
		ready = g.classic.Unload().Answers
	}
	for _, held := range g.pipe.answers {
		ready = append(ready, held.fns...)
	}
	g.pipe = pipeline{last: g.pipe.last, applied: g.pipe.last}
	g.classic, g.consumer, g.life = nil, nil, new(life)
	g.stopTimer()
	if isNoRoom(err) {
		g.pause.begin(time.Now(), err)
		_ = g.load() // the entry of a stored group stays in the table, with its pause. An error comes again with the next request
	}
	return ready
}

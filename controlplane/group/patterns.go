package group

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/freshet-io/freshet/controlplane/group/consumer"
	"github.com/freshet-io/freshet/internal/pattern"
)

const (
	// maxResolutions bounds the expressions that patterns remembers.
	maxResolutions = 1000
	// maxResolvedNames bounds the topics of these, unless one expression alone has more. A name takes 16 bytes.
	maxResolvedNames = 1_000_000
	// maxWaiting bounds the heartbeats that wait for their expression, and maxWait the time that one waits. A heartbeat beyond either is answered
	// first, as Kafka answers all. Its member has partitions once a later heartbeat finds the expression resolved.
	maxWaiting = 256
	maxWait    = time.Second
)

// patterns resolves groups' regular expressions to topics, on a queue of its own, since a hostile expression takes seconds. Safe for
// concurrent use.
type patterns struct {
	queue *pattern.Queue
	ctx   context.Context //nolint:containedctx // of the tenure
	end   context.CancelFunc

	mu struct {
		sync.Mutex
		known   map[string]*resolution // by expression
		names   int                    // topics of all known
		waiting int                    // heartbeats
	}
}

// resolution is an expression's topics.
type resolution struct {
	consumer.Matches
	running bool     // a newer one is being made
	waiting []func() // for the one that is being made
}

func newPatterns(queue *pattern.Queue) *patterns {
	p := &patterns{queue: queue}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.mu.known = make(map[string]*resolution)
	return p
}

// matching returns an expression's topics as last resolved. If that was not with this catalogue, matching has the expression resolved anew.
func (p *patterns) matching(source string, c *catalogue) consumer.Matches {
	if len(source) > pattern.MaxBytes {
		_, err := pattern.Compile(source)
		return consumer.Matches{Known: true, Version: c.version, Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m, _ := p.look("", source, c)
	return m
}

// prepare has an expression resolved, and then calls then, on another goroutine if that takes time. then is called after maxWait at the latest.
// The error is pattern.ErrBusy.
func (p *patterns) prepare(client, source string, c *catalogue, then func(error)) {
	var err error
	if len(source) <= pattern.MaxBytes {
		var m consumer.Matches
		p.mu.Lock()
		m, err = p.look(client, source, c)
		if !m.Known && err == nil && p.mu.waiting < maxWaiting {
			p.wait(p.mu.known[source], then)
			then = nil
		}
		p.mu.Unlock()
	}
	if then != nil {
		then(err)
	}
}

// wait has then called when a resolution is made, or after maxWait. Called with mu held.
func (p *patterns) wait(r *resolution, then func(error)) {
	p.mu.waiting++
	once := sync.OnceFunc(func() {
		p.mu.Lock()
		p.mu.waiting--
		p.mu.Unlock()
		then(nil)
	})
	timer := time.AfterFunc(maxWait, once)
	r.waiting = append(r.waiting, func() {
		timer.Stop()
		once()
	})
}

// look is matching. An error means that the expression is not being resolved. Called with mu held.
func (p *patterns) look(client, source string, c *catalogue) (consumer.Matches, error) {
	r := p.mu.known[source]
	if r == nil {
		r = &resolution{}
	}
	if r.running || r.Known && r.Version == c.version {
		return r.Matches, nil
	}
	err := p.queue.Match(p.ctx, client, source, c.TopicNames(), func(topics []string, err error) {
		p.finish(source, r, consumer.Matches{Known: true, Version: c.version, Topics: slices.Clip(topics), Err: err})
	})
	if err == nil {
		r.running = true
		p.mu.known[source] = r
	}
	return r.Matches, err
}

// finish takes the outcome of a resolution, and forgets others beyond the bounds.
func (p *patterns) finish(source string, r *resolution, m consumer.Matches) {
	p.mu.Lock()
	if errors.Is(m.Err, pattern.ErrBusy) || errors.Is(m.Err, pattern.ErrTooSlow) && r.Known && r.Err == nil {
		m = r.Matches // after ErrBusy, the next heartbeat has it resolved again
	}
	p.mu.names += len(m.Topics) - len(r.Topics)
	r.Matches, r.running = m, false
	waiting := r.waiting
	r.waiting = nil
	for other, old := range p.mu.known {
		if len(p.mu.known) <= maxResolutions && p.mu.names <= maxResolvedNames {
			break
		}
		if other != source && !old.running {
			p.mu.names -= len(old.Topics)
			delete(p.mu.known, other)
		}
	}
	p.mu.Unlock()
	for _, then := range waiting {
		then()
	}
}

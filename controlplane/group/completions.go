package group

import (
	"context"
	"sync"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
)

// completions waits for the outcomes of commands that were given to the log, in that order. An owner answers its proposals in
// the order of the log, so one goroutine is enough. It runs while there are commands. Their number is bounded by the owner's queue.
type completions struct {
	spawn session.Spawn
	mu    struct {
		sync.Mutex
		waiting []completion
		running bool // the goroutine runs
	}
}

// completion is one command in the log's hands.
type completion struct {
	proposal *owner.Proposal
	done     func(metadata.Result, error)
}

// add waits for a command's outcome. After the end of the tenure it does nothing: agents ask the next owner.
func (q *completions) add(c completion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.running = q.mu.running || q.spawn(q.run); q.mu.running {
		q.mu.waiting = append(q.mu.waiting, c)
	}
}

// take returns the commands that wait. Without any, it ends the goroutine.
func (q *completions) take() []completion {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.mu.waiting
	q.mu.waiting, q.mu.running = nil, len(all) > 0
	return all
}

// run reports outcomes until no command waits or ctx ends.
func (q *completions) run(ctx context.Context) {
	for {
		all := q.take()
		if len(all) == 0 {
			return
		}
		for _, c := range all {
			select {
			case <-ctx.Done():
				return
			case <-c.proposal.Done():
			}
			result, _, err := c.proposal.Wait(ctx)
			c.done(result, err)
		}
	}
}

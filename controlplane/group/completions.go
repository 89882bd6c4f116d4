package group

import (
	"context"
	"sync"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
)

// completions waits for the outcome of what was handed to the log, in that order: an owner answers its proposals in
// the order of the log, so that one goroutine is enough. Their number is bounded by the owner's queue.
type completions struct {
	mu struct {
		sync.Mutex
		waiting []completion
	}
	signal chan struct{} // capacity 1: there may be some
}

// completion is one command in the log's hands.
type completion struct {
	proposal *owner.Proposal
	done     func(metadata.Result, error)
}

func newCompletions() *completions { return &completions{signal: make(chan struct{}, 1)} }

func (q *completions) add(c completion) {
	q.mu.Lock()
	q.mu.waiting = append(q.mu.waiting, c)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

func (q *completions) take() []completion {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.mu.waiting
	q.mu.waiting = nil
	return all
}

// run tells outcomes until ctx ends. What is left then is told to nobody: agents ask the next owner.
func (q *completions) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.signal:
		}
		for _, c := range q.take() {
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

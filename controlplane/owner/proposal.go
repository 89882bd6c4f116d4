package owner

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/metadata"
)

// proposalOverhead counts against Config.QueueBytes for each proposal beside its encoded size, so that the number of
// tiny ones is bounded too.
const proposalOverhead = 512

// Proposal is a command on its way through the log. Its answer comes once it is durable and applied.
type Proposal struct {
	cmd  metadata.Command
	size int
	// growth is what the command may add to the state, as admitted; zero for commands that are always admitted.
	growth metadata.Growth
	anew   int64        // bytes that the command replaces in topic and group metadata at its bound, see anewShare
	came   time.Time    // into the queue, or before it
	stay   atomic.Int32 // where it is
	done   chan struct{}

	// Written before done is closed.
	result metadata.Result
	index  uint64
	err    error
}

// Where a proposal is. It leaves the queue either way exactly once.
const (
	inQueue int32 = iota
	taken
	givenUp
)

// Done is closed when the answer is there.
func (p *Proposal) Done() <-chan struct{} { return p.done }

// Wait gives the command's result and the index of its log entry. Errors: ErrNotOwner and metalog.ErrLogFull (no
// effect), *OutcomeUnknownError. When ctx ends first, the proposal is withdrawn if it is still in the queue (the error
// is the context's), else its outcome is unknown.
func (p *Proposal) Wait(ctx context.Context) (metadata.Result, uint64, error) {
	select {
	case <-p.done:
		return p.result, p.index, p.err
	case <-ctx.Done():
	}
	if p.stay.CompareAndSwap(inQueue, givenUp) {
		return metadata.Result{}, 0, fmt.Errorf("withdraw proposal: %w", context.Cause(ctx))
	}
	select {
	case <-p.done: // answered at the same moment
		return p.result, p.index, p.err
	default:
		return metadata.Result{}, 0, &OutcomeUnknownError{Err: context.Cause(ctx)}
	}
}

// answered reports whether the answer is there.
func (p *Proposal) answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *Proposal) succeed(result metadata.Result, index uint64) {
	p.result, p.index = result, index
	close(p.done)
}

func (p *Proposal) fail(err error) {
	p.err = err
	close(p.done)
}

// encodedSize is about what the command takes in a log entry. Commits are by far the most frequent ones and are
// logged verbatim; the others are encoded once more to know.
func encodedSize(cmd metadata.Command) int {
	if c, ok := cmd.(*metadata.CommitBundle); ok {
		return len(c.Encoded) + 16
	}
	return len(metadata.AppendBatch(nil, &metadata.Batch{Commands: []metadata.Command{cmd}}))
}

// urgent reports whether a command passes all others in the queue and is taken at a full log too. CheckHash is: a snapshot begins with it, and
// the snapshot lets the log be trimmed.
func urgent(cmd metadata.Command) bool {
	_, ok := cmd.(*metadata.CheckHash)
	return ok
}

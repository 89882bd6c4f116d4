package owner

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/metadata"
)

// proposalOverhead counts against Config.QueueBytes for each proposal beside its encoded size, so the number of
// small proposals is bounded too.
const proposalOverhead = 512

// Proposal is a command on its way through the log. Its answer comes once it is durable and applied.
type Proposal struct {
	cmd  metadata.Command
	size int
	// growth is what the command may add to the state, as admitted; zero for commands that are always admitted.
	growth metadata.Growth
	anew   int64        // bytes that the command replaces in topic and group metadata at its bound, see anewShare
	came   time.Time    // when it was proposed
	stay   atomic.Int32 // inQueue, taken or givenUp
	done   chan struct{}

	// Written before done is closed.
	result metadata.Result
	index  uint64
	err    error
}

// States of a proposal. It leaves the queue exactly once.
const (
	inQueue int32 = iota
	taken
	givenUp
)

// Done returns a channel that is closed when the proposal is answered.
func (p *Proposal) Done() <-chan struct{} { return p.done }

// Wait returns the command's result and the index of its log entry. Errors: ErrNotOwner and metalog.ErrLogFull (no
// effect), *OutcomeUnknownError. If ctx ends first, a proposal in the queue is withdrawn, and the error is the context's.
// If the proposal has left the queue, its outcome is unknown.
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

// answered reports whether the proposal is answered.
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

// encodedSize returns about the bytes of a command in a log entry. Commits, the most frequent commands, are logged verbatim.
// Other commands are encoded once more to measure them.
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

package view

import (
	"context"
	"time"
)

// Stamp is a log index that says how new a request is: that of a stamp asked for after the request arrived. It may not
// be there yet. The parts of one request share it.
//
// What it is for: a producer of the first transaction protocol keeps its epoch from one transaction to the next, so
// nothing in its requests tells which of them they are of. The state machine takes such a request only if the
// producer's transaction neither began nor ended above the index (agent/writer/DESIGN.md says why that is enough).
type Stamp struct {
	done  chan struct{}
	index uint64 // 0: none came in time; read after done
}

// AskStamp asks for a stamp and returns at once. p is asked after the call began, never before, and its answer counts
// only until ctx ends: one that comes later could be newer than the end of the request's transaction.
func AskStamp(ctx context.Context, p Prober) *Stamp {
	s := &Stamp{done: make(chan struct{})}
	if over(ctx) { // the request waited too long before
		close(s.done)
		return s
	}
	go func() { // ends with ctx at the latest
		defer close(s.done)
		if index, err := p.Fresh(ctx); err == nil && !over(ctx) {
			s.index = index
		}
	}()
	return s
}

// over tells whether ctx has ended, or should have: its timer may be behind where the process was paused.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// Done is closed when Index may be called, at the latest when AskStamp's context ends.
func (s *Stamp) Done() <-chan struct{} { return s.done }

// Missed tells whether it is known that there will be no index.
func (s *Stamp) Missed() bool {
	select {
	case <-s.done:
		return s.index == 0
	default:
		return false
	}
}

// Index gives the index, 0 if there is none. Call it after Done.
func (s *Stamp) Index() uint64 { return s.index }

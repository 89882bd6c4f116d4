package memlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// OpKind is what a request asks of the store.
type OpKind string

// The kinds of requests, one per method of metalog.Store and metalog.LeaseStore.
const (
	OpView         OpKind = "view"
	OpGrant        OpKind = "grant"
	OpClaim        OpKind = "claim"
	OpRenew        OpKind = "renew"
	OpRevoke       OpKind = "revoke"
	OpOwners       OpKind = "owners"
	OpWatch        OpKind = "watch" // one for each report of a watch
	OpNow          OpKind = "revision"
	OpDisown       OpKind = "disown"
	OpAppend       OpKind = "append"
	OpRange        OpKind = "range"
	OpDelete       OpKind = "delete"
	OpSetSnapshots OpKind = "set snapshots"
	OpSnapshots    OpKind = "snapshots"
)

// Op is one request. Index is the entry it is about, where it is about one.
type Op struct {
	Kind  OpKind
	Index uint64
}

// Fault is what becomes of a request.
type Fault int

const (
	// Pass delivers the request and its answer.
	Pass Fault = iota
	// LoseRequest: it never arrives; the replica learns only that no answer came.
	LoseRequest
	// LoseAnswer: it takes effect; the replica learns only that no answer came.
	LoseAnswer
	// Hang: it never arrives, and the replica waits until its context ends.
	Hang
	// Hold: it arrives when Release is called, however long after the replica gave it up.
	Hold
)

// ErrLost is what a replica gets when a request or its answer was lost.
var ErrLost = errors.New("no answer from the store in memory")

// Replica is one replica's way to the store, with its faults. It implements metalog.Store and metalog.LeaseStore.
type Replica struct {
	store *Store
	name  string

	hooking sync.Mutex // held while the hook runs

	mu struct {
		sync.Mutex
		hook func(Op) Fault
		held []func()
	}
}

// SetFaults lets the hook decide about every request from now on; nil delivers all. The hook is
// called for one request at a time.
func (r *Replica) SetFaults(hook func(Op) Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.hook = hook
}

// CutOff lets every request hang until SetFaults(nil).
func (r *Replica) CutOff() { r.SetFaults(func(Op) Fault { return Hang }) }

// Stop holds back every request from now on, as when the process is stopped with requests in its send buffers.
func (r *Replica) Stop() { r.SetFaults(func(Op) Fault { return Hold }) }

// Held is how many requests are held back.
func (r *Replica) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.held)
}

// Release delivers the held requests in order, each to the store as it is now, and lets new ones pass.
func (r *Replica) Release() {
	r.mu.Lock()
	held := r.mu.held
	r.mu.held, r.mu.hook = nil, nil
	r.mu.Unlock()
	for _, deliver := range held {
		deliver()
	}
}

func (r *Replica) fault(op Op) Fault {
	r.mu.Lock()
	hook := r.mu.hook
	r.mu.Unlock()
	if hook == nil {
		return Pass
	}
	r.hooking.Lock()
	defer r.hooking.Unlock()
	return hook(op)
}

// do sends one request through the replica's faults.
func do[T any](ctx context.Context, r *Replica, op Op, effect func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	switch r.fault(op) {
	case Pass:
		return run(r.store, effect)
	case LoseRequest:
	case LoseAnswer:
		_, _ = run(r.store, effect)
	case Hang:
		<-ctx.Done()
		return none, fmt.Errorf("%s: %w", op.Kind, ctx.Err())
	case Hold:
		return hold(ctx, r, op, effect)
	}
	return none, fmt.Errorf("%s %s: %w", r.name, op.Kind, ErrLost)
}

// hold queues the request and waits for its answer no longer than ctx.
func hold[T any](ctx context.Context, r *Replica, op Op, effect func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	r.mu.Lock()
	r.mu.held = append(r.mu.held, func() {
		v, err := run(r.store, effect)
		answers <- answer{v, err}
	})
	r.mu.Unlock()
	select {
	case a := <-answers:
		return a.v, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%s: %w", op.Kind, ctx.Err())
	}
}

func run[T any](s *Store, effect func() (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.expire()
	return effect()
}

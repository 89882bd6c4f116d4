package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

const (
	// smallAnswer is the largest answer, in bytes, that needs no place of MaxAnswerBytes.
	smallAnswer = 1 << 20
	// smallAnswers is the memory of all small answers, in bytes for each place.
	smallAnswers = 16 << 20
	// memoryOfPlace is the process memory, in bytes, for each place.
	memoryOfPlace = 512 << 20
	maxPlaces     = 4
)

var (
	// ErrAnswerTooLarge is returned for an answer above MaxAnswerBytes. The client's connection is closed.
	ErrAnswerTooLarge = fmt.Errorf("%w: the answer is too large", ErrBadRequest)
	// ErrAnswerLarge is returned for an answer above the room that the agent has for it. The agent sends the request again when it has more.
	ErrAnswerLarge = errors.New("the answer is larger than the agent's room for it")
	// ErrAnswersFull is returned while other answers take the memory. The agent sends the request again.
	ErrAnswersFull = errors.New("other answers take the memory for answers")
)

// Answers bounds the memory of answers to forwarded requests, from their first byte until the agent's stream has taken them. Small answers
// share a part. A larger answer takes one of a few places, each of MaxAnswerBytes, so an answer that has begun to grow never waits for
// another. Safe for concurrent use.
type Answers struct {
	places int
	mu     struct {
		sync.Mutex
		small int // bytes
		large int // places taken
	}
}

// NewAnswers returns the bounds for a process with so many bytes of memory: a place, and 16 MiB for small answers, for each 512 MiB; one at
// least and four at most.
func NewAnswers(memory int64) *Answers {
	return &Answers{places: int(min(max(1, memory/memoryOfPlace), maxPlaces))}
}

// Bytes returns the bytes of answers, with MaxAnswerBytes for each large one.
func (b *Answers) Bytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.small + b.mu.large*MaxAnswerBytes
}

// Answer counts the bytes of one answer. The nil Answer counts nothing.
type Answer struct {
	of    *Answers
	room  int // bytes that the agent takes; 0 for MaxAnswerBytes
	bytes int
	large bool
	err   error // of Add; it stays
}

type answerKey struct{}

// AnswerOf returns the answer that a request's context is for, to be counted while it is built. Without one, as in a test of a handler, it
// returns one with bounds of its own.
func AnswerOf(ctx context.Context) *Answer {
	if a, ok := ctx.Value(answerKey{}).(*Answer); ok {
		return a
	}
	return &Answer{of: NewAnswers(0)}
}

// Add counts n more bytes, before they are built. Errors: ErrAnswerTooLarge, ErrAnswerLarge, ErrAnswersFull. The handler returns the error as its
// own. Each later call returns it again.
func (a *Answer) Add(n int) error {
	if a == nil {
		return nil
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	switch size := a.bytes + n; {
	case a.err != nil:
	case size > MaxAnswerBytes:
		a.err = ErrAnswerTooLarge
	case a.room > 0 && size > a.room:
		a.err = ErrAnswerLarge
	case a.large:
	case size > smallAnswer && a.of.mu.large >= a.of.places, size <= smallAnswer && a.of.mu.small+n > a.of.places*smallAnswers:
		a.err = ErrAnswersFull
	}
	if a.err == nil {
		a.resize(a.bytes + n)
	}
	return a.err
}

// set replaces the counted bytes by the size of the encoded answer, which may take more than the bounds: a handler that does not count
// answers with little more than its request has.
func (a *Answer) set(n int) {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.resize(n)
}

// resize is called with the lock held.
func (a *Answer) resize(n int) {
	if a.large {
		a.of.mu.large--
	} else {
		a.of.mu.small -= a.bytes
	}
	a.bytes, a.large = n, n > smallAnswer
	if a.large {
		a.of.mu.large++
	} else {
		a.of.mu.small += n
	}
}

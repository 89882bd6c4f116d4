package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// smallAnswer is the maximum size, in bytes, of an answer that needs no place.
	smallAnswer = 1 << 20
	// smallAnswers is the memory that small answers share, in bytes for each place.
	smallAnswers = 16 << 20
	// memoryOfPlace is the part of the process memory, in bytes, for which there is one place.
	memoryOfPlace = 512 << 20
	maxPlaces     = 4
)

var (
	// ErrAnswerTooLarge is returned for an answer above MaxAnswerBytes. The client's connection is closed.
	ErrAnswerTooLarge = fmt.Errorf("%w: the answer is too large", ErrBadRequest)
	// ErrAnswerLarge is returned for an answer above the room that the agent has for it. The agent sends the request again when it has more room.
	ErrAnswerLarge = errors.New("the answer is larger than the agent's room for it")
	// ErrAnswersFull is returned while other answers take the memory. The agent sends the request again after a pause.
	ErrAnswersFull = errors.New("other answers take the memory for answers")
)

// Answers bounds the memory of answers to forwarded requests, from their first byte until the agent's stream has taken them. Answers up to smallAnswer
// share a number of bytes. A larger answer takes one of a few places, each for MaxAnswerBytes, so it never waits once it has begun to grow.
// Answers is safe for concurrent use.
type Answers struct {
	places int
	mu     struct {
		sync.Mutex
		small int // bytes
		large int // places in use
	}
}

// NewAnswers returns the bounds for a process with a memory limit, in bytes. Each 512 MiB yields a place and 16 MiB for small answers. There are one to four
// places.
func NewAnswers(memory int64) *Answers {
	return &Answers{places: int(min(max(1, memory/memoryOfPlace), maxPlaces))}
}

// Bytes returns the bytes of all answers. Each large answer counts as MaxAnswerBytes.
func (b *Answers) Bytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.small + b.mu.large*MaxAnswerBytes
}

// Answer counts the bytes of one answer. A nil *Answer counts nothing.
type Answer struct {
	of    *Answers
	room  int // bytes that the agent takes; 0 for MaxAnswerBytes
	bytes int
	large bool
	err   error // the first error of Add, which later calls return again

	allowRepeat func() (recall func()) // nil if the agent does not repeat answers
	repeat      time.Duration          // for which the agent repeats this one; 0: not at all
}

// Repeat lets the agent repeat the answer for a time: the agent then answers equal requests itself. It returns nil if the agent does not repeat
// answers. The handler calls Repeat under the lock of the data that the answer depends on, and recall after any change of this data. recall ends
// the repetition of all answers of the virtual cluster.
func (a *Answer) Repeat(d time.Duration) (recall func()) {
	if a.allowRepeat == nil {
		return nil
	}
	a.repeat = d
	return a.allowRepeat()
}

type answerKey struct{}

// AnswerOf returns the Answer of a request's context. The handler counts the bytes of its answer there. If the context has none, as in a test of a handler,
// AnswerOf returns an Answer with bounds of its own.
func AnswerOf(ctx context.Context) *Answer {
	if a, ok := ctx.Value(answerKey{}).(*Answer); ok {
		return a
	}
	return &Answer{of: NewAnswers(0)}
}

// Add counts n more bytes. The handler calls it before it builds them, and ends with its error: ErrAnswerTooLarge, ErrAnswerLarge or ErrAnswersFull. After
// an error, each later call returns that error.
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

// set replaces the counted bytes by n, the size of the encoded answer. It ignores the bounds, because a handler that does not call Add returns little more
// than its request has.
func (a *Answer) set(n int) {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.resize(n)
}

// resize sets the counted bytes to n. Called with the lock held.
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

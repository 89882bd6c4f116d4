package owner

import (
	"errors"
	"fmt"
)

var (
	// ErrNotOwner: this replica is not the owner, or no longer. Unless it comes inside an OutcomeUnknownError, the
	// proposal had no effect and never will.
	ErrNotOwner = errors.New("not the owner")
	// ErrTooLarge: the command is larger than Config.CommandBytes. It had no effect.
	ErrTooLarge = errors.New("command is too large")
)

// OutcomeUnknownError: the command may be in the log, now or later, or not. Who must know asks the next owner, by a
// command that has one effect however often it is proposed, or by reading.
type OutcomeUnknownError struct{ Err error }

func (e *OutcomeUnknownError) Error() string { return fmt.Sprintf("outcome unknown: %v", e.Err) }

func (e *OutcomeUnknownError) Unwrap() error { return e.Err }

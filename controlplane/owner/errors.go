package owner

import (
	"errors"
	"fmt"
)

var (
	// ErrNotOwner is returned if this replica is not the owner, or no longer. Outside of an OutcomeUnknownError, the proposal never has an
	// effect.
	ErrNotOwner = errors.New("not the owner")
	// ErrTooLarge is returned if a command is larger than Config.CommandBytes. It had no effect.
	ErrTooLarge = errors.New("command is too large")
)

// OutcomeUnknownError is returned if a command may or may not enter the log. A caller finds out from the next owner, by a read or by an
// idempotent command.
type OutcomeUnknownError struct{ Err error }

func (e *OutcomeUnknownError) Error() string { return fmt.Sprintf("outcome unknown: %v", e.Err) }

func (e *OutcomeUnknownError) Unwrap() error { return e.Err }

package metadata

import "errors"

// Refused returns the result of a command, and true, if Apply would refuse all of it at a limit: *LimitError, ErrTransactionTooLarge or
// ErrConfigsTooLarge. The owner does not log a refused command, which would only take room in the log. Apply decides again about each logged
// command. Refused costs as much as the command. For InitTransaction, see AllowsTransaction.
func (s *machine) Refused(c Command) (r Result, refused bool) {
	switch c := c.(type) {
	case *CreateTopic:
		_, r.Err = s.newTopic(c)
	case *CreatePartitions:
		_, r.Err = s.topicToGrow(c)
	case *SetConfigs:
		_, _, r.Err = s.newConfigs(c)
	case *UpdateGroup:
		r.Err = s.allowsUpdate(c)
	case *AddOffsets:
		var t *transaction
		if t, r.Err = s.toAdd(&c.TransactionRef); r.Err == nil {
			r.Err = s.allowsJoin(t, c.Group)
		}
	case *CommitOffsets:
		if c.Transaction == nil {
			return s.refusedOffsets(c)
		}
		_, r.Err = s.allowsTransactionOffsets(c)
	}
	return r, atLimit(r.Err)
}

// refusedOffsets is Refused for a commit without a transaction. It returns false at the first offset that Apply would store.
func (s *machine) refusedOffsets(c *CommitOffsets) (r Result, refused bool) {
	var errs []error
	for i := range c.Offsets {
		err := s.allowsOffset(c, i)
		if err == nil {
			return Result{}, false
		}
		errs, refused = append(errs, err), refused || atLimit(err)
	}
	return Result{Value: errs}, refused
}

func atLimit(err error) bool {
	var limit *LimitError
	return errors.As(err, &limit) || errors.Is(err, ErrTransactionTooLarge) || errors.Is(err, ErrConfigsTooLarge)
}

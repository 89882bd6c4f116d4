package api

// Protocol is the number of the protocol between agents and the control plane: the messages of Session, and what agents ask of
// each other. A change that a program of the number before would misread raises the number. A program serves its own number and
// the one before, so agents and control planes can be upgraded in any order, one number at a time.
const Protocol uint32 = 1

// Agree returns the protocol of a stream between an agent and an owner, which is the lower one of theirs. ok is false if they
// are more than one apart, or if one of them names none.
func Agree(agent, owner uint32) (stream uint32, ok bool) {
	low, high := min(agent, owner), max(agent, owner)
	return low, low > 0 && high-low <= 1
}

package api

// Protocol is the number of the protocol between agents and the control plane, and among agents. A change that the previous number would
// misread raises it. A program serves its own number and the previous one. So agents and control planes can be upgraded in any
// order, one number at a time.
const Protocol uint32 = 2

// ErrandProtocol is the first protocol with errands. The owner gives none on a stream of an earlier one.
const ErrandProtocol uint32 = 2

// Agree returns the protocol of a stream: the lower number of the agent and the owner. ok is false if the numbers differ by more than one,
// or if one is 0.
func Agree(agent, owner uint32) (stream uint32, ok bool) {
	low, high := min(agent, owner), max(agent, owner)
	return low, low > 0 && high-low <= 1
}

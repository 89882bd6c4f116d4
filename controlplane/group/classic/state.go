package classic

import "strconv"

// State is where a group stands in its cycle of rebalances (ClassicGroupState).
type State uint8

// The states of a group; the package comment shows how they follow one another.
const (
	Empty State = iota
	PreparingRebalance
	CompletingRebalance
	Stable
	Dead
)

// String is the state's name as Kafka's APIs give it.
func (s State) String() string {
	switch s {
	case Empty:
		return "Empty"
	case PreparingRebalance:
		return "PreparingRebalance"
	case CompletingRebalance:
		return "CompletingRebalance"
	case Stable:
		return "Stable"
	case Dead:
		return "Dead"
	default:
		return "State(" + strconv.Itoa(int(s)) + ")"
	}
}

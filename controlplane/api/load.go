package api

// Utilization is the share of what an agent may use that is used, of the resource that it has least left of. 0 of nil.
func (l *Load) Utilization() float64 { return max(l.GetCpu(), l.GetNetwork(), l.GetBuffers()) }

// idleShare bounds the utilization of an idle agent.
const idleShare = 0.1

// Idle reports whether an agent has next to nothing to do, and its clients write nothing. Such an agent reports rarely. True of nil.
func (l *Load) Idle() bool {
	return l.GetProduceBytesPerSecond() == 0 && l.GetPutsWanted() == 0 && l.Utilization() < idleShare
}
